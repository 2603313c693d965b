// The fake GPUs of a machine, at work beside the threads of a test.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "dist/gpu/fakes.h"

namespace gossamer::dist::fake {

// Devices run beside the workers, each in a thread of its own, unless the test holds them.
class Devices {
 public:
  Devices(Machine& machine, int n, bool held = false) : held_(static_cast<std::size_t>(n)) {
    for (auto& h : held_) h = held;
    for (int i = 0; i < n; ++i)
      threads_.emplace_back([this, &machine, i] {
        while (!over_)
          if (held_[static_cast<std::size_t>(i)] || !machine.step(i))
            std::this_thread::sleep_for(std::chrono::microseconds(20));
      });
  }
  ~Devices() {
    over_ = true;
    for (std::thread& t : threads_) t.join();
  }
  void hold(int i, bool on) { held_[static_cast<std::size_t>(i)] = on; }

 private:
  std::vector<std::atomic<bool>> held_;
  std::atomic<bool> over_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace gossamer::dist::fake
