// See cuda_module.h.
#include "gossamer/apps/cuda_module.h"

#include <filesystem>
#include <system_error>

#include <dlfcn.h>
#include <link.h>

#include "gossamer/apps/version.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/dynamic_library.h"

namespace gossamer::apps {
namespace {

namespace fs = std::filesystem;
constexpr const char* kFile = "libgossamer-cuda.so.0";

// The file that holds this code: a program, or the library for C.
fs::path own_file() {
  Dl_info info{};
  link_map* map = nullptr;
  const bool known = dladdr1(reinterpret_cast<void*>(&own_file), &info,
                             reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0;
  // The name of a program is empty.
  std::error_code unknown;
  if (known && map && map->l_name && *map->l_name) return fs::absolute(map->l_name, unknown);
  return fs::read_symlink("/proc/self/exe", unknown);
}

}  // namespace

void* cuda_module_function_of(const std::string& file, const char* name, std::string& why) {
  why.clear();
  const DynamicLibrary module({file.c_str()});
  if (!module.found()) {
    why = module.why();
    return nullptr;
  }
  const char* (*its_version)() = nullptr;
  void (*function)() = nullptr;
  module.find(its_version, "gossamer_cuda_version");
  module.find(function, name);
  if (its_version && function && its_version() == version())
    return reinterpret_cast<void*>(function);
  why = module.path() + " is of version " + (its_version ? its_version() : "unknown") +
        ", this is " + version() + "; install both from one release";
  return nullptr;
}

void* cuda_module_function(const char* name, std::string& why) {
  why.clear();
  if (cuda::built()) return nullptr;
  // The archive and packages place the module in the folder of libraries: beside the one for C.
  std::error_code unknown;
  const fs::path here = own_file().parent_path();
  for (const fs::path& folder : {here, here / ".." / GOSSAMER_LIBDIR})
    if (fs::exists(folder / kFile, unknown))
      return cuda_module_function_of((folder / kFile).string(), name, why);
  void* const function = cuda_module_function_of(kFile, name, why);
  // The loader says of this very file that it does not exist.
  if (why.starts_with(std::string(kFile) + ": cannot open shared object file")) why.clear();
  return function;
}

}  // namespace gossamer::apps
