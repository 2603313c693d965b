// The program `gossamer`: everything is in the library of apps/, so that tests can call it.
#include <csignal>
#include <cstring>

#include <sys/prctl.h>
#include <unistd.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/cuda_module.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/core/least_cpu.h"

// Runs before the other static objects, whose code an old CPU may not have instructions for.
[[gnu::constructor(101)]] static void refuse_an_old_cpu() {
  const char* const text = gossamer::cpu::cpu_is_too_old();
  if (!text) return;
  for (const char* part : {"gossamer: ", text, "\n"})
    if (write(STDERR_FILENO, part, std::strlen(part)) < 0) break;
  _exit(4);
}

// Under nohup SIGHUP is ignored, until a library takes it for itself as it is loaded (UCX does,
// which Gloo needs on Debian 13). Functions in .preinit_array run before that.
static bool under_nohup = false;
static void look_for_nohup() {
  struct sigaction hangup {};
  under_nohup = sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
}
[[gnu::section(".preinit_array"),
  gnu::used]] static void (*const before_libraries)() = look_for_nohup;

int main(int argc, char** argv) {
  gossamer::apps::open_standard_streams();
  // Workers are started through /proc/self/exe, after which they would be called `exe`.
  prctl(PR_SET_NAME, "gossamer");
  std::string why;
  const auto with_cuda = reinterpret_cast<gossamer::apps::CommandLine>(
      gossamer::apps::cuda_module_function(gossamer::apps::kCudaCommandLine, why));
  if (under_nohup) std::signal(SIGHUP, SIG_IGN);
  if (with_cuda) return with_cuda(argc, argv);
  if (!why.empty()) gossamer::apps::say("without CUDA: " + why);
  return gossamer::apps::command_line(argc, argv);
}
