// One job at a time in a thread of its own, beside the training.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>

namespace gossamer::apps {

// Threads: one calls the functions.
class BackgroundJob {
 public:
  BackgroundJob() = default;
  ~BackgroundJob() { wait(); }
  BackgroundJob(const BackgroundJob&) = delete;
  BackgroundJob& operator=(const BackgroundJob&) = delete;

  bool busy() const { return !ends_within(std::chrono::duration<double>(0)); }
  // Waits for the job, but no longer than this: false.
  bool ends_within(std::chrono::duration<double> longest) const {
    return !end_.valid() || end_.wait_for(longest) == std::future_status::ready;
  }
  // Waits for the job before, runs this one and returns. The job, and all it holds, is gone before
  // busy() turns false.
  void start(std::function<void()> job);
  void wait();
  // Says once after each job what it threw, "" if nothing. nullopt: none has ended since.
  std::optional<std::string> ended();

 private:
  std::thread thread_;
  std::future<void> end_;
  std::string error_;    // written by the thread while it is busy
  bool untold_ = false;  // how the job ended
};

}  // namespace gossamer::apps
