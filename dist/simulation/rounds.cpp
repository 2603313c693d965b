// Synchronous methods in simulated time: one gradient of every worker and one round of mixing per
// unit of time.
#include <algorithm>
#include <cmath>
#include <optional>

#include "gossamer/core/error.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/simulation/simulator.h"

namespace gossamer::dist {
namespace {

// The mixing matrix of one round, rows compressed.
struct SparseRound {
  struct Entry {
    std::uint32_t from;
    double weight;
  };
  std::vector<double> own;
  std::vector<std::size_t> first;  // row i: entries first[i] … first[i + 1] - 1
  std::vector<Entry> entries;

  SparseRound() = default;
  SparseRound(const Rounds& rounds, i64 k) : first{0} {
    for (int i = 0; i < rounds.workers(); ++i) {
      const Round r = rounds.round(i, k);
      own.push_back(r.own);
      for (const Neighbour& j : r.in)
        entries.push_back({static_cast<std::uint32_t>(j.worker), j.weight});
      first.push_back(entries.size());
    }
  }
  // to <- W from, both [workers, dims]
  void apply(const std::vector<double>& from, std::vector<double>& to, std::size_t dims) const {
    for (std::size_t i = 0; i < own.size(); ++i) {
      const double* x = from.data() + i * dims;
      double* y = to.data() + i * dims;
      for (std::size_t k = 0; k < dims; ++k) y[k] = own[i] * x[k];
      for (std::size_t e = first[i]; e < first[i + 1]; ++e) {
        const double weight = entries[e].weight;
        const double* other = from.data() + entries[e].from * dims;
        for (std::size_t k = 0; k < dims; ++k) y[k] += weight * other[k];
      }
    }
  }
};

constexpr i64 kMostRoundsKept = 64;  // of a period; longer ones are made anew each time

enum class Method {
  combine_while_adapting,
  adapt_then_combine,
  all_reduce,
  push_sum,
  local_sgd,
  outer_all,        // diloco
  outer_neighbours  // noloco
};

Method method_of(const std::string& name) {
  if (name == "dpsgd" || name == "dadam" || name == "accum-adam")
    return Method::combine_while_adapting;
  if (name == "diloco") return Method::outer_all;
  if (name == "noloco") return Method::outer_neighbours;
  if (name == "dpsgd-atc") return Method::adapt_then_combine;
  if (name == "sgp") return Method::push_sum;
  return name == "allreduce" ? Method::all_reduce : Method::local_sgd;
}

class RoundSimulation final : public Simulation, private ControlledWorkers {
 public:
  RoundSimulation(const SimulationPlan& plan, const Problem* problem, std::uint64_t seed)
      : Simulation(plan.options.workers, problem ? problem->dims() : plan.options.dims),
        plan_(plan),
        problem_(problem),
        method_(method_of(mixing_method(plan.options))),
        noise_(seed, 2) {
    if (plan.options.method == "consensus-control") controller_.emplace(plan.options.control);
    for (int i = 0; i < workers_; ++i) {
      const std::vector<double> start = simulated_start(plan, problem, seed, i);
      x_.insert(x_.end(), start.begin(), start.end());
    }
    mixed_.resize(x_.size());
    step_.assign(x_.size(), 0.0);
    if (problem)
      momentum_.assign(x_.size(), 0.0), gradient_.resize(static_cast<std::size_t>(dims_));
    if (plan.options.method == "dadam" || plan.options.method == "accum-adam")
      second_.assign(momentum_.size(), 0.0), sum_ = second_;
    if (method_ == Method::outer_all || method_ == Method::outer_neighbours)
      outer_ = x_, velocity_.assign(x_.size(), 0.0);
    weight_.assign(static_cast<std::size_t>(workers_), 1.0);
    mixed_weight_ = weight_;
  }

  void run_until(double t) override {
    for (; static_cast<double>(step_number_) + 1 <= t; ++step_number_) {
      if (problem_) compute_steps();
      advance();
      if (controller_) control();
    }
  }
  const ConsensusController* controller() const override {
    return controller_ ? &*controller_ : nullptr;
  }
  i64 control_exchanges() const override { return control_exchanges_; }

 protected:
  void present(int worker, std::span<double> x) override {
    const auto i = static_cast<std::size_t>(worker);
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = x_[i * x.size() + k] / weight_[i];
  }

 private:
  // --- consensus control. Measured is the distance itself: so it is with the sketches of real
  // workers, up to 1,024 parameters.
  void control() {
    theta_ = 0;
    const i64 before = exchanges_;
    controller_->control(*this);
    control_exchanges_ += exchanges_ - before;
  }
  std::optional<Measured> measure(bool) override {
    const SimulationOptions& o = plan_.options;
    return Measured{.distance = std::sqrt(distance() * dims_),
                    .theta = theta_,
                    .gradient_norm = std::sqrt(squared_gradients_ / workers_),
                    .progress = o.steps > 0 ? static_cast<double>(step_number_) / o.steps : 0,
                    .learning_rate = o.learning_rate};
  }
  void gossip() override {
    combine();
    const auto d = static_cast<std::size_t>(dims_);
    double moved = 0;  // combine() has left the values of before in mixed_
    for (std::size_t k = 0; k < x_.size(); ++k) {
      const double by = x_[k] / weight_[k / d] - mixed_[k] / mixed_weight_[k / d];
      moved += by * by;
    }
    theta_ = std::sqrt(moved / workers_);
  }
  void keep_part(double part) override {
    for (std::size_t k = 0; k < x_.size(); ++k) x_[k] = part * x_[k] + (1 - part) * mixed_[k];
    for (std::size_t i = 0; i < weight_.size(); ++i)
      weight_[i] = part * weight_[i] + (1 - part) * mixed_weight_[i];
  }
  bool average_exactly() override {
    average();
    return true;
  }
  double steps() const override { return plan_.options.steps; }

  // step_ = learning rate * direction, of every worker, at its own x (push-sum: at u / w).
  void compute_steps() {
    const auto n = static_cast<std::size_t>(workers_), d = static_cast<std::size_t>(dims_);
    std::vector<double> z(d);
    const bool shared = method_ == Method::all_reduce;
    if (shared) std::ranges::fill(step_, 0.0);
    squared_gradients_ = 0;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < d; ++k) z[k] = x_[i * d + k] / weight_[i];
      problem_->gradient(static_cast<int>(i), z, noise_, gradient_);
      ++gradients_;
      for (const double g : gradient_) squared_gradients_ += g * g;
      for (std::size_t k = 0; k < d; ++k) {
        // the mean gradient, in the first row
        if (shared)
          step_[k] += gradient_[k] / static_cast<double>(n);
        else
          step_[i * d + k] = own_direction(z[k], gradient_[k], i * d + k);
      }
    }
    if (!shared) return;
    for (std::size_t k = 0; k < d; ++k) step_[k] = direction(z[k], step_[k], momentum_[k]);
    for (std::size_t i = 1; i < n; ++i)
      std::copy_n(step_.begin(), d, step_.begin() + static_cast<std::ptrdiff_t>(i * d));
  }
  double own_direction(double x, double g, std::size_t at) {
    if (second_.empty()) return direction(x, g, momentum_[at]);
    const bool accumulates = plan_.options.method == "accum-adam";
    const auto f = AdamFactors<double>::at(step_number_ + 1, accumulates ? plan_.options.period : 1,
                                           plan_.options.learning_rate, .9, .999, 1e-8);
    return accumulates ? adam_direction<true>(f, g, momentum_[at], second_[at], sum_[at])
                       : adam_direction<false>(f, g, momentum_[at], second_[at], sum_[at]);
  }
  double direction(double x, double g, double& m) const {
    return plan_.options.learning_rate * sgd_direction(plan_.options.momentum, 0.0, false, x, g, m);
  }

  void advance() {
    switch (method_) {
      case Method::combine_while_adapting:
        combine();
        return subtract_steps();
      case Method::adapt_then_combine:
      case Method::push_sum:
        subtract_steps();
        return combine();
      case Method::all_reduce:
        if (problem_) return subtract_steps(), count_all_reduce();
        return average();
      case Method::local_sgd:
        subtract_steps();
        if (ends_period()) average();
        return;
      case Method::outer_all:
      case Method::outer_neighbours:
        subtract_steps();
        if (ends_period()) outer_step();
        return;
    }
  }
  bool ends_period() const { return (step_number_ + 1) % plan_.options.period == 0; }

  // As rounds/diloco.h writes it: d = o - (mean of the models), v <- mu v + d, o <- o - r u, x <-
  // o.
  void outer_step() {
    const bool all = method_ == Method::outer_all;
    if (all)
      average();
    else
      combine();
    const MethodOptions presets;
    const double mu = all ? .9 : .5, r = presets.outer_rate;
    for (std::size_t k = 0; k < x_.size(); ++k) {
      const double way = outer_[k] - x_[k];
      double& v = velocity_[k];
      v = mu * v + way;
      x_[k] = outer_[k] -= r * (all ? way + mu * v : v);
    }
  }

  void subtract_steps() {
    if (!problem_) return;
    for (std::size_t k = 0; k < x_.size(); ++k) x_[k] -= step_[k];
  }

  void combine() {
    const SparseRound& w = round();
    const auto d = static_cast<std::size_t>(dims_);
    w.apply(x_, mixed_, d);
    x_.swap(mixed_);
    ++round_;
    exchanges_half_ += static_cast<i64>(w.entries.size());
    exchanges_ = exchanges_half_ / 2;
    if (method_ != Method::push_sum) return;
    w.apply(weight_, mixed_weight_, 1);
    weight_.swap(mixed_weight_);
  }

  void average() {
    const auto d = static_cast<std::size_t>(dims_);
    std::vector<double> all(d, 0.0);  // push-sum: x_ is u = w z, and the weights' mean is 1
    for (std::size_t k = 0; k < x_.size(); ++k) all[k % d] += x_[k] / workers_;
    for (std::size_t k = 0; k < x_.size(); ++k) x_[k] = all[k % d] * weight_[k / d];
    count_all_reduce();
  }
  // Each worker sends about two models' worth of data and receives as much.
  void count_all_reduce() {
    exchanges_half_ += 2 * (static_cast<i64>(workers_) - 1);
    exchanges_ = exchanges_half_ / 2;
  }

  const SparseRound& round() {
    const i64 period = plan_.rounds->period(), k = round_ % period;
    if (period > kMostRoundsKept) return anew_ = SparseRound(*plan_.rounds, k);
    if (static_cast<i64>(kept_.size()) <= k) kept_.emplace_back(*plan_.rounds, k);
    return kept_[static_cast<std::size_t>(k)];
  }

  const SimulationPlan& plan_;
  const Problem* problem_;
  const Method method_;
  Rng noise_;
  std::vector<SparseRound> kept_;
  SparseRound anew_;
  std::vector<double> x_, mixed_, step_, momentum_;  // [workers, dims]
  std::vector<double> second_, sum_;                 // of Adam; momentum_ is its first moment
  std::vector<double> outer_, velocity_;             // of outer steps
  std::vector<double> gradient_;                     // [dims]
  // push-sum: x_ is u, the model is u / weight
  std::vector<double> weight_, mixed_weight_;
  // round_: of mixing; control has rounds between two steps
  i64 step_number_ = 0, round_ = 0, exchanges_half_ = 0;
  std::optional<ConsensusController> controller_;
  double squared_gradients_ = 0;  // of the last step, sum over workers
  double theta_ = 0;
  i64 control_exchanges_ = 0;
};

}  // namespace

std::unique_ptr<Simulation> make_round_simulation(const SimulationPlan& plan,
                                                  const Problem* problem, std::uint64_t seed) {
  return std::make_unique<RoundSimulation>(plan, problem, seed);
}

}  // namespace gossamer::dist
