// See founders.h.
#include "gossamer/apps/train/founders.h"

#include "gossamer/core/error.h"

namespace gossamer::apps {

Founders::Founders(dist::Group& group, int size, dist::Seconds limit)
    : group_(group), size_(size), limit_(limit) {}

void Founders::heard(const std::string& what, int peer) {
  if (peer >= size_) return;
  const std::scoped_lock lock(mutex_);
  if (what == "left") left_.insert(peer);
  if (what == "joined") left_.erase(peer);
}

void Founders::check() {
  using Clock = std::chrono::steady_clock;
  const std::scoped_lock lock(mutex_);
  gossamer::check<DistError>(std::ssize(left_) < size_,
                             "the workers that began this run have stopped, so this one, which had "
                             "joined it, ends too");
  for (int rank = 0; rank < size_; ++rank)
    if (group_.control().alive(rank) && !left_.contains(rank)) return alone_since_.reset();
  const auto now = Clock::now();
  if (!alone_since_) alone_since_ = now;
  const dist::Seconds alone = now - *alone_since_;
  gossamer::check<DistError>(alone < limit_,
                             "none of the workers that began this run has been there for ",
                             limit_.count(), " s, so this one, which had joined it, ends too");
}

}  // namespace gossamer::apps
