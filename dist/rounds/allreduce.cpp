// AR-SGD, and how it goes on when a worker dies.
#include "gossamer/dist/rounds/allreduce.h"

#include <algorithm>
#include <numeric>

#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/finish.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
AllReduceMethod::AllReduceMethod(FlatParams& params, Optimizer& optimizer, Group& group,
                                 const MethodOptions& options)
    : params_(params),
      optimizer_(optimizer),
      group_(group),
      options_(options),
      membership_(group, options.min_workers),
      samples_(options.start_samples),
      known_(static_cast<std::size_t>(group.size())) {
  std::iota(known_.begin(), known_.end(), 0);
  stats_.alive = static_cast<int>(known_.size());
  if (group_.size() < 2 || params_.size() == 0) return;
  const std::vector<FlatRange> buckets = params_.buckets(options_.bucket_bytes);
  sum_ = std::make_unique<GradientSum>(params_.grads(), buckets, group_.reducer(buckets.size()));
  if (options_.overlap) {
    params_.on_ready(
        buckets, [this](std::size_t bucket) { sum_->ready(bucket); },
        [this](std::size_t bucket) { sum_->mark(bucket); });
  }
}

AllReduceMethod::~AllReduceMethod() {
  if (sum_ && options_.overlap) params_.on_ready({}, nullptr);
}

void AllReduceMethod::prepare(double) {
  if (!sum_ || !options_.overlap || opened_ != membership_.rebuilds()) return;
  sum_->begin();
  params_.arm_ready();
}

void AllReduceMethod::step(double learning_rate) {
  check<Error>(!finished_, "allreduce: step after finish");
  params_.settle_grads();
  const int members = sum_ ? sum_gradients() : 1;
  if (members == 0) return;
  optimizer_.step(static_cast<float>(learning_rate), nullptr, {1.0 / members, options_.clip_norm});
  samples_ += static_cast<double>(members) * static_cast<double>(options_.batch);
  ++steps_;
  ++stats_.gradients;
  const auto n = static_cast<double>(known_.size());
  stats_.bytes_sent += 2 * (n - 1) / n * static_cast<double>(params_.grads().bytes());
}

int AllReduceMethod::sum_gradients() {
  const trace::Scope scope("wait all-reduce");
  const double began = wall_seconds();
  bool caught_up = false;
  int members = 0;
  // before members may be found gone: a rebuild needs the collectives for itself
  if (opened_ == membership_.rebuilds()) {
    do {
      check_nobody_has_finished();
    } while (!sum_->complete_within(Seconds(.1)));
  } else {
    sum_->complete();
  }
  membership_.run([&](Collectives& all) {
    if (opened_ != membership_.rebuilds()) {
      caught_up = catch_up(all, false) || caught_up;
      sum_->open(all, membership_.members());
      opened_ = membership_.rebuilds();
    }
    if (caught_up) return;
    sum_->finish();
    members = all.members();
  });
  stats_.exposed_s += wall_seconds() - began;
  report_deaths();
  if (members > 0) Tensor(params_.grads()).copy_from(sum_->sum());
  return members;
}

// After a death some survivors may have finished the step and some not. Those behind take over the
// model of one that is ahead, and their own gradient is dropped; true if this worker was behind.
// Nothing is taken over before all of it is here: should the one that is ahead die meanwhile, those
// behind are still alike.
bool AllReduceMethod::catch_up(Collectives& all, bool finishing) {
  const auto n = static_cast<std::size_t>(group_.size()),
             me = static_cast<std::size_t>(group_.rank());
  std::vector<double> steps(2 * n + 1, 0.0);
  steps[me] = static_cast<double>(steps_) + 1;  // 0: not a member
  steps[n + me] = samples_;
  steps[2 * n] = finishing;
  all.all_reduce_sum(steps);
  all_finish_ = steps[2 * n] == all.members();
  const auto first = steps.begin(), last = first + static_cast<std::ptrdiff_t>(n);
  const auto ahead = std::max_element(first, last);
  const bool equal = std::all_of(first, last, [&](double s) { return s == 0 || s == *ahead; });
  if (equal) return false;
  const int root = static_cast<int>(ahead - first);
  std::vector<Tensor> own = {params_.values()}, theirs;
  for (const NamedTensor& state : optimizer_.state()) own.push_back(state.tensor);
  for (const Tensor& tensor : own) {
    theirs.push_back(tensor.clone());
    if (tensor.dtype() == DType::f32) {
      all.broadcast(theirs.back(), root);
    } else {  // a counter
      const Tensor host = theirs.back().to(Device::cpu());
      std::vector<double> counter = {group_.rank() == root ? static_cast<double>(*host.as<i64>())
                                                           : 0};
      all.all_reduce_sum(counter);
      *host.as<i64>() = static_cast<i64>(counter[0]);
      if (!tensor.device().is_cpu()) theirs.back().copy_from(host);
    }
  }
  const bool behind = static_cast<double>(steps_) + 1 < *ahead;
  if (!behind) return false;
  for (std::size_t i = 0; i < own.size(); ++i) own[i].copy_from(theirs[i]);
  params_.refresh();
  steps_ = static_cast<i64>(*ahead) - 1;
  samples_ = steps[n + static_cast<std::size_t>(root)];
  return true;
}

MethodStats AllReduceMethod::stats() const {
  MethodStats stats = stats_;
  if (sum_) stats.transfer_s = sum_->busy_s();
  return stats;
}

void AllReduceMethod::hear() {
  for (;;) {  // nobody else reads the link
    const Event e = group_.control().next(Seconds(0));
    if (e.kind == Event::Kind::none) return;
    if (e.kind == Event::Kind::message && e.message.type == MessageType::stopped)
      ended_[e.peer] = static_cast<i64>(e.message.gradients);
  }
}

// One that ended in the midst of its last step because of a death is still waited for there.
void AllReduceMethod::check_nobody_has_finished() {
  hear();
  for (const auto& [rank, steps] : ended_)
    check<DistError>(steps > steps_ || !group_.control().alive(rank), "worker ", rank,
                     " has finished after ", steps, " steps, worker ", group_.rank(),
                     " is in step ", steps_ + 1,
                     "; allreduce needs the same number of steps of all: end all by one total");
}

void AllReduceMethod::report_deaths() {
  hear();
  // not alive(): at the end, a worker that is done may be gone already
  const std::vector<int> now = membership_.members();
  for (const int rank : known_)
    if (std::ranges::find(now, rank) == now.end() && options_.on_fault)
      options_.on_fault("dead", rank);
  known_ = now;
  stats_.alive = static_cast<int>(now.size());
}

void AllReduceMethod::finish() {
  if (finished_) return;
  Message ended{.type = MessageType::stopped};
  ended.gradients = static_cast<double>(steps_);
  for (const int peer : known_)
    if (peer != group_.rank()) group_.control().send(peer, ended);
  if (sum_) sum_->complete();
  AveragedModel model;
  do  // one that is behind after a death does its last step first
    membership_.run([&](Collectives& all) {
      catch_up(all, true);
      if (all_finish_) model = average_of_models(params_, all);
    });
  while (!all_finish_);
  adopt(params_, model);
  stats_.consensus_distance = model.distance;
  report_deaths();
  finished_ = true;
}

}  // namespace gossamer::dist
