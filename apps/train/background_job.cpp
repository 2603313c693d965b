// See background_job.h.
#include "gossamer/apps/train/background_job.h"

#include <exception>
#include <utility>

#include "gossamer/core/host_signals.h"

namespace gossamer::apps {

void BackgroundJob::start(std::function<void()> job) {
  wait();
  error_.clear();
  untold_ = true;
  std::promise<void> end;
  end_ = end.get_future();
  thread_ = start_thread([this, job = std::move(job), end = std::move(end)]() mutable {
    try {
      job();
    } catch (const std::exception& e) {
      error_ = e.what();
    }
    job = nullptr;
    end.set_value();
  });
}

void BackgroundJob::wait() {
  if (thread_.joinable()) thread_.join();
}

std::optional<std::string> BackgroundJob::ended() {
  if (busy() || !std::exchange(untold_, false)) return std::nullopt;
  return error_;
}

}  // namespace gossamer::apps
