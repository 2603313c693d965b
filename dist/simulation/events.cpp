// Ideal gossip: instantaneous exchanges at Poisson times, drawn from the superposition of all
// clocks, or in matching rounds.
#include <algorithm>

#include "gossamer/core/error.h"
#include "gossamer/dist/methods/registry.h"
#include "gossamer/dist/simulation/liars.h"
#include "gossamer/dist/simulation/simulated_worker.h"
#include "gossamer/dist/simulation/simulator.h"

namespace gossamer::dist {
namespace {

// Draws an edge by its rate in constant time (Walker's alias method: every column holds an edge and
// a part of another one).
class EdgeSampler {
 public:
  explicit EdgeSampler(const std::vector<Edge>& edges) {
    const std::size_t n = edges.size();
    for (const Edge& e : edges) total_ += e.rate;
    std::vector<double> share;
    for (const Edge& e : edges) share.push_back(e.rate / total_ * static_cast<double>(n));
    columns_.resize(n);
    std::vector<std::uint32_t> small, large;
    for (std::size_t i = 0; i < n; ++i)
      (share[i] < 1 ? small : large).push_back(static_cast<std::uint32_t>(i));
    while (!small.empty() && !large.empty()) {
      const std::uint32_t few = small.back(), many = large.back();
      small.pop_back();
      columns_[few] = {share[few], many};
      share[many] -= 1 - share[few];
      if (share[many] < 1) large.pop_back(), small.push_back(many);
    }
  }
  double total() const { return total_; }
  // ticket: uniform in [0, 1)
  std::size_t at(double ticket) const {
    const double place = ticket * static_cast<double>(columns_.size());
    const std::size_t i = std::min(static_cast<std::size_t>(place), columns_.size() - 1);
    return place - static_cast<double>(i) < columns_[i].own ? i : columns_[i].other;
  }

 private:
  struct Column {
    double own = 1;
    std::uint32_t other = 0;
  };
  std::vector<Column> columns_;
  double total_ = 0;
};

class EventSimulation final : public Simulation {
 public:
  EventSimulation(const SimulationPlan& plan, const Problem* problem, std::uint64_t seed)
      : Simulation(plan.options.workers, problem ? problem->dims() : plan.options.dims),
        plan_(plan),
        problem_(problem),
        edges_(plan.graph.edges),
        lies_(plan),
        random_(seed, 1),
        noise_(seed, 2),
        published_(plan.row->gossip.published_order),
        matching_(plan.options.pairing == "matching") {
    const bool twin = plan.row->gossip.accelerated;
    A2cid2 numbers;
    numbers.alpha = plan.constants.alpha;
    if (twin) {
      numbers.eta = plan.constants.eta * plan.options.eta_scale;
      numbers.alpha_tilde = plan.constants.alpha_tilde;
    }
    const auto n = static_cast<std::size_t>(workers_), d = static_cast<std::size_t>(dims_);
    workers_state_.reserve(n);
    for (int i = 0; i < workers_; ++i) {
      workers_state_.emplace_back(simulated_start(plan, problem, seed, i), twin,
                                  plan.row->gossip.tracks);
      workers_state_.back().numbers = numbers;
    }
    if (problem) momentum_.assign(n * d, 0.0), gradient_.resize(d);
    if (!matching_) next_ = random_.exponential() / event_rate();
  }

  void run_until(double t) override {
    if (matching_) {
      for (; static_cast<double>(round_) + 1 <= t; ++round_) match();
    } else {
      for (; next_ <= t; next_ += random_.exponential() / event_rate()) event();
    }
    now_ = std::max(now_, t);
  }

 protected:
  // The drift of A2CiD2 is done in a copy: to the published order it is no matter when a worker
  // drifted last.
  void present(int worker, std::span<double> x) override {
    const SimulatedWorker& w = state(worker);
    w.look(now_, x);
  }

 private:
  SimulatedWorker& state(int worker) { return workers_state_[static_cast<std::size_t>(worker)]; }
  double exchange_rate() const { return edges_.total() * plan_.options.realised_rate; }
  double event_rate() const { return exchange_rate() + (problem_ ? workers_ : 0); }

  void event() {
    const double ticket = random_.uniform53() * event_rate();
    if (ticket >= exchange_rate())
      return gradient(std::min(static_cast<int>(ticket - exchange_rate()), workers_ - 1), next_);
    const Edge& e = plan_.graph.edges[edges_.at(ticket / exchange_rate())];
    exchange(e.a, e.b, next_);
  }

  void match() {
    const double t = static_cast<double>(round_) + 1;
    if (problem_)
      for (int i = 0; i < workers_; ++i) gradient(i, t);
    for (int i = 0; i < workers_; ++i)
      for (const Neighbour& j : plan_.rounds->round(i, round_).in)
        if (i < j.worker) exchange(i, j.worker, t);
  }

  void exchange(int i, int j, double t) {
    SimulatedWorker &a = state(i), &b = state(j);
    ++exchanges_;
    if (published_) {
      exchange_as_published(i, j, t);
    } else {
      const A2cid2::Mark mark_a = a.snapshot(t, from_a_), mark_b = b.snapshot(t, from_b_);
      say(i, j, t);
      a.apply(mark_a, from_a_, heard_by_a_);
      b.apply(mark_b, from_b_, heard_by_b_);
    }
    if (plan_.watch)
      plan_.watch({"exchange", t, t, i, j, a.numbers.eta, {}, a.x, a.twin, b.x, b.twin});
  }

  // The published code sends x as it was last written, drifts to the present only after the
  // transfer, and replaces x by the mean.
  void exchange_as_published(int i, int j, double t) {
    SimulatedWorker &a = state(i), &b = state(j);
    a.drift(t - plan_.options.staleness);
    b.drift(t - plan_.options.staleness);
    from_a_ = a.x;
    from_b_ = b.x;
    say(i, j, t);
    const auto half = [&](SimulatedWorker& w, std::span<const double> received) {
      w.drift(t);
      for (std::size_t k = 0; k < received.size(); ++k) {
        w.twin[k] += w.numbers.alpha_tilde * (received[k] - w.x[k]);
        w.x[k] = .5 * (w.x[k] + received[k]);
      }
    };
    half(a, heard_by_a_);
    half(b, heard_by_b_);
  }

  // What i and j tell each other of from_a_ and from_b_. Time counts steps: each worker does one in
  // a unit of it, on average.
  void say(int i, int j, double t) {
    heard_by_a_ = from_b_, heard_by_b_ = from_a_;
    if (!lies_.any()) return;
    const auto steps = static_cast<i64>(t);
    const auto look = [&](int worker, std::span<double> out) { state(worker).look(t, out); };
    heard_by_a_ = lies_.said(j, i, steps, from_b_, from_a_, look, lie_to_a_);
    heard_by_b_ = lies_.said(i, j, steps, from_a_, from_b_, look, lie_to_b_);
  }

  void gradient(int i, double t) {
    SimulatedWorker& w = state(i);
    const auto d = static_cast<std::size_t>(dims_);
    double* m = momentum_.data() + static_cast<std::size_t>(i) * d;
    ++gradients_;
    w.drift(t);
    problem_->gradient(i, w.x, noise_, gradient_);
    for (std::size_t k = 0; k < d; ++k) {
      double& u = gradient_[k];
      u = plan_.options.learning_rate *
          sgd_direction(plan_.options.momentum, 0.0, false, w.x[k], w.tracked(k, u), m[k]);
      w.update(k, u);
    }
    if (plan_.watch)
      plan_.watch({"gradient", t, t, i, -1, w.numbers.eta, gradient_, w.x, w.twin, {}, {}});
  }

  const SimulationPlan& plan_;
  const Problem* problem_;
  EdgeSampler edges_;
  const PairLies lies_;
  Rng random_, noise_;
  const bool published_, matching_;
  std::vector<SimulatedWorker> workers_state_;
  std::vector<double> momentum_, gradient_;  // [workers, dims], [dims]
  // of the exchange, [dims] each: what both have, and what each hears of the other
  std::vector<double> from_a_, from_b_, lie_to_a_, lie_to_b_;
  std::span<const double> heard_by_a_, heard_by_b_;
  double now_ = 0, next_ = 0;
  i64 round_ = 0;
};

}  // namespace

std::unique_ptr<Simulation> make_event_simulation(const SimulationPlan& plan,
                                                  const Problem* problem, std::uint64_t seed) {
  return std::make_unique<EventSimulation>(plan, problem, seed);
}

}  // namespace gossamer::dist
