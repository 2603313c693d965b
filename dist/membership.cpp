// Collectives over the living.
#include "gossamer/dist/membership.h"

#include <algorithm>
#include <numeric>
#include <thread>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {
constexpr int kGraceMs = 4000, kPollMs = 5;      // a failed collective is often noticed before the death behind it
}

std::vector<int> Membership::alive() const {
  std::vector<int> out;
  for (const int rank : group_.alive())
    if (!left_.contains(rank)) out.push_back(rank);
  return out;
}

std::vector<int> Membership::members() const {
  if (!built_for_.empty()) return built_for_;
  std::vector<int> all(static_cast<std::size_t>(group_.size()));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

void Membership::run(FunctionRef<void(Collectives&)> op) {
  for (;;) {
    const std::vector<int> members = alive();
    const int count = static_cast<int>(members.size());
    check<DistError>(count >= min_workers_, "worker ", group_.rank(), ": only ", count, " of ", group_.size(), " workers are alive, at least ",
                     min_workers_, " are wanted; resume from the last checkpoint");
    check<DistError>(std::ranges::find(members, group_.rank()) != members.end(), "worker ", group_.rank(),
                     ": the others have given this worker up; it can't go on with them");
    try {
      const bool all = built_for_.empty() && count == group_.size();
      if (!all && members != built_for_) {
        // The epoch is a function of who is gone, so that all survivors name the same one without talking.
        group_.rebuild(members, static_cast<std::uint32_t>(group_.size() - count));
        built_for_ = members;
        ++rebuilds_;
      }
      op(group_.collectives());
      return;
    } catch (const DistError&) {
      bool changed = false;
      for (int waited = 0; !changed && waited < kGraceMs; waited += kPollMs) {
        changed = alive() != members;
        if (!changed) std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
      }
      if (!changed) throw;
    }
  }
}

}  // namespace gossamer::dist
