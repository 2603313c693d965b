// Where workers that step together stop. A signal reaches each of them at another moment, in
// another step, and who stops first looks like a death to the others: what they save would lack
// its part, and the resumed run would be another training. So each says before how many samples it
// can't stop, and all go on to the largest of these numbers. None has passed it: a worker says its
// number once, and before it begins a step beyond, it waits for those of the others.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "gossamer/dist/transport.h"

namespace gossamer::apps {

class CommonStop {
 public:
  // together: whether they do step together; otherwise each stops by itself.
  // samples: that all have seen
  CommonStop(dist::Group&, bool together, double samples);
  ~CommonStop();
  CommonStop(const CommonStop&) = delete;
  CommonStop& operator=(const CommonStop&) = delete;

  // Whether this worker stops here, whatever the others do.
  bool stops_alone() const;
  // Before a gradient whose update ends at `samples` of all workers together: false if all stop
  // before it. May wait for the others, at most 3 s; then it stops without them.
  bool begins(double samples);
  // Some others have not said where they can stop, as where the signal came to this worker alone.
  bool without_others() const { return without_others_; }
  // After the state is saved: others may still need what this worker has sent in its last step, or
  // have that step to do. Waits for them, at most 30 s.
  void leave();

 private:
  void watch();
  void say(const std::unique_lock<std::mutex>&);
  // The largest value of all living workers, this one's included, once all have said one; none
  // after the limit.
  std::optional<double> heard_from_all(dist::Notice, double own, std::chrono::seconds limit) const;

  dist::Group& group_;
  const bool together_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool over_ = false, said_ = false, without_others_ = false;
  double samples_;              // that all have seen once this worker's step is done
  std::optional<double> last_;  // where all stop
  // Says this worker's number also while its step waits for others.
  std::thread watcher_;
};

}  // namespace gossamer::apps
