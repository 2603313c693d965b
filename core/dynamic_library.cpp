// dlopen and dlsym, with the loader's words kept for the error message.
#include "gossamer/core/dynamic_library.h"

#include <dlfcn.h>
#include <link.h>

#include "gossamer/core/error.h"

namespace gossamer {

DynamicLibrary::DynamicLibrary(std::initializer_list<const char*> names) {
  for (const std::string folder : {"", "/usr/local/cuda/lib64/"})
    for (const char* name : names) {
      handle_ = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_) return;
      if (const char* const text = dlerror(); text && why_.empty()) why_ = text;
    }
}

std::string DynamicLibrary::path() const {
  link_map* map = nullptr;
  if (!handle_ || dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || !map || !map->l_name) return "";
  return map->l_name;
}

void* DynamicLibrary::address(const char* name) const {
  return handle_ ? dlsym(handle_, name) : nullptr;
}

std::string version_text(FunctionRef<std::size_t()> version) {
  try {
    const std::size_t v = version();
    return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
           std::to_string(v % 100);
  } catch (const Error& e) {
    return std::string("not found: ") + e.what();
  }
}

}  // namespace gossamer
