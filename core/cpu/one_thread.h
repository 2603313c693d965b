// OpenMP's number of threads, which oneDNN asks for.
#pragma once

#include <dlfcn.h>

namespace gossamer::cpu {

// While it lives, OpenMP tells oneDNN that the calling thread may use one thread. OpenMP's
// functions are looked up at run time, because only oneDNN is linked with it.
class OneThread {
 public:
  OneThread() : before_(get() ? get()() : 0) {
    if (set()) set()(1);
  }
  ~OneThread() {
    if (set()) set()(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  static int (*get())() {
    static const auto it = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
    return it;
  }
  static void (*set())(int) {
    static const auto it =
        get() ? reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"))
              : nullptr;
    return it;
  }
  int before_;
};

}  // namespace gossamer::cpu
