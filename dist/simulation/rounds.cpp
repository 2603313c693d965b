// Synchronous methods in simulated time: one gradient of every worker and one step of the method's
// formula per unit of time.
#include <cmath>
#include <optional>

#include "gossamer/core/error.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/methods/mixing_options.h"
#include "gossamer/dist/methods/registry.h"
#include "gossamer/dist/rounds/consensus_controller.h"
#include "gossamer/dist/rounds/mixing.h"
#include "gossamer/dist/rounds/relay.h"
#include "gossamer/dist/simulation/liars.h"
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
  SparseRound(const Rounds& rounds, i64 k, double consensus_factor) : first{0} {
    for (int i = 0; i < rounds.workers(); ++i) {
      const Round r = with_consensus_factor(rounds.round(i, k), consensus_factor);
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

class RoundSimulation final : public Simulation, private ControlledWorkers, private RoundWorker {
 public:
  RoundSimulation(const SimulationPlan& plan, const Problem* problem, std::uint64_t seed)
      : Simulation(plan.options.workers, problem ? problem->dims() : plan.options.dims),
        plan_(plan),
        problem_(problem),
        formula_(*plan.formula),
        liars_(plan.options),
        noise_(seed, 2) {
    if (plan.row->traits.controls)
      controller_.emplace(plan.options.settings.only(settings_of(ConsensusControlOptions{}))
                              .as<ConsensusControlOptions>("simulate"));
    for (int i = 0; i < workers_; ++i) {
      const std::vector<double> start = simulated_start(plan, problem, seed, i);
      x_.insert(x_.end(), start.begin(), start.end());
    }
    mixed_.resize(x_.size());
    momentum_.assign(x_.size(), 0.0), all_gradients_.resize(x_.size());
    if (const std::string& optimizer = plan.row->traits.optimizer; !optimizer.empty()) {
      second_.assign(momentum_.size(), 0.0), sum_ = second_;
      if (optimizer.starts_with("accum-"))
        accumulated_ = plan.options.settings.only(plan.row->simulated_settings({}))
                           .as<PeriodOptions>(plan.options.method)
                           .period;
    }
    for (const OwnVector& each : formula_.own_vectors())
      own_.push_back(each.begins_as_model ? x_ : std::vector<double>(x_.size()));
    if (formula_.has_outer_steps()) outer_ = x_, velocity_.assign(x_.size(), 0.0);
    weight_.assign(static_cast<std::size_t>(workers_), 1.0);
    mixed_weight_ = weight_;
  }

  void run_until(double t) override {
    for (; static_cast<double>(step_number_) + 1 <= t; ++step_number_) {
      problem_ ? compute_gradients() : all_gradients_.assign(x_.size(), 0.0);
      formula_.step(*this, step_number_);
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
    mix();
    const auto d = static_cast<std::size_t>(dims_);
    double moved = 0;  // mix() has left the values of before in mixed_
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

  // Of every worker at its own x (push-sum: at u / w).
  void compute_gradients() {
    const auto n = static_cast<std::size_t>(workers_), d = static_cast<std::size_t>(dims_);
    std::vector<double> z(d);
    squared_gradients_ = 0;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < d; ++k) z[k] = x_[i * d + k] / weight_[i];
      const std::span<double> g(all_gradients_.data() + i * d, d);
      problem_->gradient(static_cast<int>(i), z, noise_, g);
      ++gradients_;
      for (const double each : g) squared_gradients_ += each * each;
    }
  }

  // --- what all workers do in a step (step.h)
  void average_gradients() override {
    if (!problem_) return average();  // they only agree
    const auto d = static_cast<std::size_t>(dims_);
    std::vector<double> mean(d, 0.0);
    for (std::size_t k = 0; k < all_gradients_.size(); ++k)
      mean[k % d] += all_gradients_[k] / workers_;
    for (std::size_t k = 0; k < all_gradients_.size(); ++k) all_gradients_[k] = mean[k % d];
    count_all_reduce();
  }
  void update() override {
    for (std::size_t k = 0; k < x_.size(); ++k) x_[k] -= direction(x_[k], all_gradients_[k], k);
  }
  double direction(double x, double g, std::size_t at) {
    const double rate = plan_.options.learning_rate;
    if (second_.empty())
      return rate * sgd_direction(plan_.options.momentum, 0.0, false, x, g, momentum_[at]);
    const auto f =
        AdamFactors<double>::at(step_number_ + 1, accumulated_.value_or(1), rate, .9, .999, 1e-8);
    return accumulated_ > 1 ? adam_direction<true>(f, g, momentum_[at], second_[at], sum_[at])
                            : adam_direction<false>(f, g, momentum_[at], second_[at], sum_[at]);
  }
  void mix() override {
    const SparseRound& w = round();
    for (const Vector beside : formula_.sends_beside()) mix_with(w, vector(beside));
    mix_with(w, x_);
    ++messages_;
    exchanges_half_ += static_cast<i64>(w.entries.size());
    exchanges_ = exchanges_half_ / 2;
    if (!formula_.is_push_sum()) return;
    w.apply(weight_, mixed_weight_, 1);
    weight_.swap(mixed_weight_);
  }
  void mix_alone(Vector v) override {
    mix_with(round(), vector(v));
    ++messages_;
  }
  // By the same numbers as workers that train (relay.h).
  void relay() override {
    const auto d = static_cast<std::size_t>(dims_), n = static_cast<std::size_t>(workers_);
    const int trees = formula_.trees();
    for (int tree = 0; tree < trees; ++tree) {
      if (std::ssize(places_) <= tree) places_.push_back(places_of(tree));
      auto& places = places_[static_cast<std::size_t>(tree)];
      const std::size_t from = d * static_cast<std::size_t>(tree) / static_cast<std::size_t>(trees),
                        to = d * static_cast<std::size_t>(tree + 1) /
                             static_cast<std::size_t>(trees);
      std::vector<std::vector<double>> h(n);
      for (std::size_t i = 0; i < n; ++i) h[i] = slice_of(x_, i * d + from, i * d + to);
      struct Sent {
        std::size_t to;
        int from;
        std::vector<double> sum;
        double count;
      };
      std::vector<Sent> sent;
      for (std::size_t i = 0; i < n; ++i)
        for (const auto& link : places[i].links()) {
          std::vector<double> sum;
          const double count = places[i].message(link.peer, h[i], sum);
          sent.push_back({static_cast<std::size_t>(link.peer), static_cast<int>(i), sum, count});
        }
      for (const Sent& s : sent) places[s.to].arrived(s.from, s.sum, s.count);
      for (std::size_t i = 0; i < n; ++i) {
        places[i].average(h[i], workers_);
        std::ranges::copy(h[i], x_.begin() + static_cast<std::ptrdiff_t>(i * d + from));
      }
      if (tree == 0) exchanges_half_ += std::ssize(sent);
    }
    ++messages_;
    exchanges_ = exchanges_half_ / 2;
  }
  void begin_replicas() override {
    if (replicas_.empty()) replicas_ = x_;
  }
  void exchange_replicas() override {
    const auto d = static_cast<std::size_t>(dims_);
    const Compressor& by = *formula_.compressor();
    std::vector<double> q(d);
    std::vector<char> code(static_cast<std::size_t>(by.bytes<double>(dims_)));
    for (std::size_t i = 0; i < replicas_.size(); i += d) {
      for (std::size_t k = 0; k < d; ++k) q[k] = x_[i + k] - replicas_[i + k];
      by.encode<double>(q, static_cast<std::uint64_t>(messages_), code);
      by.decode<double>(code, static_cast<std::uint64_t>(messages_), q);
      for (std::size_t k = 0; k < d; ++k) replicas_[i + k] += q[k];
    }
    exchanges_half_ += static_cast<i64>(round().entries.size());
    exchanges_ = exchanges_half_ / 2;
    ++messages_;
  }
  void average_compressed(Vector v, MeanOver over) override {
    const auto d = static_cast<std::size_t>(dims_);
    const auto counter = static_cast<std::uint64_t>(messages_++);
    const Compressor& by = *formula_.compressor();
    std::vector<double>& values = vector(v);
    std::vector<double> q(d), sum(d), senders(d);
    std::vector<char> code(static_cast<std::size_t>(by.bytes<double>(dims_)));
    for (std::size_t i = 0; i < values.size(); i += d) {
      by.encode<double>({values.data() + i, d}, counter, code);
      by.decode<double>(code, counter, q);
      for (std::size_t k = 0; k < d; ++k)
        values[i + k] -= q[k], sum[k] += q[k], senders[k] += q[k] != 0;
    }
    for (std::size_t k = 0; k < x_.size(); ++k)
      x_[k] = sum[k % d] / (over == MeanOver::all ? workers_ : std::max(1., senders[k % d]));
    exchanges_half_ += static_cast<i64>(workers_) * (workers_ - 1);
    exchanges_ = exchanges_half_ / 2;
  }
  // Nothing was sent before the first step.
  void receive_replicas() override {
    if (step_number_ > 0) exchange_replicas();
  }
  void mix_replicas(double kappa) override {
    round().apply(replicas_, mixed_, static_cast<std::size_t>(dims_));
    for (std::size_t k = 0; k < x_.size(); ++k) x_[k] += kappa * (mixed_[k] - replicas_[k]);
  }
  static std::vector<double> slice_of(const std::vector<double>& all, std::size_t from,
                                      std::size_t to) {
    return {all.begin() + static_cast<std::ptrdiff_t>(from),
            all.begin() + static_cast<std::ptrdiff_t>(to)};
  }
  std::vector<RelayPlace<std::vector<double>>> places_of(int tree) const {
    const auto d = static_cast<std::size_t>(dims_),
               trees = static_cast<std::size_t>(formula_.trees()),
               t = static_cast<std::size_t>(tree);
    const auto place = [&](int i) { return tree == 0 ? i : mirrored(i, workers_); };
    std::vector<RelayPlace<std::vector<double>>> out;
    for (int i = 0; i < workers_; ++i) {
      std::vector<RelayPlace<std::vector<double>>::Link> links;
      for (const Neighbour& each : plan_.rounds->round(place(i), 0).in)
        links.push_back(
            {place(each.worker), std::vector<double>(d * (t + 1) / trees - d * t / trees, 0.0)});
      out.emplace_back(std::move(links));
    }
    return out;
  }
  void mix_with(const SparseRound& w, std::vector<double>& values) {
    if (const Clipping* by = formula_.clipping())
      apply_clipped(*by, w, values);
    else
      apply(w, values);
    values.swap(mixed_);
  }
  void apply(const SparseRound& w, const std::vector<double>& x) {
    const auto d = static_cast<std::size_t>(dims_);
    w.apply(x, mixed_, d);
    if (!liars_.any()) return;
    for (std::size_t i = 0; i < w.own.size(); ++i)
      for (std::size_t e = w.first[i]; e < w.first[i + 1]; ++e) {
        const double* const truth = x.data() + w.entries[e].from * d;
        if (const double* const said = sent(x, w, i, w.entries[e].from); said != truth)
          for (std::size_t k = 0; k < d; ++k)
            mixed_[i * d + k] += w.entries[e].weight * (said[k] - truth[k]);
      }
  }
  std::optional<Attack> lie_of(std::size_t worker) const {
    return liars_.lie_of(static_cast<int>(worker), step_number_);
  }
  // What worker j sends to i of x: x_j, or what a liar says.
  const double* sent(const std::vector<double>& x, const SparseRound& w, std::size_t i,
                     std::size_t j) {
    const auto d = static_cast<std::size_t>(dims_);
    const auto of = [&](std::size_t worker) {
      return std::span<const double>(x.data() + worker * d, d);
    };
    const std::optional<Attack> attack = liars_.any() ? lie_of(j) : std::nullopt;
    if (!attack || lie_of(i)) return of(j).data();
    std::vector<KnownModel<double>> others;
    double own_weight = 0;
    for (std::size_t e = w.first[i]; e < w.first[i + 1]; ++e) {
      const auto& [from, weight] = w.entries[e];
      if (lie_of(from))
        own_weight += weight;
      else
        others.push_back({weight, of(from)});
    }
    said_.resize(d);
    lie<double>(*attack, of(j), of(i), own_weight, others, said_);
    return said_.data();
  }
  void apply_clipped(const Clipping& by, const SparseRound& w, const std::vector<double>& x) {
    const auto d = static_cast<std::size_t>(dims_);
    mixed_ = x;
    for (std::size_t i = 0; i < w.own.size(); ++i) {
      std::vector<double> weights, distances;
      for (std::size_t e = w.first[i]; e < w.first[i + 1]; ++e) {
        double squared = 0;
        const double* const said = sent(x, w, i, w.entries[e].from);
        for (std::size_t k = 0; k < d; ++k) squared += std::pow(said[k] - x[i * d + k], 2);
        weights.push_back(w.entries[e].weight);
        distances.push_back(std::sqrt(squared));
      }
      weights = clipped(by, std::move(weights), distances);
      for (std::size_t e = w.first[i]; e < w.first[i + 1]; ++e) {
        const double* const said = sent(x, w, i, w.entries[e].from);
        for (std::size_t k = 0; k < d; ++k)
          mixed_[i * d + k] += weights[e - w.first[i]] * (said[k] - x[i * d + k]);
      }
    }
  }
  // What was sent after the step before is what x is now.
  void mix_ahead() override { mix(); }
  void average() override {
    const auto d = static_cast<std::size_t>(dims_);
    std::vector<double> all(d, 0.0);  // push-sum: x_ is u = w z, and the weights' mean is 1
    for (std::size_t k = 0; k < x_.size(); ++k) all[k % d] += x_[k] / workers_;
    for (std::size_t k = 0; k < x_.size(); ++k) x_[k] = all[k % d] * weight_[k / d];
    count_all_reduce();
  }
  void outer_step(const OuterStep& by) override {
    for (std::size_t k = 0; k < x_.size(); ++k) {
      const double way = outer_[k] - x_[k];
      double& v = velocity_[k];
      v = by.mu * v + way;
      // one rounding, whether the compiler joins products and sums or not
      x_[k] = outer_[k] -= by.rate * std::fma(by.velocity, v, by.way * way);
    }
  }
  void blend(Vector to, double a, double b, Vector from) override {
    std::vector<double>& changed = vector(to);
    const std::vector<double>& added = vector(from);
    for (std::size_t k = 0; k < changed.size(); ++k)
      changed[k] = (a == 0 ? 0 : a * changed[k]) + b * added[k];
  }
  double learning_rate() const override { return plan_.options.learning_rate; }
  std::vector<double>& vector(Vector which) {
    switch (which) {
      case Vector::model:
        return x_;
      case Vector::gradient:
        return all_gradients_;
      case Vector::velocity:
        return momentum_;
      default:
        return own_[static_cast<std::size_t>(which) - static_cast<std::size_t>(Vector::first)];
    }
  }
  // Each worker sends about two models' worth of data and receives as much.
  void count_all_reduce() {
    exchanges_half_ += 2 * (static_cast<i64>(workers_) - 1);
    exchanges_ = exchanges_half_ / 2;
  }

  const SparseRound& round() {
    const i64 period = plan_.rounds->period(),
              k = messages_ / formula_.messages_per_round() % period;
    const double phi = formula_.consensus_factor();
    if (period > kMostRoundsKept) return anew_ = SparseRound(*plan_.rounds, k, phi);
    if (static_cast<i64>(kept_.size()) <= k) kept_.emplace_back(*plan_.rounds, k, phi);
    return kept_[static_cast<std::size_t>(k)];
  }

  const SimulationPlan& plan_;
  const Problem* problem_;
  const RoundFormula& formula_;
  const Liars liars_;
  Rng noise_;
  std::vector<SparseRound> kept_;
  SparseRound anew_;
  std::vector<double> x_, mixed_, all_gradients_, momentum_;  // [workers, dims]
  std::vector<double> said_;                                  // by a liar
  std::vector<double> second_, sum_;      // of Adam; momentum_ is its first moment
  std::vector<double> outer_, velocity_;  // of outer steps
  std::vector<std::vector<double>> own_;  // of the formula
  std::optional<i64> accumulated_;        // steps of accumulated Adam's moments
  // push-sum: x_ is u, the model is u / weight
  std::vector<double> weight_, mixed_weight_;
  std::vector<double> replicas_;                                      // [workers, dims]
  std::vector<std::vector<RelayPlace<std::vector<double>>>> places_;  // of each tree, each worker
  // messages_: of mixing; control has rounds between two steps
  i64 step_number_ = 0, messages_ = 0, exchanges_half_ = 0;
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
