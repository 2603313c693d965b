// See cuda_module.h.
#include "gossamer/apps/cuda_module.h"

#include <filesystem>
#include <system_error>

#include "gossamer/apps/version.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/dynamic_library.h"

namespace gossamer::apps {
namespace {

namespace fs = std::filesystem;
constexpr const char* kFile = "libgossamer-cuda.so.0";

}  // namespace

CommandLine cuda_command_line_of(const std::string& file, std::string& why) {
  why.clear();
  const DynamicLibrary module({file.c_str()});
  if (!module.found()) {
    why = module.why();
    return nullptr;
  }
  const char* (*its_version)() = nullptr;
  CommandLine run = nullptr;
  module.find(its_version, "gossamer_cuda_version");
  module.find(run, "gossamer_cuda_command_line");
  if (its_version && run && its_version() == version()) return run;
  why = module.path() + " is of version " + (its_version ? its_version() : "unknown") +
        ", this program of " + version() + "; install both from one release";
  return nullptr;
}

CommandLine cuda_command_line(std::string& why) {
  why.clear();
  if (cuda::built()) return nullptr;
  // The archive places the module relative to the program, packages where libraries are searched.
  std::error_code unknown;
  const fs::path here = fs::read_symlink("/proc/self/exe", unknown).parent_path();
  const std::string beside = (here / ".." / GOSSAMER_LIBDIR / kFile).string();
  const bool moved = fs::exists(beside, unknown);
  const CommandLine run = cuda_command_line_of(moved ? beside : kFile, why);
  // The loader says of this very file that it does not exist.
  if (!moved && why.starts_with(std::string(kFile) + ": cannot open shared object file"))
    why.clear();
  return run;
}

}  // namespace gossamer::apps
