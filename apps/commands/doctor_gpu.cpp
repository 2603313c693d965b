// The GPU part of `gossamer doctor`: driver, GPUs, copies between them, the vendor's libraries,
// shared memory.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>

#include "gossamer/apps/commands/doctor.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/cuda/cublas_gemm.h"
#include "gossamer/core/cuda/cudnn_plan.h"
#include "gossamer/core/dynamic_library.h"
#include "gossamer/core/error.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

// 13000: 13.0
std::string release(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string nccl_version() {
  const DynamicLibrary library{"libnccl.so.2"};
  int (*get)(int*) = nullptr;
  library.find(get, "ncclGetVersion");
  return version_text([&] {
    int version = 0;
    check<DeviceError>(get && get(&version) == 0, library.why());
    return static_cast<std::size_t>(version);
  });
}

// "580.95.05", or "" if a container hides it.
std::string driver_number() {
  std::string number;
  std::getline(std::ifstream("/sys/module/nvidia/version"), number);
  return number;
}

// A note, or a problem if there is a GPU that cannot be used.
Check no_gpu() {
  const bool present = fs::exists("/dev/nvidiactl") || fs::exists("/proc/driver/nvidia/version");
  if (const cuda::Versions v = cuda::versions(); v.driver_is_too_old())
    return old_driver(driver_number(), v);
  const std::string text =
      fmt::format("{}; this program computes on the CPU ({})",
                  present ? "an NVIDIA driver is loaded, but no GPU can be used" : "no NVIDIA GPU",
                  cuda::why_none());
  if (present && cuda::built())
    return {Verdict::problem, "gpu", text,
            "run nvidia-smi; in a container, start it with --gpus all"};
  return {Verdict::note, "gpu", text, ""};
}

Check one_gpu(int index) {
  const Device device = Device::cuda(index);
  const cuda::Properties& p = cuda::properties(device);
  const std::string subject = fmt::format("cuda:{}", index);
  try {
    const cuda::FreeMemory memory = cuda::free_memory(device);
    const double gib = 1073741824.0;
    const std::string text = fmt::format(
        "{} ({}), compute capability {}.{}, {} multiprocessors, {:.1f} of {:.1f} GiB free, {:.0f} "
        "GB/s",
        p.name, p.pci_bus_id, p.major, p.minor, p.multiprocessors,
        static_cast<double>(memory.free) / gib, static_cast<double>(memory.total) / gib,
        p.bandwidth / 1e9);
    if (p.major < 8)
      return {Verdict::problem, subject, text,
              "compute capability 8.0 (A100) or newer is needed: bf16 on tensor cores"};
    if (memory.free < memory.total / 2)
      return {Verdict::note, subject, text,
              "other programs hold more than half of its memory: nvidia-smi lists them"};
    return {Verdict::ok, subject, text, ""};
  } catch (const DeviceError& e) {
    return {Verdict::problem, subject, e.what(),
            "run nvidia-smi; a GPU in a bad state needs a reset or a restart"};
  }
}

Check driver() {
  const cuda::Versions v = cuda::versions();
  const std::string number = driver_number();
  return {Verdict::ok, "driver",
          fmt::format("{}for CUDA {}, program built with CUDA {}",
                      number.empty() ? "" : number + ", ", release(v.driver), release(v.runtime)),
          ""};
}

Check libraries() {
  const std::string cudnn = cudnn::library_version(), cublas = cublas::library_version(),
                    nccl = nccl_version();
  const bool complete = !cudnn.starts_with("not") && !cublas.starts_with("not"),
             with_nccl = !nccl.starts_with("not");
  const std::string text = fmt::format("cuDNN {}; cuBLASLt {}; NCCL {}", cudnn, cublas, nccl);
  if (complete && with_nccl) return {Verdict::ok, "libraries", text, ""};
  const bool gpu = cuda::device_count() > 0;
  const int major = cuda::versions().runtime / 1000;
  return {gpu && !complete ? Verdict::problem : Verdict::note, "libraries", text,
          complete
              ? fmt::format("without NCCL, GPUs of several machines exchange through the host: pip "
                            "install nvidia-nccl-cu{} and add its folder to LD_LIBRARY_PATH",
                            major)
              : fmt::format("for training on GPUs: pip install nvidia-cudnn-cu{} nvidia-cublas{}, "
                            "their folders into LD_LIBRARY_PATH",
                            major, major < 13 ? "-cu12" : "")};
}

Check peers(int count) {
  std::string without;
  int pairs = 0;
  for (int a = 0; a < count; ++a)
    for (int b = 0; b < count; ++b) {
      if (a == b) continue;
      if (cuda::can_access_peer(Device::cuda(a), Device::cuda(b)))
        ++pairs;
      else
        without += fmt::format("{}{}-{}", without.empty() ? "" : ", ", a, b);
    }
  if (without.empty())
    return {Verdict::ok, "peers", fmt::format("direct copies between all {} GPUs", count), ""};
  return {
      Verdict::note, "peers",
      fmt::format("{} ordered pairs copy directly, not: {}", pairs, without),
      "the others copy through the host; a virtual machine or an IOMMU may forbid direct copies"};
}

Check shared_memory() {
  std::error_code error;
  const fs::space_info space = fs::space("/dev/shm", error);
  if (error)
    return {Verdict::note, "/dev/shm", "missing", "NCCL needs it between processes of one machine"};
  const double mib = static_cast<double>(space.capacity) / 1048576.0;
  const std::string text = fmt::format("{:.0f} MiB", mib);
  if (mib >= 512) return {Verdict::ok, "/dev/shm", text, ""};
  return {Verdict::note, "/dev/shm", text,
          "NCCL over the network takes 33 MiB for each neighbour; start the container with "
          "--shm-size=1g or --ipc=host"};
}

}  // namespace

Check old_driver(const std::string& number, const cuda::Versions& v) {
  const char* const needed = v.runtime >= 13000 ? "580" : "525";
  const std::string built = release(v.runtime);
  std::string package = built;
  std::ranges::replace(package, '.', '-');
  return {Verdict::problem, "driver",
          fmt::format("the NVIDIA driver {}is for CUDA {}; this program was built with CUDA {} and "
                      "needs >= {}",
                      number.empty() ? "" : number + " ", release(v.driver), built, needed),
          fmt::format("install driver {} or newer; or, for a data-centre GPU, NVIDIA's package "
                      "cuda-compat-{}, and put /usr/local/cuda-{}/compat first in LD_LIBRARY_PATH",
                      needed, package, built)};
}

std::vector<Check> gpu_checks() {
  const int count = cuda::device_count();
  if (count == 0) {
    std::vector<Check> none{no_gpu()};
    if (cuda::built()) none.push_back(libraries());
    return none;
  }
  std::vector<Check> found{driver()};
  for (int i = 0; i < count; ++i) found.push_back(one_gpu(i));
  found.push_back(libraries());
  // The first step shows whether kernels, cuDNN and cuBLASLt work together; no plan is measured.
  CudaOptions quick;
  quick.autotune = false;
  configure_cuda(quick);
  for (int i = 0; i < count; ++i)
    found.push_back(first_step(fmt::format("step {}", i), Device::cuda(i)));
  if (count > 1) found.push_back(peers(count));
  found.push_back(shared_memory());
  return found;
}

}  // namespace gossamer::apps
