// See cancel.h.
#include "gossamer/apps/capi/cancel.h"

#include <thread>

#include "gossamer/core/host_signals.h"
#include "gossamer/core/parallel.h"

namespace gossamer::capi {
namespace {

thread_local std::shared_ptr<Cancel> current;

std::atomic<int> running = 0;

}  // namespace

void Cancel::set(bool on) {
  {
    const std::scoped_lock lock(mutex_);
    flag_ = on;
  }
  changed_.notify_all();
}

bool Cancel::wait(const std::function<bool()>& test) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return test() || flag_; });
  return test();
}

void Cancel::changed() {
  { const std::scoped_lock lock(mutex_); }  // who waits is either before its test or asleep
  changed_.notify_all();
}

const std::shared_ptr<Cancel>& own_cancel() { return current; }

void run_waiting(std::function<void()> f) {
  run_until_left([f = std::move(f)](const std::atomic<bool>&) { f(); });
}

void run_until_left(std::function<void(const std::atomic<bool>& left)> f) {
  const std::shared_ptr<Cancel> cancel = current;
  if (!cancel) return f(false);
  if (cancel->flag()) throw Cancelled("cancelled by another thread");
  struct End {
    std::atomic<bool> done = false, left = false;
    std::exception_ptr error;
  };
  const auto end = std::make_shared<End>();
  ++running;
  std::thread thread =
      start_thread([end, cancel, threads = compute_threads(), f = std::move(f)]() mutable {
        set_compute_threads(threads);
        try {
          f(end->left);
        } catch (...) {
          end->error = std::current_exception();
        }
        f = nullptr;  // what it holds ends before the caller knows
        end->done = true;
        cancel->changed();
        --running;
      });
  if (cancel->wait([&] { return end->done.load(); })) {
    thread.join();
    if (end->error) std::rethrow_exception(end->error);
    return;
  }
  end->left = true;  // the caller may take its cancel back at once
  thread.detach();
  throw Cancelled("cancelled by another thread; what was waited for ends by its deadline");
}

int waiting_calls() { return running; }

}  // namespace gossamer::capi

using namespace gossamer;
using namespace gossamer::capi;

gsm_status gsm_cancel_new(gsm_cancel** cancel) {
  return guarded([&] {
    check_given("cancel", cancel);
    *cancel = static_cast<gsm_cancel*>(add_object(std::make_shared<Cancel>()));
  });
}

gsm_status gsm_cancel_use(gsm_cancel* cancel) {
  return guarded(
      [&] { current = cancel ? gossamer::capi::Shared<Cancel>(cancel).object() : nullptr; });
}

gsm_status gsm_cancel_set(gsm_cancel* cancel, int32_t on) {
  return guarded([&] { gossamer::capi::Shared<Cancel>(cancel)->set(on != 0); });
}

gsm_status gsm_cancel_free(gsm_cancel* cancel) {
  return guarded([&] { free_object<Cancel>(cancel); });
}
