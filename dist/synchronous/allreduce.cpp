// AR-SGD, and how it goes on when a worker dies.
#include "gossamer/dist/synchronous/allreduce.h"

#include <algorithm>

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/gossip/clock.h"
#include "gossamer/dist/finish.h"
#include "gossamer/dist/gpu/gpu_collectives.h"

namespace gossamer::dist {
namespace {
constexpr std::size_t kBucket = 25u << 18;      // floats in 25 MB: large enough for bandwidth, small enough for caches and time-outs
}

AllReduceMethod::AllReduceMethod(FlatParams& params, Optimizer& optimizer, Group& group, const MethodOptions& options)
    : params_(params), optimizer_(optimizer), group_(group), options_(options), membership_(group, options.min_workers),
      sum_(Tensor::zeros(params.grads().shape())), samples_(options.start_samples), known_(membership_.members()) {
  stats_.alive = static_cast<int>(known_.size());
}

void AllReduceMethod::step(double learning_rate) {
  check<Error>(!finished_, "allreduce: step after finish");
  params_.settle_grads();
  const double began = wall_seconds();
  bool caught_up = false;
  int members = 1;
  if (group_.size() > 1) {
    const trace::Scope scope("all-reduce");
    membership_.run([&](Collectives& all) {
      if (membership_.rebuilds() != rebuilds_) {
        caught_up = catch_up(all);
        rebuilds_ = membership_.rebuilds();
        if (caught_up) return;
      }
      sum_.copy_from(params_.grads());
      const auto flat = sum_.span<float>();
      for (std::size_t begin = 0; begin < flat.size(); begin += kBucket)
        all.all_reduce_sum(flat.subspan(begin, std::min(kBucket, flat.size() - begin)));
      members = all.members();
    });
    stats_.exposed_s += wall_seconds() - began;
    stats_.transfer_s += wall_seconds() - began;
    report_deaths();
    if (caught_up) return;
    Tensor(params_.grads()).copy_from(sum_);
  }
  optimizer_.step(static_cast<float>(learning_rate), nullptr, clip_factor(params_.grads(), options_.clip_norm, 1.0 / members));
  samples_ += static_cast<double>(members) * static_cast<double>(options_.batch);
  ++steps_;
  ++stats_.gradients;
}

// After a death some survivors may have finished the step and some not. Those behind take over the model of one that is ahead, and
// their own gradient is dropped; true if this worker was behind.
bool AllReduceMethod::catch_up(Collectives& all) {
  const auto n = static_cast<std::size_t>(group_.size()), me = static_cast<std::size_t>(group_.rank());
  std::vector<double> steps(2 * n, 0.0);
  steps[me] = static_cast<double>(steps_) + 1;      // 0: not a member
  steps[n + me] = samples_;
  all.all_reduce_sum(steps);
  const auto first = steps.begin(), last = first + static_cast<std::ptrdiff_t>(n);
  const auto ahead = std::max_element(first, last);
  const bool equal = std::all_of(first, last, [&](double s) { return s == 0 || s == *ahead; });
  if (equal) return false;
  const int root = static_cast<int>(ahead - first);
  broadcast(params_.values(), all, root);
  for (const NamedTensor& state : optimizer_.state())
    if (state.tensor.dtype() == DType::f32) broadcast(state.tensor, all, root);
  params_.refresh();
  const bool behind = static_cast<double>(steps_) + 1 < *ahead;
  steps_ = static_cast<i64>(*ahead) - 1;
  samples_ = steps[n + static_cast<std::size_t>(root)];
  return behind;
}

void AllReduceMethod::report_deaths() {
  while (group_.control().next(Seconds(0)).kind != Event::Kind::none) {}      // nobody else reads the link
  const std::vector<int> now = membership_.members();      // not alive(): at the end, who is done may be gone already
  for (const int rank : known_)
    if (std::ranges::find(now, rank) == now.end() && options_.on_fault) options_.on_fault("dead", rank);
  known_ = now;
  stats_.alive = static_cast<int>(now.size());
}

void AllReduceMethod::finish() {
  if (finished_) return;
  stats_.consensus_distance = average_models(params_, membership_);
  report_deaths();
  finished_ = true;
}

}  // namespace gossamer::dist
