// Threads that share a counter of samples.
#include "gossamer/data/work.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "gossamer/core/host_signals.h"

namespace gossamer::data {

bool for_each_sample(i64 begin, i64 end, int threads,
                     FunctionRef<void(i64, std::vector<std::byte>&)> work,
                     FunctionRef<bool(i64)> tick) {
  // Samples are begun in their order, so all before one that fails were begun, and end.
  std::atomic<i64> next{begin}, done{0}, limit{end};
  std::mutex mutex;
  std::condition_variable ended;
  std::exception_ptr error;
  int running = 0;
  std::vector<std::jthread> workers;
  const auto run = [&] {
    std::vector<std::byte> buffer;
    i64 i = next++;
    try {
      for (; i < limit; i = next++) {
        work(i, buffer);
        ++done;
      }
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (i < limit) {
        error = std::current_exception();
        limit = i;
      }
    }
    const std::scoped_lock lock(mutex);
    --running;
    ended.notify_all();
  };
  bool whole = true;
  {
    std::unique_lock lock(mutex);
    try {
      const HostSignals blocked;
      for (int t = 0; t < threads; ++t) {
        workers.emplace_back(run);
        ++running;
      }
    } catch (...) {
      // fewer threads than wanted are enough, but at least one is needed
      if (workers.empty()) throw;
    }
    while (!ended.wait_for(lock, std::chrono::milliseconds(100), [&] { return running == 0; })) {
      lock.unlock();
      if (!tick(done)) {
        limit = begin;
        whole = false;
      }
      lock.lock();
    }
  }
  workers.clear();
  if (error) std::rethrow_exception(error);
  return tick(done) && whole;
}

}  // namespace gossamer::data
