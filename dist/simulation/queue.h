// What happens next in simulated time: a binary heap; what was planned first comes first among
// equal times, so runs repeat exactly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gossamer::dist {

template <class What>
class SimulationQueue {
 public:
  void push(double t, What what) {
    heap_.push_back({t, planned_++, std::move(what)});
    std::ranges::push_heap(heap_, later);
  }
  bool empty() const { return heap_.empty(); }
  double next_time() const { return heap_.front().t; }
  What pop() {
    std::ranges::pop_heap(heap_, later);
    What what = std::move(heap_.back().what);
    heap_.pop_back();
    return what;
  }

 private:
  struct Entry {
    double t;
    std::uint64_t order;
    What what;
  };
  static bool later(const Entry& a, const Entry& b) {
    return a.t > b.t || (a.t == b.t && a.order > b.order);
  }
  std::vector<Entry> heap_;
  std::uint64_t planned_ = 0;
};

}  // namespace gossamer::dist
