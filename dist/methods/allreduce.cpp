// AR-SGD, and how it goes on when a worker dies.
#include "gossamer/dist/methods/allreduce.h"

#include <algorithm>
#include <numeric>

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/trace.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {

const char* const kName = "allreduce";

class AllReduce final : public RoundFormula {
 public:
  void step(RoundWorker& worker, i64) const override {
    worker.average_gradients();
    worker.update();
  }
};

}  // namespace

MethodRow allreduce_row() {
  MethodRow row = row_with<AllReduceOptions>(
      {.name = kName, .graph = false, .directed = true, .coded = false, .sums_gradients = true});
  row.make = [](const MethodContext& with) {
    return std::make_unique<AllReduceMethod>(with,
                                             with.options.settings.as<AllReduceOptions>(kName));
  };
  row.formula = [](const Settings&) { return std::make_unique<AllReduce>(); };
  return row;
}

const char* AllReduceMethod::name() const { return kName; }

AllReduceMethod::AllReduceMethod(const MethodContext& with, const AllReduceOptions& options)
    : params_(with.params),
      optimizer_(with.optimizer),
      group_(with.group),
      options_(with.options),
      overlap_(options.overlap),
      membership_(group_, options_.min_workers, Membership::Lost::is_out),
      samples_(options_.start_samples),
      known_(static_cast<std::size_t>(group_.size())) {
  std::iota(known_.begin(), known_.end(), 0);
  sharing_.workers = known_;
  sharing_.known.resize(known_.size());
  if (group_.size() < 2 || params_.size() == 0) return;
  const std::vector<FlatRange> buckets = params_.buckets(options.bucket_bytes());
  sum_ = std::make_unique<GradientSum>(params_.grads(), buckets, group_.reducer(buckets.size()));
  if (overlap_) {
    params_.on_ready(
        buckets, [this](std::size_t bucket) { sum_->ready(bucket); },
        [this](std::size_t bucket) { sum_->mark(bucket); });
  }
}

AllReduceMethod::~AllReduceMethod() {
  if (sum_ && overlap_) params_.on_ready({}, nullptr);
}

void AllReduceMethod::prepare(double) {
  if (!sum_ || !overlap_ || opened_ != membership_.rebuilds()) return;
  sum_->begin();
  params_.arm_ready();
}

void AllReduceMethod::step(double learning_rate) {
  check<Error>(!finished_, "allreduce: step after finish");
  params_.settle_grads();
  summed_ = static_cast<double>(samples_of(group_.rank()));
  if (sum_ && !sum_gradients()) return;
  // Each gradient is a sum divided by these.
  const i64 divisor = options_.global_batch > 0 ? options_.global_batch : options_.batch;
  optimizer_.step(static_cast<float>(learning_rate), nullptr,
                  {static_cast<double>(divisor) / summed_, options_.clip_norm});
  samples_ += summed_;
  ++steps_;
  ++stats_.gradients;
  const auto n = static_cast<double>(known_.size());
  stats_.bytes_sent += 2 * (n - 1) / n * static_cast<double>(params_.grads().bytes());
}

i64 AllReduceMethod::samples_of(int worker) const {
  if (options_.global_batch == 0) return options_.batch;
  return options_.batch * sharing_.share(options_.global_batch / options_.batch, worker);
}

// After a step that these workers had done.
void AllReduceMethod::share_among(std::vector<int> workers) {
  std::vector<i64>& known = sharing_.known;
  for (std::size_t i = 0; i < known.size(); ++i)
    known[i] += std::ranges::find(workers, sharing_.workers[i]) != workers.end();
  if (workers == sharing_.workers) return;
  sharing_.changes.push_back({sharing_.workers, known});
  known.assign(workers.size(), 0);
  sharing_.workers = std::move(workers);
}

bool AllReduceMethod::sum_gradients() {
  const trace::Scope scope("wait all-reduce");
  const double began = wall_seconds();
  bool caught_up = false;
  std::vector<int> members;
  FiniteSum finite;
  // Where gradients are scaled, infinite ones are expected and left out; looking costs a GPU a
  // wait.
  const bool looks = !params_.overflow().defined() && params_.grads().device().is_cpu();
  // before members may be found gone: a rebuild needs the collectives for itself
  if (opened_ == membership_.rebuilds()) {
    do {
      check_nobody_has_finished();
    } while (!sum_->complete_within(Seconds(.1)));
  }
  while (members.empty() && !caught_up) {
    check_nobody_has_finished();
    membership_.run([&](Collectives& all) {
      if (opened_ != membership_.rebuilds()) {
        caught_up = catch_up(all, false) || caught_up;
        if (finishing_ > 0) return;  // they open nothing any more
        sum_->open(all, membership_.members());
        opened_ = membership_.rebuilds();
      }
      if (caught_up) return;
      sum_->finish();
      if (looks) finite = finite_gradients(all);
      members = membership_.members();
    });
  }
  stats_.exposed_s += wall_seconds() - began;
  report_deaths();
  check<Error>(finite.ruined.empty(), "allreduce, step ", steps_ + 1, ": ", finite.ruined);
  left_out_.now(finite.left_out, options_.on_fault);
  if (members.empty()) return false;
  Tensor(params_.grads()).copy_from(sum_->sum());
  summed_ = 0;
  for (const int worker : members)
    if (!finite.leaves_out(worker)) summed_ += static_cast<double>(samples_of(worker));
  share_among(std::move(members));
  return true;
}

FiniteSum AllReduceMethod::finite_gradients(Collectives& all) {
  Tensor sum = sum_->sum();
  return finite_sum(
      "gradients", group_, [&] { return all_finite(params_.grads()); },
      [&](const FiniteSum& so_far) {
        if (so_far.left_out.empty()) return all_finite(sum);
        if (so_far.leaves_out(group_.rank()))
          sum.zero();
        else
          sum.copy_from(params_.grads());
        all.all_reduce_sum(sum);
        return all_finite(sum);
      });
}

// After a death some survivors may have finished the step and some not. Those behind take over the
// model of one that is ahead, and their own gradient is dropped; true if this worker was behind.
// Nothing is taken over before all of it is here: should the one that is ahead die meanwhile, those
// behind are still alike.
bool AllReduceMethod::catch_up(Collectives& all, bool finishing, Seconds patience) {
  const auto n = static_cast<std::size_t>(group_.size()),
             me = static_cast<std::size_t>(group_.rank());
  std::vector<double> table(3 * n, 0.0);  // steps, samples, in finish()
  const std::span<double> steps(table.data(), n), samples(table.data() + n, n),
      in_finish(table.data() + 2 * n, n);
  steps[me] = static_cast<double>(steps_) + 1;  // 0: not a member
  samples[me] = samples_;
  in_finish[me] = finishing;
  all.all_reduce_sum(table, patience);
  finishing_ = 0;
  for (std::size_t w = 0; w < n; ++w) {
    if (in_finish[w] == 0) continue;
    ++finishing_;
    if (w != me) ended_[static_cast<int>(w)] = static_cast<i64>(steps[w]) - 1;
  }
  const auto ahead = std::ranges::max_element(steps);
  if (std::ranges::all_of(steps, [&](double s) { return s == 0 || s == *ahead; })) return false;
  const int root = static_cast<int>(ahead - steps.begin());
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
  std::vector<double> shared(n, 0.0);  // the last step of the one that is ahead
  if (group_.rank() == root)
    for (const int worker : sharing_.workers) shared[static_cast<std::size_t>(worker)] = 1;
  all.all_reduce_sum(shared);
  if (steps[me] == *ahead) return false;
  std::vector<int> workers;
  for (std::size_t w = 0; w < n; ++w)
    if (shared[w] != 0) workers.push_back(static_cast<int>(w));
  share_among(std::move(workers));
  for (std::size_t i = 0; i < own.size(); ++i) own[i].copy_from(theirs[i]);
  params_.refresh();
  steps_ = static_cast<i64>(*ahead) - 1;
  samples_ = samples[static_cast<std::size_t>(root)];
  return true;
}

MethodStats AllReduceMethod::stats() const {
  MethodStats stats = stats_;
  stats.alive = membership_.count();
  if (sum_) stats.transfer_s = sum_->busy_s();
  return stats;
}

// Handles all that the control link has; nobody else reads it.
void AllReduceMethod::hear(Seconds timeout) {
  for (Event e = group_.control().next(timeout); e.kind != Event::Kind::none;
       e = group_.control().next(Seconds(0))) {
    membership_.hear(e);
    if (e.kind != Event::Kind::message || e.message.type != MessageType::stopped) continue;
    const std::vector<int> alive = membership_.alive();
    if (std::ranges::find(alive, e.peer) == alive.end()) continue;  // it was given up
    ended_[e.peer] = static_cast<i64>(e.message.gradients);
    if (e.message.value != 0) membership_.renew();
  }
}

void AllReduceMethod::give_up_sum() {
  if (!sum_ || !sum_->begun()) return;
  sum_->give_up();
  gave_up_ = true;
  membership_.renew();
}

// A worker that a death has ended in the midst of its last step is still waited for in that step.
void AllReduceMethod::check_nobody_has_finished() {
  hear();
  for (const auto& [rank, steps] : ended_) {
    if (steps > steps_ || !group_.control().alive(rank)) continue;
    give_up_sum();
    fail<DistError>("worker ", rank, " has finished after ", steps, " steps, worker ",
                    group_.rank(), " is in step ", steps_ + 1,
                    "; allreduce needs the same number of steps of all: end all by one total");
  }
}

void AllReduceMethod::report_deaths() {
  hear();
  // not alive(): at the end, a worker that is done may be gone already
  const std::vector<int> now = membership_.members();
  for (const int rank : known_)
    if (std::ranges::find(now, rank) == now.end() && options_.on_fault)
      options_.on_fault("dead", rank);
  known_ = now;
}

void AllReduceMethod::finish() {
  if (finished_) return;
  membership_.check_taking_part();
  give_up_sum();
  Message ended{.type = MessageType::stopped};
  ended.gradients = static_cast<double>(steps_);
  ended.value = gave_up_;
  for (const int peer : known_)
    if (peer != group_.rank()) group_.control().send(peer, ended);
  AveragedModel model;
  const double until = wall_seconds() + options_.finish_timeout_s;
  bool all_finish = false;
  while (!all_finish) {  // one that is behind after a death does its last step first
    await_all(until);
    const Seconds left(std::max(0.0, until - wall_seconds()));
    membership_.run(
        [&](Collectives& all) {
          catch_up(all, true, left);
          all_finish = finishing_ == all.members();
          if (all_finish) model = average_of_models(params_, group_);
        },
        left);
  }
  adopt(params_, model);
  stats_.consensus_distance = model.distance;
  stats_.left_out = model.left_out;
  report_deaths();
  finished_ = true;
}

// Waits until all living workers are in finish(), or until the survivors of a death must meet: a
// worker that still trains must not find this one in another collective than its own.
void AllReduceMethod::await_all(double until) {
  for (Seconds pause(0);; pause = Seconds(.1)) {
    hear(pause);
    const std::vector<int> alive = membership_.alive();
    if (alive != membership_.members()) return;
    std::vector<int> late;
    for (const int rank : alive)
      if (rank != group_.rank() && !ended_.contains(rank)) late.push_back(rank);
    if (late.empty()) return;
    check<DistError>(wall_seconds() < until,
                     unfinished(group_.rank(), late, options_.finish_timeout_s));
  }
}

}  // namespace gossamer::dist
