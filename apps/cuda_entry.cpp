// What libgossamer-cuda.so.0 shows: see cuda_module.h.
#include "gossamer/apps/commands.h"
#include "gossamer/apps/version.h"

extern "C" const char* gossamer_cuda_version() {
  static const std::string version = gossamer::apps::version();
  return version.c_str();
}

extern "C" int gossamer_cuda_command_line(int argc, char** argv) {
  return gossamer::apps::command_line(argc, argv);
}
