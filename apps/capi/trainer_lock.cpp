// Pointers to a trainer's numbers are good while it is locked: a thread keeps its method quiet.
#include "gossamer/apps/capi/trainer.h"
#include "gossamer/apps/capi/workers.h"
#include "gossamer/core/host_signals.h"

namespace gossamer::capi {

void Trainer::check_unlocked() const {
  check<BusyError>(!locked_, "the trainer is locked; call gsm_trainer_unlock first");
}

void Trainer::lock() {
  if (method_) {
    quiet_ = release_ = false;
    refused_ = nullptr;
    keeper_ = start_thread([this] {
      std::exception_ptr refused;
      try {
        method_->quiet([&] {
          std::unique_lock lock(keeping_);
          quiet_ = true;
          changed_.notify_all();
          changed_.wait(lock, [&] { return release_; });
        });
      } catch (...) {
        refused = std::current_exception();
      }
      const std::scoped_lock lock(keeping_);
      refused_ = refused;
      quiet_ = true;
      changed_.notify_all();
    });
    std::unique_lock lock(keeping_);
    changed_.wait(lock, [&] { return quiet_; });
    if (refused_) {
      lock.unlock();
      keeper_.join();
      std::rethrow_exception(refused_);
    }
  }
  locked_ = true;
}

void Trainer::unlock() {
  check<ConfigError>(locked_, "the trainer is not locked");
  wrote(GSM_VALUE);  // before exchanges go on
  if (keeper_.joinable()) {
    {
      const std::scoped_lock lock(keeping_);
      release_ = true;
    }
    changed_.notify_all();
    keeper_.join();
  }
  locked_ = false;
}

}  // namespace gossamer::capi
