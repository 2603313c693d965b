// The problem of the tests of methods for workers whose data differ: four workers on a chain,
// f_i(x) = |A_i x - b_i|^2 / 2 in two dimensions; and what a formula makes of it in double
// precision.
#pragma once

#include <array>
#include <cmath>

#include "dist/rounds/synchronous.h"
#include "gossamer/core/random.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/compressor.h"
#include "gossamer/dist/methods/registry.h"
#include "gossamer/dist/rounds/mixing.h"
#include "gossamer/dist/rounds/relay.h"

namespace gossamer::dist {

inline constexpr int kWorkers = 4;
inline constexpr double kRate = .05, kMomentum = .9;
using Point = std::array<double, 2>;
using Points = std::array<Point, kWorkers>;
inline constexpr Point kMinimum = {1 / 24., 87 / 72.};

inline Point gradient(std::size_t worker, const Point& x) {
  constexpr double a[kWorkers][2][2] = {
      {{1, 0}, {0, 2}}, {{2, 1}, {0, 1}}, {{1, 1}, {1, -1}}, {{1, 0}, {1, 1}}};
  constexpr double b[kWorkers][2] = {{3, 2}, {-1, 3}, {4, 0}, {-2, 1}};
  Point g = {0, 0};
  for (std::size_t row = 0; row < 2; ++row) {
    const auto& line = a[worker][row];
    const double residual = line[0] * x[0] + line[1] * x[1] - b[worker][row];
    for (std::size_t k = 0; k < 2; ++k) g[k] += line[k] * residual;
  }
  return g;
}

// What a method makes of the problem, in double precision and with nothing but its formula.
class InDouble final : private RoundWorker {
 public:
  InDouble(const std::string& method, const Settings& settings, double momentum, bool nesterov)
      : formula_(method_row(method).formula(settings)),
        rounds_(make_rounds("chain", kWorkers)),
        momentum_(momentum),
        nesterov_(nesterov) {}

  void run(int steps) {
    for (; steps > 0; --steps, ++step_) {
      for (std::size_t i = 0; i < kWorkers; ++i) at(Vector::gradient)[i] = gradient(i, x()[i]);
      formula_->step(*this, step_);
    }
  }
  Points& x() { return at(Vector::model); }
  void lose(float part) { lost_ = part; }  // of the messages of a relay

 private:
  Points& at(Vector v) { return vectors_.at(static_cast<std::size_t>(v)); }
  void average_gradients() override { FAIL(); }
  void average() override { FAIL(); }
  void average_compressed(Vector v, MeanOver over) override {
    const Compressor& by = *formula_->compressor();
    std::vector<char> code(static_cast<std::size_t>(by.bytes<double>(2)));
    Point sum{}, senders{};
    for (Point& each : at(v)) {
      Point q;
      by.encode<double>(each, 0, code);
      by.decode<double>(code, 0, q);
      for (std::size_t k = 0; k < 2; ++k) each[k] -= q[k], sum[k] += q[k], senders[k] += q[k] != 0;
    }
    for (Point& each : x())
      for (std::size_t k = 0; k < 2; ++k)
        each[k] = sum[k] / (over == MeanOver::all ? kWorkers : std::max(1., senders[k]));
  }
  void outer_step(const OuterStep&) override { FAIL(); }
  double learning_rate() const override { return kRate; }
  void update() override {
    for (std::size_t i = 0; i < kWorkers; ++i)
      for (std::size_t k = 0; k < 2; ++k)
        x()[i][k] -= kRate * sgd_direction(momentum_, 0., nesterov_, x()[i][k],
                                           at(Vector::gradient)[i][k], at(Vector::velocity)[i][k]);
  }
  void mix() override {
    for (const Vector beside : formula_->sends_beside()) mix_vector(beside);
    mix_vector(Vector::model);
  }
  void mix_alone(Vector v) override { mix_vector(v); }
  void relay() override {
    using Place = RelayPlace<std::vector<double>>;
    if (places_.empty())
      for (int i = 0; i < kWorkers; ++i) {
        std::vector<Place::Link> links;
        for (const Neighbour& j : rounds_->round(i, 0).in) links.push_back({j.worker, {0, 0}});
        places_.emplace_back(std::move(links));
      }
    std::vector<std::vector<double>> h;
    for (const Point& p : x()) h.emplace_back(p.begin(), p.end());
    std::vector<Place> next = places_;
    for (std::size_t i = 0; i < kWorkers; ++i)
      for (const Place::Link& link : places_[i].links()) {
        std::vector<double> sum;
        const double count = places_[i].message(link.peer, h[i], sum);
        if (lost_ == 0 || draw_.uniform() >= lost_)
          next[static_cast<std::size_t>(link.peer)].arrived(static_cast<int>(i), sum, count);
      }
    places_ = std::move(next);
    for (std::size_t i = 0; i < kWorkers; ++i) {
      places_[i].average(h[i], kWorkers);
      std::ranges::copy(h[i], x()[i].begin());
    }
  }
  void begin_replicas() override {
    if (step_ == 0) replicas_ = x();
  }
  void receive_replicas() override {
    if (step_ > 0) exchange_replicas();
  }
  void exchange_replicas() override {
    const Compressor& by = *formula_->compressor();
    std::vector<char> code(static_cast<std::size_t>(by.bytes<double>(2)));
    for (std::size_t i = 0; i < kWorkers; ++i) {
      Point q = {x()[i][0] - replicas_[i][0], x()[i][1] - replicas_[i][1]};
      by.encode<double>(q, static_cast<std::uint64_t>(step_), code);
      by.decode<double>(code, static_cast<std::uint64_t>(step_), q);
      for (std::size_t k = 0; k < 2; ++k) replicas_[i][k] += q[k];
    }
  }
  void mix_replicas(double kappa) override {
    for (int i = 0; i < kWorkers; ++i)
      for (const Neighbour& j : rounds_->round(i, 0).in)
        for (std::size_t k = 0; k < 2; ++k)
          x()[static_cast<std::size_t>(i)][k] += kappa * j.weight *
                                                 (replicas_[static_cast<std::size_t>(j.worker)][k] -
                                                  replicas_[static_cast<std::size_t>(i)][k]);
  }
  void mix_vector(Vector v) {
    Points& values = at(v);
    const Points before = values;
    for (int i = 0; i < kWorkers; ++i) {
      const Round r = with_consensus_factor(rounds_->round(i, 0), formula_->consensus_factor());
      for (std::size_t k = 0; k < 2; ++k) {
        double& to = values[static_cast<std::size_t>(i)][k];
        const double own = to;
        for (const Neighbour& j : r.in)
          to += j.weight * (before[static_cast<std::size_t>(j.worker)][k] - own);
      }
    }
  }
  void mix_ahead() override { mix(); }
  void blend(Vector to, double a, double b, Vector from) override {
    for (std::size_t i = 0; i < kWorkers; ++i)
      for (std::size_t k = 0; k < 2; ++k) at(to)[i][k] = a * at(to)[i][k] + b * at(from)[i][k];
  }

  const std::unique_ptr<RoundFormula> formula_;
  const std::shared_ptr<const Rounds> rounds_;
  const double momentum_;
  const bool nesterov_;
  std::array<Points, 5> vectors_{};
  Points replicas_{};
  std::vector<RelayPlace<std::vector<double>>> places_;
  float lost_ = 0;
  Rng draw_{1};
  i64 step_ = 0;
};

inline double root_mean_square(const Points& x) {  // of the distance to the minimum
  double sum = 0;
  for (const Point& p : x)
    for (std::size_t k = 0; k < 2; ++k) sum += (p[k] - kMinimum[k]) * (p[k] - kMinimum[k]);
  return std::sqrt(sum / kWorkers);
}

}  // namespace gossamer::dist
