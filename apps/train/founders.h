// The workers that began a run, as one that joined it sees them. The run is theirs: they write its
// results and checkpoints, and who stops it stops them. So a worker that joined does not train on
// for ever when they are gone.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "gossamer/dist/net/launch.h"

namespace gossamer::apps {

class Founders {
 public:
  // size: how many began the run. limit: how long none may be there, unless all have taken leave.
  Founders(dist::Group&, int size,
           dist::Seconds limit = dist::Seconds(dist::JoinOptions().alone_after_s));
  // What is heard of a worker, as MethodOptions::on_fault says it. From any thread.
  void heard(const std::string& what, int peer);
  // After a step. DistError: they are gone, and this worker ends.
  void check();

 private:
  dist::Group& group_;
  const int size_;
  const dist::Seconds limit_;
  std::mutex mutex_;
  std::set<int> left_;
  std::optional<std::chrono::steady_clock::time_point> alone_since_;
};

}  // namespace gossamer::apps
