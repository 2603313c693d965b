// The table of GPUs, the one a thread works on, and error texts.
#ifdef GOSSAMER_HAS_CUDA
#include <atomic>
#include <cstdio>
#include <vector>

#include "gossamer/core/cuda/cuda_check.h"
#include "gossamer/core/error.h"

namespace gossamer::cuda {
namespace {

std::string what_to_do(cudaError_t status) {
  switch (status) {
    case cudaErrorMemoryAllocation:
      return "use a smaller batch, or free the GPU from other programs (nvidia-smi lists them)";
    case cudaErrorNoDevice:
      return "no GPU is visible: is one installed, and does CUDA_VISIBLE_DEVICES or the container "
             "hide it? Or use the device cpu";
    case cudaErrorInsufficientDriver:
      return "the NVIDIA driver is missing or too old for CUDA " +
             std::to_string(CUDART_VERSION / 1000) + "." +
             std::to_string(CUDART_VERSION % 1000 / 10) + ": install " +
             (CUDART_VERSION >= 13000 ? "580" : "525") + " or newer, or use the device cpu";
    case cudaErrorStubLibrary:
      return "libcuda.so.1 is the toolkit's stub: take the stubs folder out of LD_LIBRARY_PATH";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return "this build has no kernels for this GPU: configure with -DGOSSAMER_CUDA_ARCH= its "
             "compute capability, e.g. 90";
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
      return "a kernel failed, perhaps an earlier one; run the program under compute-sanitizer to "
             "see which";
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
      return "driver and libcuda.so.1 do not belong together: restart after the driver's update";
    default:
      return "nvidia-smi shows what this machine has";
  }
}

struct Table {
  std::vector<Properties> devices;
  std::string why_none;
};

// Errors name the CPU: to name the GPU, fail_call() would ask for the table that is being made.
Properties read_properties(int index) {
  const Device device = Device::cpu();
  cudaDeviceProp p{};
  check_call(cudaGetDeviceProperties(&p, index), "cudaGetDeviceProperties", device);
  Properties out;
  char pci[32] = "";
  std::snprintf(pci, sizeof pci, "%04x:%02x:%02x.0", static_cast<unsigned>(p.pciDomainID),
                static_cast<unsigned>(p.pciBusID), static_cast<unsigned>(p.pciDeviceID));
  out.name = p.name;
  out.pci_bus_id = pci;
  for (const char byte : p.uuid.bytes) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    out.uuid += hex;
  }
  out.major = p.major;
  out.minor = p.minor;
  out.multiprocessors = p.multiProcessorCount;
  out.memory = p.totalGlobalMem;
  out.l2 = static_cast<std::size_t>(p.l2CacheSize);
  int clock_khz = 0;
  if (cudaDeviceGetAttribute(&clock_khz, cudaDevAttrMemoryClockRate, index) == cudaSuccess)
    out.bandwidth = 2.0 * clock_khz * 1e3 * p.memoryBusWidth / 8;  // two transfers a clock
  return out;
}

const Table& table() {
  // never destroyed: blocks of static tensors may outlive main()
  static const Table* const it = [] {
    auto* const made = new Table;
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
      const cudaError_t shown = status == cudaSuccess ? cudaErrorNoDevice : status;
      made->why_none = std::string(cudaGetErrorString(shown)) + "; " + what_to_do(shown);
      cudaGetLastError();  // or the next call would report it
      return made;
    }
    try {
      for (int i = 0; i < count; ++i) made->devices.push_back(read_properties(i));
    } catch (const DeviceError& e) {
      made->devices.clear();
      made->why_none = e.what();
    }
    return made;
  }();
  return *it;
}

std::atomic<std::uint64_t> wait_count{0};
thread_local int selected = -1;
std::atomic<int> first_selected{-1};

}  // namespace

bool built() { return true; }
int device_count() { return static_cast<int>(table().devices.size()); }
std::string why_none() { return table().why_none; }

Versions versions() {
  Versions v{0, CUDART_VERSION};
  if (cudaDriverGetVersion(&v.driver) != cudaSuccess) cudaGetLastError();
  return v;
}

const Properties& properties(Device device) {
  const auto& devices = table().devices;
  check<DeviceError>(!device.is_cpu(), "properties: ", device, " is not a GPU");
  check<DeviceError>(!devices.empty(), device, ": there is no GPU: ", table().why_none);
  check<DeviceError>(device.index >= 0 && device.index < device_count(), device,
                     ": this machine has ", device_count(),
                     " GPU(s), cuda:0 to cuda:", device_count() - 1);
  return devices[static_cast<std::size_t>(device.index)];
}

void fail_call(cudaError_t status, const char* call, Device device) {
  // an error that can be cleared is: the caller has it now
  cudaGetLastError();
  std::string name;
  if (!device.is_cpu() && device.index < device_count())
    name = " (" + properties(device).name + ")";
  fail<DeviceError>(call, " on ", device, name, ": ", cudaGetErrorString(status), " (",
                    cudaGetErrorName(status), "); ", what_to_do(status));
}

void select(Device device) {
  if (device.index == selected) return;
  (void)properties(device);
  check_call(cudaSetDevice(device.index), "cudaSetDevice", device);
  selected = device.index;
  int none = -1;
  first_selected.compare_exchange_strong(none, device.index);
}

void select_any() {
  if (selected >= 0) return;
  if (const int first = first_selected; first >= 0) select(Device::cuda(first));
}

UseDevice::UseDevice(Device device) : before_(selected) { select(device); }
UseDevice::~UseDevice() {
  if (before_ < 0 || before_ == selected) return;
  if (cudaSetDevice(before_) == cudaSuccess) selected = before_;
}

FreeMemory free_memory(Device device) {
  const UseDevice use(device);
  FreeMemory memory;
  check_call(cudaMemGetInfo(&memory.free, &memory.total), "cudaMemGetInfo", device);
  return memory;
}

bool can_access_peer(Device from, Device to) {
  (void)properties(from), (void)properties(to);
  if (from == to) return true;
  int can = 0;
  check_call(cudaDeviceCanAccessPeer(&can, from.index, to.index), "cudaDeviceCanAccessPeer", from);
  return can != 0;
}

void count_wait() { wait_count.fetch_add(1, std::memory_order_relaxed); }
std::uint64_t waits() { return wait_count.load(std::memory_order_relaxed); }

}  // namespace gossamer::cuda
#endif
