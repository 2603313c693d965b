// See common_stop.h.
#include "gossamer/apps/train/common_stop.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/core/host_signals.h"

namespace gossamer::apps {
namespace {

using Clock = std::chrono::steady_clock;
// The first is shorter than what the launcher leaves to workers that it stops after an error of
// one.
constexpr std::chrono::seconds kLongestWait{3}, kLongestLeave{30};
constexpr std::chrono::milliseconds kLook{20};

}  // namespace

CommonStop::CommonStop(dist::Group& group, bool together, double samples)
    : group_(group), together_(together && group.size() > 1), samples_(samples) {
  if (together_) watcher_ = start_thread([this] { watch(); });
}

CommonStop::~CommonStop() {
  if (!watcher_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  ends_.notify_all();
  watcher_.join();
}

bool CommonStop::stops_alone() const { return !together_ && stop_signal() != 0; }

void CommonStop::watch() {
  std::unique_lock lock(mutex_);
  while (!over_ && stop_signal() == 0) ends_.wait_for(lock, kLook);
  if (!over_) say(lock);
}

void CommonStop::say(const std::unique_lock<std::mutex>&) {
  if (std::exchange(said_, true)) return;
  dist::announce(group_, dist::Notice::stop, samples_);
}

bool CommonStop::begins(double samples) {
  if (!together_) return true;
  std::unique_lock lock(mutex_);
  if (stop_signal() != 0) say(lock);
  if (said_ && !last_) {
    last_ = heard_from_all(dist::Notice::stop, samples_, kLongestWait);
    without_others_ = !last_;
    if (!last_) last_ = samples_;
  }
  constexpr double kRounding = 0.5;  // a step is a sample at least
  if (last_ && samples > *last_ + kRounding) return false;
  samples_ = samples;
  return true;
}

void CommonStop::leave() {
  if (!last_ || without_others_) return;
  dist::announce(group_, dist::Notice::stopped, samples_);
  heard_from_all(dist::Notice::stopped, samples_, kLongestLeave);
}

std::optional<double> CommonStop::heard_from_all(dist::Notice what, double own,
                                                 std::chrono::seconds limit) const {
  const auto until = Clock::now() + limit;
  for (;;) {
    double largest = own;
    bool all = true;
    for (const int peer : group_.alive()) {
      // who joined does not stop with the others
      if (peer == group_.rank() || peer >= group_.started()) continue;
      const std::optional<double> said = group_.control().notice(what, peer);
      all = all && said;
      largest = std::max(largest, said.value_or(own));
    }
    if (all) return largest;
    if (Clock::now() > until) return std::nullopt;
    std::this_thread::sleep_for(kLook / 4);
  }
}

}  // namespace gossamer::apps
