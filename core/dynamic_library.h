// A shared library looked for while the program runs, so that one binary also works on machines
// that do not have it.
// Threads: any, but one at a time for need().
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>

#include "gossamer/core/parallel.h"

namespace gossamer {

// Looked for as dlopen does: loaded already, LD_LIBRARY_PATH, the program's own runpath, the
// system's folders; then where CUDA's toolkit is by default. Never unloaded.
class DynamicLibrary {
 public:
  // The first of `names` that opens, e.g. {"libcudnn.so.9", "libcudnn.so"}.
  explicit DynamicLibrary(std::initializer_list<const char*> names);
  bool found() const { return handle_ != nullptr; }
  // the loader's message when it was not found
  const std::string& why() const { return why_; }
  std::string path() const;  // the file; "" if not found
  // The function, or null when this version of the library lacks it.
  template <class F>
  void find(F*& function, const char* name) const {
    function = reinterpret_cast<F*>(address(name));
  }
  // The same, and remembers what is missing.
  template <class F>
  void need(F*& function, const char* name) {
    find(function, name);
    if (!function) missing_ += (missing_.empty() ? "" : ", ") + std::string(name);
  }
  const std::string& missing() const { return missing_; }  // "" or the names, with commas

 private:
  void* address(const char* name) const;
  void* handle_ = nullptr;
  std::string why_, missing_;
};

// "9.19.0" of 91900: so cuDNN, cuBLASLt and NCCL count. An Error that `version` throws becomes "not
// found: " and its words.
std::string version_text(FunctionRef<std::size_t()> version);

}  // namespace gossamer
