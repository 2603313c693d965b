// See objects.h.
#include "gossamer/apps/capi/objects.h"

#include <charconv>
#include <cmath>
#include <map>
#include <new>
#include <sstream>
#include <string_view>

#include "gossamer/apps/capi/calls.h"
#include "gossamer/apps/capi/cancel.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/cancel.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/least_cpu.h"
#include "gossamer/core/text/printable.h"

namespace gossamer::capi {
namespace {

thread_local char last_error[2048] = "";

void keep(const char* text) noexcept { std::strncpy(last_error, text, sizeof last_error - 1); }

class Table {
 public:
  void* add(std::shared_ptr<Object> object) {
    const std::scoped_lock lock(mutex_);
    next_ += 16;
    objects_[next_] = std::move(object);
    return reinterpret_cast<void*>(next_);
  }
  std::shared_ptr<Object> find(const void* handle) {
    const std::scoped_lock lock(mutex_);
    const auto at = objects_.find(reinterpret_cast<std::uintptr_t>(handle));
    return at == objects_.end() ? nullptr : at->second;
  }
  // All of them. BusyError: calls work with some; then all stay.
  std::map<std::uintptr_t, std::shared_ptr<Object>> remove_all() {
    const std::scoped_lock lock(mutex_);
    for (const auto& [handle, object] : objects_)
      check<BusyError>(std::unique_lock(object->use, std::try_to_lock).owns_lock(),
                       "a call works with a handle; cancel it, or wait for it");
    return std::exchange(objects_, {});
  }
  std::shared_ptr<Object> remove(const void* handle) {
    const std::scoped_lock lock(mutex_);
    const auto node = objects_.extract(reinterpret_cast<std::uintptr_t>(handle));
    return node ? node.mapped() : nullptr;
  }

 private:
  std::mutex mutex_;
  std::map<std::uintptr_t, std::shared_ptr<Object>> objects_;
  std::uintptr_t next_ = 0x6501;  // odd: the address of nothing
};
// never destroyed: threads may still call when the program ends
Table& table() {
  static auto* const it = new Table;
  return *it;
}

struct Log {
  std::mutex mutex;
  gsm_log_function function = nullptr;
  void* user = nullptr;
};
Log& the_log() {
  static auto* const it = new Log;
  return *it;
}

}  // namespace

void* add_object(std::shared_ptr<Object> object) { return table().add(std::move(object)); }
std::shared_ptr<Object> find_object(const void* handle) { return table().find(handle); }
// The object ends here, or with the last one that was made with it.
void remove_object(const void* handle) { table().remove(handle); }

void remove_all_objects() { table().remove_all(); }

void check_path(const char* path) {
  check_given("path", path);
  check<ArgumentError>(*path != 0, "the path is empty; give the name of a file or folder");
}

void check_images(std::int64_t n, std::int64_t height, std::int64_t width, std::int64_t channels) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  check<ArgumentError>(n >= 1 && height >= 1 && width >= 1 && n < most && height < most &&
                           width < most && height * width < most && n * height * width < most,
                       "images of [", n, ", ", height, ", ", width, ", ", channels,
                       "]; sizes must be at least 1, and their product below 2^31");
}

void check_finite(const char* name, const float* x, std::int64_t n) {
  const auto* const bad = std::find_if_not(x, x + n, [](float v) { return std::isfinite(v); });
  check<ArgumentError>(bad == x + n, name, "[", bad - x, "] is ", bad == x + n ? 0 : *bad,
                       "; wanted finite numbers");
}

void fail_busy() {
  fail<BusyError>("another thread uses this handle",
                  waiting_calls() == 0 ? ""
                                       : ", or a cancelled call that still waits for workers, at "
                                         "most until its deadline; try again then");
}

void check_index(const char* what, std::int64_t index, std::size_t count) {
  check<ArgumentError>(index >= 0 && static_cast<std::size_t>(index) < count, "there is no ", what,
                       " ", index, "; there are ", count, ", counted from 0");
}

void check_rate(double learning_rate) {
  check<ArgumentError>(learning_rate >= 0 && learning_rate < 1e30, "the learning rate is ",
                       learning_rate, "; wanted 0 or more, and below 1e30");
}

void check_gradients(const FlatParams& params) {
  if (all_finite(params.grads())) return;
  for (const FlatParams::Entry& e : params.entries())
    check<ArgumentError>(all_finite(params.grads().slice(e.offset, e.offset + e.shape.numel())),
                         "the gradient of ", e.name,
                         " is infinite or not a number somewhere; nothing was sent, and all "
                         "parameters are as they were. Look for such numbers in the data; a "
                         "smaller learning rate may help");
}

void check_numbers(const char* options,
                   std::initializer_list<std::pair<const char*, double>> numbers) {
  for (const auto& [name, value] : numbers)
    check<ArgumentError>(
        value >= 0 &&
            (std::string_view(name).ends_with("_s") ? value <= 1e9 : std::isfinite(value)),
        options, ".", name, " is ", value, "; wanted more than 0 and ",
        std::string_view(name).ends_with("_s") ? "at most 1e9 seconds" : "finite",
        ", or 0 for the default");
}

std::vector<std::string> parts_of(const char* text) {
  std::vector<std::string> out;
  std::string part;
  for (const char* at = text ? text : ""; *at; ++at)
    if (*at == ';')
      out.push_back(std::exchange(part, {}));
    else if (*at != ' ' || !part.empty())
      part += *at;
  if (!part.empty()) out.push_back(part);
  return out;
}

Settings read_settings(const char* text, const char* option) {
  Settings settings;
  std::istringstream in(text ? text : "");
  for (std::string each; in >> each;) {
    const std::size_t equals = each.find('=');
    check<ConfigError>(equals != each.npos && equals > 0, option, ": ", printable(each),
                       "; wanted NAME=VALUE, as in \"period=8 outer_rate=0.5\"");
    check<ConfigError>(!settings.find(each.substr(0, equals)), option, ": ",
                       printable(each.substr(0, equals)), " is given twice");
    settings.set(each.substr(0, equals), each.substr(equals + 1));
  }
  return settings;
}

Device device_of(const char* name) {
  const std::string_view text = name ? name : "cpu";
  if (text == "cpu") return Device::cpu();
  constexpr std::string_view kCuda = "cuda:";
  int index = 0;
  const char* const end = text.data() + text.size();
  check<ConfigError>(text.starts_with(kCuda) &&
                         std::from_chars(text.data() + kCuda.size(), end, index) ==
                             std::from_chars_result{end, {}} &&
                         index >= 0,
                     "device ", printable(std::string(text)), "; wanted cpu, or cuda:N as cuda:0");
  const int there = cuda::device_count();
  const std::string& module = why_no_module();
  check<DeviceError>(index<there, "device ", text, ": ", there> 0
                         ? "there are " + std::to_string(there) + " GPUs, the first is cuda:0"
                         : (module.empty() ? cuda::why_none() : module));
  return Device::cuda(index);
}

DType type_of(const char* name, const char* option) {
  const std::string type = name ? name : "f32";
  check<ConfigError>(type == "f32" || type == "bf16", option, ": ", printable(type),
                     "; wanted f32 or bf16");
  return type == "bf16" ? DType::bf16 : DType::f32;
}

void log_line(const std::string& line) {
  Log& log = the_log();
  const std::scoped_lock lock(log.mutex);
  if (log.function) log.function(line.c_str(), log.user);
}

gsm_status run(void (*body)(void*), void* of) noexcept {
  const auto failed = [](gsm_status status, const std::exception& e) {
    keep(e.what());
    return status;
  };
  if (const char* const why = cpu::cpu_is_too_old()) {
    keep(why);
    return GSM_ERROR_DEVICE;
  }
  try {
    body(of);
    last_error[0] = 0;
    return GSM_OK;
  } catch (const ArgumentError& e) {
    return failed(GSM_ERROR_ARGUMENT, e);
  } catch (const HandleError& e) {
    return failed(GSM_ERROR_HANDLE, e);
  } catch (const BusyError& e) {
    return failed(GSM_ERROR_BUSY, e);
  } catch (const Cancelled& e) {
    return failed(GSM_CANCELLED, e);
  } catch (const ShapeError& e) {
    return failed(GSM_ERROR_ARGUMENT, e);
  } catch (const ConfigError& e) {
    return failed(GSM_ERROR_CONFIG, e);
  } catch (const IoError& e) {
    return failed(GSM_ERROR_FILE, e);
  } catch (const DataError& e) {
    return failed(GSM_ERROR_DATA, e);
  } catch (const DeviceError& e) {
    return failed(GSM_ERROR_DEVICE, e);
  } catch (const DistError& e) {
    return failed(GSM_ERROR_WORKERS, e);
  } catch (const std::bad_alloc& e) {
    return failed(GSM_ERROR_MEMORY, e);
  } catch (const std::exception& e) {
    return failed(GSM_ERROR_INTERNAL, e);
  } catch (...) {
    keep("an exception of unknown type");
    return GSM_ERROR_INTERNAL;
  }
}

}  // namespace gossamer::capi

using namespace gossamer::capi;

const char* gsm_last_error(void) { return last_error; }

gsm_status gsm_set_log(gsm_log_function function, void* user) {
  return guarded([&] {
    Log& log = the_log();
    const std::scoped_lock lock(log.mutex);
    log.function = function;
    log.user = user;
  });
}
