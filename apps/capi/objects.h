// What is behind the handles of gossamer.h, and how its functions turn errors into statuses.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <unistd.h>

#include "gossamer/apps/capi/gossamer.h"
#include "gossamer/core/device.h"
#include "gossamer/core/dtype.h"
#include "gossamer/core/error.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/setting.h"

namespace gossamer::capi {

struct ArgumentError : Error {
  using Error::Error;
};
struct HandleError : Error {
  using Error::Error;
};
struct BusyError : Error {
  using Error::Error;
};

// What a handle stands for. An object keeps those alive that it was made with.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
  virtual bool has_threads() const { return false; }  // which a forked child lacks
  const pid_t process = getpid();
  std::shared_mutex use;  // held while a call works on it
};

// A handle is a number that is never used again, and never an address that is looked at: so any
// value can be asked for.
void* add_object(std::shared_ptr<Object>);
std::shared_ptr<Object> find_object(const void* handle);  // null: there is none
void remove_object(const void* handle);
void remove_all_objects();  // BusyError: a call works with one; then all stay

[[noreturn]] void fail_busy();  // BusyError: a call works with the object

// An object for the time of a call. Exclusive: BusyError if another call works on it; Shared: only
// if that one is exclusive. HandleError: freed, never made, or of another kind. ConfigError: its
// threads are in another process.
template <class T, class Lock>
class Use {
 public:
  explicit Use(const void* handle) : object_(std::dynamic_pointer_cast<T>(find_object(handle))) {
    check<HandleError>(object_ != nullptr, handle ? "this handle was freed, never made, or is of "
                                                    "another kind"
                                                  : "the handle is NULL");
    check<ConfigError>(!object_->has_threads() || object_->process == getpid(),
                       "this handle was made before a fork, which groups, loaders and what was "
                       "made with them don't survive; make them in this process");
    lock_ = Lock(object_->use, std::try_to_lock);
    if (!lock_.owns_lock()) fail_busy();
  }
  T* operator->() const { return object_.get(); }
  const std::shared_ptr<T>& object() const { return object_; }

 private:
  std::shared_ptr<T> object_;
  Lock lock_;
};
template <class T>
using Exclusive = Use<T, std::unique_lock<std::shared_mutex>>;
template <class T>
using Shared = Use<T, std::shared_lock<std::shared_mutex>>;

// Frees a handle; NULL is none.
template <class T>
void free_object(const void* handle) {
  if (!handle) return;
  const Exclusive<T> object(handle);
  remove_object(handle);
}

// Runs the body of a function of gossamer.h: no exception leaves it.
gsm_status run(void (*body)(void*), void* of) noexcept;
template <class F>
gsm_status guarded(F&& body) noexcept {
  return run([](void* f) { (*static_cast<F*>(f))(); }, &body);
}

// Whether a T may lie at this address. Structs are copied byte by byte.
template <class T>
bool aligned(const T* p) {
  if constexpr (std::is_scalar_v<T>)
    return reinterpret_cast<std::uintptr_t>(p) % alignof(T) == 0;
  else
    return true;
}
template <class... Pointers>
void check_given(const char* what, const Pointers*... pointers) {
  check<ArgumentError>((... && (pointers != nullptr)), what, " is NULL");
  check<ArgumentError>((... && aligned(pointers)), what,
                       " is at an address that is not a multiple of the size of its type; copy it "
                       "into memory of that type first");
}
// ArgumentError names the first number that is NaN or infinite.
void check_finite(const char* name, const float* x, std::int64_t n);

// ArgumentError: there are only `count` of what is numbered from 0.
void check_index(const char* what, std::int64_t index, std::size_t count);
void check_path(const char* path);
void check_images(std::int64_t n, std::int64_t height, std::int64_t width,
                  std::int64_t channels = 3);
void check_rate(double learning_rate);
// ArgumentError names the first parameter whose gradient is not finite. The gradients are settled.
void check_gradients(const FlatParams&);
// Numbers of a struct of options, of which 0 is the default. ArgumentError names one below 0, one
// that is not finite, and seconds (…_s) beyond 10^9, which clocks can't count.
void check_numbers(const char* options,
                   std::initializer_list<std::pair<const char*, double>> numbers);

// Structs of another version of the header: those that are shorter say nothing of the rest, those
// that are longer may say nothing that this library does not know.
template <class T>
T options_of(const T* given, const char* name) {
  T options{};
  if (!given) return options;
  const std::size_t size = given->struct_size;
  check<ArgumentError>(size >= sizeof(std::size_t) && size <= 4096, name, ".struct_size is ", size,
                       "; set it to sizeof(", name, ")");
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(T); i < size; ++i)
    check<ArgumentError>(bytes[i] == 0, name, " sets options that this library does not know; it ",
                         "is older than the header that was used");
  std::memcpy(&options, given, std::min(size, sizeof(T)));
  return options;
}
// Writes as much of a result as the caller has room for.
template <class T>
void give(const T& result, T* to, const char* name) {
  check_given(name, to);
  const std::size_t size = to->struct_size;
  check<ArgumentError>(size >= sizeof(std::size_t) && size <= 4096, name, ".struct_size is ", size,
                       "; set it to sizeof(", name, ")");
  std::memcpy(to, &result, std::min(size, sizeof(T)));
  to->struct_size = size;
}

// "period=8 outer_rate=0.5"; NULL: nothing is said. option: for errors.
Settings read_settings(const char* text, const char* option);
// What stands between semicolons; NULL: nothing.
std::vector<std::string> parts_of(const char* text);
// cpu | cuda:N; NULL: cpu. ConfigError: it is neither. DeviceError: there is no such GPU.
Device device_of(const char* name);
// f32 | bf16; NULL: f32. ConfigError names the option.
DType type_of(const char* name, const char* option);

void log_line(const std::string&);  // to the installed function, if there is one

}  // namespace gossamer::capi
