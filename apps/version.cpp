// Versions of this build and of the libraries it runs with, asked of the loaded libraries
// themselves.
#include "gossamer/apps/version.h"

#include <dlfcn.h>

#ifndef GOSSAMER_VERSION
#define GOSSAMER_VERSION "0.1.0"
#endif
#ifndef GOSSAMER_GIT_HASH
#define GOSSAMER_GIT_HASH "unknown"
#endif

namespace gossamer::apps {

std::string version() { return GOSSAMER_VERSION; }
std::string git_hash() { return GOSSAMER_GIT_HASH; }

std::string compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

std::string onednn_version() {
  struct Version {  // the head of dnnl_version_t
    int major, minor, patch;
  };
  if (void* symbol = dlsym(RTLD_DEFAULT, "dnnl_version")) {
    const Version& v = *reinterpret_cast<const Version* (*)()>(symbol)();
    return std::to_string(v.major) + "." + std::to_string(v.minor) + "." + std::to_string(v.patch);
  }
  return "none";
}

bool has_gloo() {
  return dlsym(RTLD_DEFAULT, "_ZN4gloo7ContextC1Eiii") ||
         dlopen("libgloo.so.0", RTLD_LAZY | RTLD_NOLOAD);
}

}  // namespace gossamer::apps
