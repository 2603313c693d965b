// `gossamer doctor`: facts about this machine and build, each with a verdict and, where needed,
// what to do.
#include "gossamer/apps/commands/doctor.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <set>
#include <sstream>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/launch/process.h"
#include "gossamer/apps/machine.h"
#include "gossamer/apps/version.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/cores.h"
#include "gossamer/core/free_memory.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/models/registry.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

Check cpu() {
  std::istringstream flags(first_line_after("/proc/cpuinfo", "flags"));
  const std::set<std::string> have{std::istream_iterator<std::string>(flags), {}};
  std::string list;
  for (const char* f : {"avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"})
    if (have.contains(f)) list += std::string(list.empty() ? "" : " ") + f;
  const Cores here = usable_cores();
  const std::string text =
      fmt::format("{}, {} of {} cores for this process{}, {}", processor(), here.count, here.of,
                  here.limit.empty() ? "" : fmt::format(" (limit: {})", here.limit),
                  list.empty() ? "no AVX2" : list);
  if (!have.contains("avx2"))
    return {Verdict::problem, "cpu", text,
            "without AVX2 training is several times slower; use a newer machine"};
  if (!have.contains("avx512_bf16") && !have.contains("amx_bf16"))
    return {Verdict::note, "cpu", text,
            "no bf16 instructions: train.dtype=bf16 will be slow, use f32"};
  return {Verdict::ok, "cpu", text, ""};
}

Check load() {
  const std::string taken = taken_text(CoreWatch().taken(), cores());
  return taken.empty() ? Check{Verdict::ok, "load", "the cores are free", ""}
                       : Check{Verdict::note, "load", taken,
                               "training will be slower; end other programs, or use less of the "
                               "machine: train.threads"};
}

Check memory() {
  const double total = memory_gib(),
               free = std::min(total, static_cast<double>(free_main_memory()) / (1 << 30));
  const std::string text = fmt::format("{:.1f} GiB, {:.1f} available", total, free);
  return free < 1 ? Check{Verdict::problem, "memory", text,
                          "less than 1 GiB is free: close other programs or use fewer workers"}
                  : Check{Verdict::ok, "memory", text, ""};
}

Check engine() {
  const std::string text =
      fmt::format("backends {}; oneDNN {}; own kernels for {}", listed(backend_names()),
                  onednn_version(), cpu::kernel_set());
  return {Verdict::ok, "engine", text, ""};
}

Check network() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool ok = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                  listen(fd, 1) == 0;
  const std::string why = std::strerror(errno);
  if (fd >= 0) close(fd);
  if (!ok)
    return {Verdict::problem, "network", "cannot listen on 127.0.0.1: " + why,
            "workers communicate over TCP: allow sockets in this container"};
  return has_gloo() ? Check{Verdict::ok, "network", "TCP on 127.0.0.1 works; Gloo is built in", ""}
                    : Check{Verdict::problem, "network", "TCP works, but this build has no Gloo",
                            "install libgloo-dev and build again; one worker needs no Gloo"};
}

Check launchers() {
  std::string list = "--workers";
  if (!found_in_path("ssh").empty()) list += ", --hosts (ssh)";
  if (const std::string mpirun = found_in_path("mpirun"); !mpirun.empty()) {
    const bool mpich =
        mpirun.find("hydra") != std::string::npos || mpirun.find("mpich") != std::string::npos;
    const bool open_mpi = mpirun.find("orte") != std::string::npos ||
                          mpirun.find("openmpi") != std::string::npos ||
                          mpirun.find("prte") != std::string::npos;
    list += mpich ? ", mpirun (MPICH)" : open_mpi ? ", mpirun (Open MPI)" : ", mpirun";
  }
  for (const char* other : {"mpiexec.hydra", "srun", "torchrun"})
    if (!found_in_path(other).empty()) list += std::string(", ") + other;
  return {Verdict::ok, "launchers", list, ""};
}

Check disk() {
  std::error_code error;
  const fs::space_info space = fs::space(".", error);
  const fs::path probe = fs::path("runs") / ".doctor";
  try {
    const bool made = fs::create_directory("runs", error);
    const auto begin = std::chrono::steady_clock::now();
    write_file(probe, std::string(1 << 20, 'x'));
    const double ms =
        1e3 * std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    fs::remove(probe, error);
    if (made) fs::remove("runs", error);
    const std::string text =
        fmt::format("{:.1f} GiB free here; 1 MiB written and synced in {:.1f} ms",
                    static_cast<double>(space.available) / 1073741824.0, ms);
    return space.available < (1ull << 30) ? Check{Verdict::problem, "disk", text,
                                                  "less than 1 GiB is free: checkpoints may fail"}
                                          : Check{Verdict::ok, "disk", text, ""};
  } catch (const std::exception& e) {
    return {Verdict::problem, "disk", e.what(),
            "runs/ cannot be written here: change the folder or use run.dir=FOLDER"};
  }
}

Check limits() {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  const std::string text =
      fmt::format("{} open files per process", static_cast<unsigned long long>(files.rlim_cur));
  return files.rlim_cur < 256 ? Check{Verdict::problem, "limits", text, "raise it: ulimit -n 1024"}
                              : Check{Verdict::ok, "limits", text, ""};
}

Check build() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return {Verdict::note, "build",
          fmt::format("{} ({}), {}, with a sanitizer", version(), git_hash(), compiler()),
          "sanitizers make it slow; for speed, build without"};
#elif defined(NDEBUG)
  return {Verdict::ok, "build",
          fmt::format("{} ({}), {}, optimised", version(), git_hash(), compiler()), ""};
#else
  return {Verdict::note, "build",
          fmt::format("{} ({}), {}, not a release build", version(), git_hash(), compiler()),
          "for speed: cmake -DCMAKE_BUILD_TYPE=Release"};
#endif
}

}  // namespace

Check first_step(const std::string& subject, Device device) {
  try {
    const auto net = models::make("resnet8-cifar", {.classes = 10});
    net->to(device);
    const Tensor x = Tensor::full({4, 32, 32, 3}, 0.5f).to(device),
                 labels = Tensor::zeros({4}, DType::i32).to(device);
    const auto begin = std::chrono::steady_clock::now();
    const Tensor loss = cross_entropy((*net)(x), labels);
    loss.backward();
    const float value = loss.item();
    const double ms =
        1e3 * std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return {
        Verdict::ok, subject,
        fmt::format("first step of resnet8-cifar on 4 images: {:.0f} ms, loss {:.3f}", ms, value),
        ""};
  } catch (const std::exception& e) {
    return {Verdict::problem, subject, e.what(),
            "a training step fails: run tests/run and report its output"};
  }
}

int doctor(const DoctorCommand& command) {
  std::vector<Check> checks{build(),   cpu(),      load(),
                            memory(),  engine(),   first_step("training", Device::cpu()),
                            network(), launchers()};
  std::ranges::move(gpu_checks(), std::back_inserter(checks));
  checks.insert(checks.end(),
                {disk(), limits(), {Verdict::ok, "models", listed(models::names()), ""}});
  const char* const words[] = {"ok", "note", "PROBLEM"};
  const auto problems = std::ranges::count(checks, Verdict::problem, &Check::verdict);
  if (command.json) {
    std::vector<JsonObject> rows;
    for (const Check& f : checks) {
      JsonObject row;
      row.add("subject", f.subject)
          .add("verdict", f.verdict == Verdict::ok     ? "ok"
                          : f.verdict == Verdict::note ? "note"
                                                       : "problem");
      row.add("text", f.text).add("fix", f.fix);
      rows.push_back(row);
    }
    fmt::print("{}\n", JsonObject()
                           .add("problems", problems)
                           .add("kernels", cpu::kernel_set())
                           .add("findings", rows)
                           .str());
  } else {
    for (const Check& f : checks) {
      fmt::print("{:<8} {:<9} {}\n", words[static_cast<int>(f.verdict)], f.subject, f.text);
      if (!f.fix.empty()) fmt::print("{:<8} {:<9} -> {}\n", "", "", f.fix);
    }
    fmt::print("{}\n",
               problems == 0 ? "ready to train" : fmt::format("{} problem(s) to fix", problems));
  }
  return problems == 0 ? 0 : 4;
}

}  // namespace gossamer::apps
