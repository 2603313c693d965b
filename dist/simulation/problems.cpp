// Quadratic functions and logistic regression for simulated workers.
#include "gossamer/dist/simulation/problems.h"

#include <algorithm>
#include <cmath>

#include "gossamer/core/error.h"
#include "gossamer/dist/rounds/consensus_controller.h"

namespace gossamer::dist {
namespace {

constexpr int kPoints = 200;  // of loss and distance over time, at most

class Quadratic final : public Problem {
 public:
  Quadratic(int workers, const QuadraticOptions& o)
      : dims_(static_cast<std::size_t>(o.dims)), noise_(o.noise), mean_(dims_) {
    for (int k = 0; k < o.dims; ++k) {
      const double place = o.dims > 1 ? static_cast<double>(k) / (o.dims - 1) : 1;
      h_.push_back(o.curvature * std::pow(o.condition, place - 1));
    }
    for (int i = 0; i < workers; ++i) {
      Rng random(o.seed, 0x7175616400000000u + static_cast<std::uint64_t>(i));
      for (std::size_t k = 0; k < dims_; ++k) {
        target_.push_back(o.heterogeneity * random.normal());
        mean_[k] += target_.back() / workers;
      }
    }
  }
  int dims() const override { return static_cast<int>(dims_); }
  std::vector<double> start() const override { return std::vector<double>(dims_, 1.0); }
  void gradient(int worker, std::span<const double> x, Rng& random,
                std::span<double> g) const override {
    const double* b = target_.data() + static_cast<std::size_t>(worker) * dims_;
    for (std::size_t k = 0; k < dims_; ++k)
      g[k] = h_[k] * (x[k] - b[k]) + (noise_ > 0 ? noise_ * random.normal() : 0);
  }
  double loss(std::span<const double> x) const override {
    double sum = 0;
    for (std::size_t k = 0; k < dims_; ++k)
      sum += .5 * h_[k] * (x[k] - mean_[k]) * (x[k] - mean_[k]);
    return sum;
  }

 private:
  std::size_t dims_;
  double noise_;
  std::vector<double> h_, target_, mean_;  // [dims], [workers, dims], [dims]
};

// Solves a x = b for a symmetric positive definite, row-major; a is destroyed, b becomes x.
// (Cholesky.)
void solve(std::vector<double>& a, std::vector<double>& b) {
  const std::size_t n = b.size();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t k = 0; k < j; ++k) a[j * n + j] -= a[j * n + k] * a[j * n + k];
    a[j * n + j] = std::sqrt(a[j * n + j]);
    for (std::size_t i = j + 1; i < n; ++i) {
      for (std::size_t k = 0; k < j; ++k) a[i * n + j] -= a[i * n + k] * a[j * n + k];
      a[i * n + j] /= a[j * n + j];
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
}

class Logistic final : public Problem {
 public:
  Logistic(int workers, const LogisticOptions& o)
      : options_(o),
        dims_(static_cast<std::size_t>(o.dims)),
        points_(static_cast<std::size_t>(o.samples)) {
    Rng random(o.seed, 0x6c6f676900000000u);
    std::vector<double> truth(dims_);
    for (double& w : truth) w = random.normal();
    for (int i = 0; i < workers; ++i)
      add_worker(truth, Rng(o.seed, 0x6c6f676900000001u + static_cast<std::uint64_t>(i)));
    minimise();
  }
  int dims() const override { return static_cast<int>(dims_); }
  std::vector<double> start() const override { return std::vector<double>(dims_); }
  void gradient(int worker, std::span<const double> x, Rng& random,
                std::span<double> g) const override {
    const double sign = std::ranges::count(options_.wrong_labels, worker) > 0 ? -1 : 1;
    for (std::size_t k = 0; k < dims_; ++k) g[k] = options_.l2 * x[k];
    for (int b = 0; b < options_.batch; ++b) {
      const double* a = row(static_cast<std::size_t>(worker) * points_ +
                            random.below(static_cast<std::uint32_t>(points_)));
      const double slope = -sign * sigmoid(-sign * dot(a, x)) / options_.batch;
      for (std::size_t k = 0; k < dims_; ++k) g[k] += slope * a[k];
    }
  }
  double loss(std::span<const double> x) const override { return full_loss(x) - minimum_; }

 private:
  static double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }
  const double* row(std::size_t i) const { return signed_.data() + i * dims_; }
  std::size_t rows() const { return signed_.size() / dims_; }
  double dot(const double* a, std::span<const double> x) const {
    double sum = 0;
    for (std::size_t k = 0; k < dims_; ++k) sum += a[k] * x[k];
    return sum;
  }

  void add_worker(const std::vector<double>& truth, Rng random) {
    std::vector<double> shift(dims_), own = truth, a(dims_);
    for (double& s : shift) s = options_.heterogeneity * random.normal();
    for (double& w : own) w += options_.heterogeneity * random.normal();
    const double scale = 1 / std::sqrt(static_cast<double>(dims_));
    for (std::size_t p = 0; p < points_; ++p) {
      for (std::size_t k = 0; k < dims_; ++k)
        a[k] = scale * (k + 1 < dims_ ? random.normal() + shift[k] : 1);
      const double y = random.uniform53() < sigmoid(3 * dot(a.data(), own)) ? 1 : -1;
      for (const double each : a) signed_.push_back(y * each);
    }
  }

  double full_loss(std::span<const double> x) const {
    double sum = 0, square = 0;
    for (std::size_t i = 0; i < rows(); ++i) {
      const double z = -dot(row(i), x);
      sum += z > 30 ? z : std::log1p(std::exp(z));
    }
    for (const double each : x) square += each * each;
    return sum / static_cast<double>(rows()) + options_.l2 / 2 * square;
  }

  // Newton's method; the loss is strictly convex, and from 0 the steps only have to be halved if
  // one goes too far.
  void minimise() {
    std::vector<double> w(dims_), step(dims_), hessian(dims_ * dims_);
    minimum_ = full_loss(w);
    for (int iteration = 0; iteration < 30; ++iteration) {
      for (std::size_t k = 0; k < dims_; ++k) step[k] = options_.l2 * w[k];
      std::ranges::fill(hessian, 0.0);
      for (std::size_t k = 0; k < dims_; ++k) hessian[k * dims_ + k] = options_.l2;
      for (std::size_t i = 0; i < rows(); ++i) {
        const double* a = row(i);
        const double p = sigmoid(-dot(a, w)), share = 1 / static_cast<double>(rows());
        for (std::size_t k = 0; k < dims_; ++k) {
          step[k] -= share * p * a[k];
          for (std::size_t j = 0; j <= k; ++j)
            hessian[k * dims_ + j] += share * p * (1 - p) * a[k] * a[j];
        }
      }
      solve(hessian, step);
      std::vector<double> next = w;
      double reached = 0;
      for (double part = 1; part > 1e-6; part /= 2) {
        for (std::size_t k = 0; k < dims_; ++k) next[k] = w[k] - part * step[k];
        if ((reached = full_loss(next)) <= minimum_) break;
      }
      if (minimum_ - reached < 1e-15) return;
      minimum_ = reached;
      w = next;
    }
  }

  const LogisticOptions options_;
  const std::size_t dims_, points_;
  std::vector<double> signed_;  // [workers, points, dims]: features times label
  double minimum_ = 0;
};

}  // namespace

std::unique_ptr<Problem> make_quadratic(int workers, const QuadraticOptions& o) {
  check<ConfigError>(o.dims >= 1 && o.curvature >= 0 && o.condition >= 1 && o.noise >= 0,
                     "simulate quadratic: dims ", o.dims, ", curvature ", o.curvature,
                     ", condition ", o.condition, ", noise ", o.noise,
                     "; at least 1, 0, 1 and 0 are needed");
  return std::make_unique<Quadratic>(workers, o);
}

std::unique_ptr<Problem> make_logistic(int workers, const LogisticOptions& o) {
  check<ConfigError>(o.dims >= 2 && o.dims <= 1024 && o.samples >= 1 && o.batch >= 1 && o.l2 > 0,
                     "simulate logreg: dims ", o.dims, ", samples ", o.samples, ", batch ", o.batch,
                     ", l2 ", o.l2, "; 2 to 1024, at least 1, at least 1 and above 0 are needed");
  return std::make_unique<Logistic>(workers, o);
}

TrainingResult simulate_training(const SimulationPlan& plan, const Problem& problem, double time,
                                 int seeds, double stationary_from) {
  check<ConfigError>(time > 0 && std::isfinite(time), "simulate: a time of ", time,
                     "; it must be above 0");
  check<ConfigError>(seeds >= 1, "simulate: ", seeds, " seeds; at least 1 is needed");
  check<ConfigError>(stationary_from < time, "simulate: the mean over time shall begin at ",
                     stationary_from, ", after the end at ", time);
  TrainingResult out;
  out.seeds = seeds;
  out.stationary_from = stationary_from >= 0 ? stationary_from : time / 3;
  // Local steps and control make the distance rise and fall with a period. A choice of the steps of
  // a synchronous method could see one phase of it only: so all are looked at, and a point is the
  // mean of those since the point before.
  const bool rounds = plan.traits().synchronous;
  const double end = rounds ? std::floor(time) : time;
  const int points = rounds ? static_cast<int>(std::min(end, 1. * kPoints)) : kPoints;
  for (int k = 0; k <= points; ++k) {
    const double t = end * k / std::max(points, 1);
    out.time.push_back(rounds ? std::floor(t) : t);
  }
  out.loss.assign(out.time.size(), 0.0);
  out.distance.assign(out.time.size(), 0.0);
  SimulationPlan whole = plan;
  whole.options.steps = std::floor(time);
  const std::vector<double> zeros(out.time.size(), 0.0);
  if (plan.traits().controls) {
    out.control.emplace();
    out.control->xi = out.control->target = zeros;
  }
  double late = 0;  // moments in the means over time
  for (int seed = 0; seed < seeds; ++seed) {
    const auto simulation =
        make_simulation(whole, &problem, plan.options.seed + static_cast<std::uint64_t>(seed));
    for (std::size_t k = 0; k < out.time.size(); ++k) {
      const double to = out.time[k], from = rounds && k > 0 ? out.time[k - 1] + 1 : to;
      const double share = 1 / (seeds * (to - from + 1));
      for (double t = from; t <= to; ++t) {
        simulation->run_until(t);
        const double distance = simulation->distance(), loss = problem.loss(simulation->mean());
        out.distance[k] += share * distance;
        out.loss[k] += share * loss;
        if (out.control) {
          out.control->xi[k] += share * std::sqrt(distance * problem.dims());
          out.control->target[k] += share * simulation->controller()->target();
        }
        if (t < std::min(out.stationary_from, end)) continue;
        out.stationary_distance += distance;
        out.stationary_loss += loss;
        ++late;
      }
    }
    out.final_loss += problem.loss(simulation->mean()) / seeds;
    out.gradients += static_cast<double>(simulation->gradients()) / seeds;
    out.exchanges += static_cast<double>(simulation->exchanges()) / seeds;
    if (!out.control) continue;
    out.control->tally += simulation->controller()->tally();
    out.control->exchanges += static_cast<double>(simulation->control_exchanges()) / seeds;
  }
  out.stationary_distance /= late;
  out.stationary_loss /= late;
  return out;
}

}  // namespace gossamer::dist
