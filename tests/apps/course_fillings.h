// Fillings of the course's exercises that are wrong, each with what is to be said of it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace gossamer::apps {

// Code that is put before the line of an exercise that contains `before`.
struct Part {
  std::string before, code;
};
using Filling = std::vector<Part>;
struct Wrong {
  Filling filling;
  std::string hint;  // a part of it
};

// Right values of unit 1, recorded with what is kept and what is captured.
inline Filling swish(const std::string& kept, const std::string& captured) {
  return {{"return y;", R"(
  for (std::size_t k = 0; k < x.span<float>().size(); ++k)
    y.span<float>()[k] = x.span<float>()[k] / (1 + std::exp(-x.span<float>()[k]));
  record("swish", y, {x}, )" +
                            kept + ", " + captured +
                            R"((const Tensor& g, const std::vector<Tensor>&) -> Grads {
    return {Tensor::zeros(g.shape())};
  });)"}};
}

// Right but for what the closure reads.
inline const char* const kCapturesX = R"(
  for (std::size_t k = 0; k < x.span<float>().size(); ++k)
    y.span<float>()[k] = x.span<float>()[k] / (1 + std::exp(-x.span<float>()[k]));
  const Tensor own = x.detach();
  record("swish", y, {x}, {x}, [own](const Tensor& g, const std::vector<Tensor>&) -> Grads {
    Tensor dx = Tensor::empty(g.shape());
    for (std::size_t k = 0; k < g.span<float>().size(); ++k) {
      const float v = own.span<float>()[k], s = 1 / (1 + std::exp(-v));
      dx.span<float>()[k] = g.span<float>()[k] * (s + v * s * (1 - s));
    }
    return {dx};
  });)";

// A filling of unit 2: what W(i, j) is, by the sizes a and b of both, and the largest of all.
inline std::string weights_of_unit_2(const std::string& weight) {
  return R"(
  std::size_t most = 0;
  for (int i = 0; i < graph.n; ++i) most = std::max(most, graph.neighbours(i).size());
  for (int i = 0; i < graph.n; ++i) {
    w(i, i) = 1;
    for (const int j : graph.neighbours(i)) {
      const std::size_t a = graph.neighbours(i).size(), b = graph.neighbours(j).size();
      (void)a, (void)b;
      w(i, j) = )" +
         weight + R"(, w(i, i) -= w(i, j);
    }
  })";
}

// An exchange of unit 8 that goes well, and what becomes of each element of x.
inline std::string exchange_of_unit_8(const std::string& session, const std::string& mixed) {
  return R"(
    int powers = 0;
    while (1 << powers < group_.size()) ++powers;
    group_.payload().exchange(group_.rank() ^ (1 << (done_ % powers)), )" +
         session + R"(, params_.values(), received_, {}, Seconds(5));
    while (group_.control().next(Seconds(5)).kind != Event::Kind::exchanged) {
    }
    const auto x = params_.values().span<float>(), other = received_.span<float>();
    for (std::size_t k = 0; k < x.size(); ++k) )" +
         mixed;
}

// A filling of unit 7: the edges that are left, new ones, and what all together are scaled to.
inline std::string healed_of_unit_7(const std::string& new_edges, const std::string& sum) {
  return R"(
  for (const Edge& e : graph.edges)
    if (e.a != dead && e.b != dead) healed.edges.push_back(e);
  const std::vector<int> left = graph.neighbours(dead);)" +
         new_edges + R"(
  double rates = 0;
  for (const Edge& e : healed.edges) rates += e.rate;
  for (Edge& e : healed.edges) e.rate *= )" +
         sum + " / rates;";
}
inline const char* const kOneToTheNext = R"(
  for (std::size_t k = 0; k + 1 < left.size(); ++k)
    if (healed.rate(left[k], left[k + 1]) == 0)
      healed.edges.push_back({left[k], left[k + 1], 1});)";
// A filling of unit 9: what the noise of the mean is divided by, and what of it reaches a mode.
inline std::string loss_of_unit_9(const std::string& by, const std::string& arrives) {
  return R"(
  const auto n = static_cast<double>(eigenvalues.size());
  const auto noise = [&](double l) {
    const double keep = l * (1 - gamma);
    return )" +
         arrives + R"( * gamma * gamma * (1 - std::pow(keep, 2 * t)) / (1 - keep * keep);
  };
  (void)n;
  loss.of_mean = d / 2. * (std::pow(1 - gamma, 2 * t) + gamma * gamma *
                           (1 - std::pow(1 - gamma, 2 * t)) / (1 - std::pow(1 - gamma, 2)) )" +
         by + R"();
  loss.of_worker = loss.of_mean;
  for (std::size_t k = 1; k < eigenvalues.size(); ++k)
    loss.of_worker += d / 2. * noise(eigenvalues[k]) / static_cast<double>(eigenvalues.size());)";
}
// Another: what d/2 is, what the sum over modes is divided by, and a worker's loss.
inline std::string worker_of_unit_9(const std::string& half, const std::string& by,
                                    const std::string& worker) {
  return R"(
  const auto n = static_cast<double>(eigenvalues.size());
  const auto noise = [&](double l) {
    const double keep = l * l * (1 - gamma) * (1 - gamma);
    return l * l * gamma * gamma * (1 - std::pow(keep, t)) / (1 - keep);
  };
  double distance = 0;
  for (std::size_t k = 1; k < eigenvalues.size(); ++k) distance += noise(eigenvalues[k]);
  distance /= )" +
         by + R"(;
  const double mean = std::pow(1 - gamma, 2. * t) + noise(1) / n;
  loss.of_mean = )" +
         half + " * mean;\n  loss.of_worker = " + worker + ";";
}

// Right fillings of the first two holes of unit 10.
inline const char* const kPlaceOfUnit10 = R"(
  double weighted = 0, all = 0;
  for (std::size_t i = 0; i < b.size(); ++i) weighted += rates[i] * b[i], all += rates[i];
  return weighted / all;)";
inline const char* const kFactorsOfUnit10 = R"(
  for (std::size_t i = 0; i < rates.size(); ++i)
    factors[i] = *std::ranges::min_element(rates) / rates[i];)";

// A filling of the first hole of unit 11: which k are summed, and what is left of the noise.
inline std::string distance_of_unit_11(const std::string& from, const std::string& to,
                                       const std::string& left,
                                       const std::string& drift = "1 - std::pow(a, k)",
                                       const std::string& variance = "noise") {
  return R"(
  const double a = 1 - gamma;
  double sum = 0;
  for (int k = )" +
         from + "; k < " + to + R"(; ++k)
    sum += std::pow()" +
         drift + ", 2) * unlike + " + variance +
         R"( * gamma * gamma * (1 - std::pow(a, 2 * k)) / (1 - a * a) * )" + left + R"(;
  (void)n;
  return sum / period;)";
}

// A filling of the first hole of unit 12: what is added to the replica.
inline std::string exchange_of_unit_12(const std::string& sent) {
  return R"(
  for (std::size_t i = 0; i < x.size(); ++i) {
    Model news = x[i];
    for (std::size_t d = 0; d < news.size(); ++d) news[d] -= replica[i][d];
    const Model q = )" +
         sent + R"(;
    for (std::size_t d = 0; d < q.size(); ++d) replica[i][d] += q[d];
  }
  for (int i = 0; i < w.n; ++i)
    for (int j = 0; j < w.n; ++j)
      for (std::size_t d = 0; d < x[0].size(); ++d)
        x[static_cast<std::size_t>(i)][d] += kappa * w(i, j) *
            (replica[static_cast<std::size_t>(j)][d] - replica[static_cast<std::size_t>(i)][d]);)";
}
inline const char* const kInOneLoopOfUnit12 = R"(
  for (int i = 0; i < w.n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    Model news = x[at];
    for (std::size_t d = 0; d < news.size(); ++d) news[d] -= replica[at][d];
    const Model q = largest(news, k);
    for (std::size_t d = 0; d < q.size(); ++d) replica[at][d] += q[d];
    for (int j = 0; j < w.n; ++j)
      for (std::size_t d = 0; d < q.size(); ++d)
        x[at][d] += kappa * w(i, j) * (replica[static_cast<std::size_t>(j)][d] - replica[at][d]);
  })";
inline const char* const kSumOfUnit7 = "rate_of_a_worker * alive / 2";

inline const std::map<int, std::vector<Wrong>>& wrong_fillings() {
  static const std::map<int, std::vector<Wrong>> all{
      {1,
       {{{{"return y;", R"(
  for (std::size_t k = 0; k < x.span<float>().size(); ++k)
    y.span<float>()[k] = x.span<float>()[k] / (1 + std::exp(-x.span<float>()[k]));)"}},
         "nothing is on the tape"},
        {{{"return y;", R"(
  for (std::size_t k = 0; k < x.span<float>().size(); ++k)
    y.span<float>()[k] = x.span<float>()[k] / (1 + std::exp(-x.span<float>()[k]));
  record("swish", y, {x}, {x}, [](const Tensor& g, const std::vector<Tensor>& kept) -> Grads {
    Tensor dx = Tensor::empty(g.shape());
    for (std::size_t k = 0; k < g.span<float>().size(); ++k) {
      const float v = kept[0].span<float>()[k], s = 1 / (1 + std::exp(-v));
      dx.span<float>()[k] = s + v * s * (1 - s);
    }
    return {dx};
  });)"}},
         "what comes back is g dy/dx"},
        {swish("{x}", "[y]"), "the closure captures y"},
        {swish("{x, y}", "[]"), "s can be computed again"},
        {swish("{}", "[x]"), "it keeps nothing"},
        {{{"return y;", "return mul(x, sigmoid(x));"}}, "in one op, by record()"},
        {{{"return y;", kCapturesX}}, "read kept[0], and capture nothing"}}},
      {2,
       {{{{"return w;", R"(
  for (int i = 0; i < graph.n; ++i) {
    const auto mine = graph.neighbours(i);
    w(i, i) = 1.0 / (1.0 + static_cast<double>(mine.size()));
    for (const int j : mine) w(i, j) = w(i, i);
  })"}},
         "both ends of an edge must use the same weight"},
        {{{"return w;", R"(
  for (int i = 0; i < graph.n; ++i)
    for (const int j : graph.neighbours(i)) w(i, j) = .1, w(i, i) = 1;)"}},
         "W(i, i) is 1 minus the rest of row i"},
        {{{"return w;", R"(
  for (int i = 0; i < graph.n; ++i)
    for (const int j : graph.neighbours(i))
      w(i, j) = 1.0 / static_cast<double>(
                          std::max(graph.neighbours(i).size(), graph.neighbours(j).size()));)"}},
         "W(i, i) is 0: 1 + degree, not degree"},
        {{{"return w;", weights_of_unit_2("1. / (1. + static_cast<double>(std::min(a, b)))")}},
         "the larger of both degrees"},
        {{{"return w;", weights_of_unit_2("1 / (1 + std::max(a, b))")}},
         "a division of whole numbers"},
        {{{"return w;", weights_of_unit_2("1. / (1. + static_cast<double>(most))")}},
         "not of the whole graph"}}},
      {3,
       {{{{"return chi;", "chi.one = 1 / symmetric_eigenvalues(laplacian(graph))[0];"}},
         "take the second"},
        {{{"return chi;", "chi.one = 1 / symmetric_eigenvalues(laplacian(graph))[1];"}},
         "the largest over all edges"}}},
      {4,
       {{{{"(void)x, (void)twin, (void)eta, (void)dt;", "x += eta * (twin - x) * dt;"}},
         "what x gains the twin loses"},
        {{{"(void)x, (void)twin, (void)eta, (void)dt;", R"(
  const double move = eta * (twin - x) * dt;
  x += move, twin -= move;)"}},
         "right for a small dt only"},
        {{{"return numbers;", R"(
  numbers.eta = 1 / (2 * std::sqrt(chi1 * chi2));)"},
          {"(void)x, (void)twin, (void)eta, (void)dt;", R"(
  const double c = (1 + std::exp(-2 * eta * dt)) / 2, s = 1 - c, before = x;
  x = c * x + s * twin, twin = s * before + c * twin;)"},
          {"(void)x, (void)twin, (void)d, (void)alpha_tilde;",
           "x -= d / 2, twin -= alpha_tilde * d;"}},
         "sqrt(chi1 / chi2) / 2"}}},
      {5,
       {{{{"(void)x, (void)twin, (void)d, (void)late", "x -= d / 2, twin -= alpha_tilde * d;"}},
         "would have drifted too"},
        {{{"(void)x, (void)twin, (void)d, (void)late", R"(
  const double s = (1 + std::exp(-2 * eta * late)) / 2, c = 1 - s;
  if (late == 0) {
    x -= d / 2, twin -= alpha_tilde * d;
    return;
  }
  x -= (c / 2 + s * alpha_tilde) * d, twin -= (s / 2 + c * alpha_tilde) * d;)"}},
         "c and s have changed places"},
        {{{"(void)x, (void)twin, (void)d, (void)late", R"(
  const double s = (1 + std::exp(-2 * eta * late)) / 2, c = 1 - s;
  x -= (c / 2 + s * alpha_tilde) * d, twin -= (s / 2 + c * alpha_tilde) * d;)"}},
         "which is 1 if late is 0"}}},
      {6,
       {{{{"(void)self, (void)peer;", "if (peer >= 0) return true;"},
          {"(void)self, (void)from;",
           "if (self.asked < 0 && self.paired < 0) return Answer::yes;"}},
         "They wait in a circle"},
        {{{"(void)self, (void)peer;", "if (peer > self.rank) return true;"},
          {"(void)self, (void)from;", "if (self.paired < 0) return Answer::yes;"}},
         "While it waits (asked != -1) it must say later"},
        {{{"(void)self, (void)peer;", "if (peer > self.rank) return true;"}},
         "which is free and says later"}}},
      {7,
       {{{{"return healed;", healed_of_unit_7("", kSumOfUnit7)}},
         "join the neighbours of the dead worker"},
        {{{"return healed;", healed_of_unit_7(kOneToTheNext, "rates")}},
         "multiply all by what is missing"},
        {{{"return healed;", healed_of_unit_7(kOneToTheNext, "alive / 2.0")}},
         "rate_of_a_worker is 2 here"},
        {{{"return healed;", healed_of_unit_7(R"(
  for (const int a : left)
    for (const int b : left)
      if (a < b && healed.rate(a, b) == 0) healed.edges.push_back({a, b, 1});)",
                                              kSumOfUnit7)}},
         "join them one to the next"},
        {{{"return healed;", R"(
  for (int a = 0; a < graph.n; ++a)
    for (int b = a + 1; b < graph.n; ++b)
      if (a != dead && b != dead && !graph.neighbours(a).empty() && !graph.neighbours(b).empty())
        healed.edges.push_back({a, b, rate_of_a_worker / (alive - 1)});)"}},
         "and one of the two had no edge with"}}},
      {8,
       {{{{"++done_;", "optimizer_.step(static_cast<float>(learning_rate));"}},
         "the workers are where they were"},
        {{{"++done_;", R"(
    const int peer = group_.rank() ^ 1;
    group_.payload().exchange(peer, static_cast<std::uint64_t>(done_), params_.values(), received_,
                              {}, Seconds(5));
    while (group_.control().next(Seconds(5)).kind != Event::Kind::exchanged) {
    }
    const auto x = params_.values().span<float>(), other = received_.span<float>();
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = (x[k] + other[k]) / 2;)"}},
         "k grows by one each step"},
        {{{"++done_;", "optimizer_.step(static_cast<float>(learning_rate));" +
                           exchange_of_unit_8("7", "x[k] = (x[k] + other[k]) / 2;")}},
         "session 7 of workers"},
        {{{"++done_;",
           exchange_of_unit_8("static_cast<std::uint64_t>(done_)", "x[k] = other[k];")}},
         "each worker holds what its peer held"},
        {{{"++done_;", exchange_of_unit_8("static_cast<std::uint64_t>(done_)",
                                          "x[k] = (x[k] + other[k]) / 2;") +
                           "\n    optimizer_.step(static_cast<float>(learning_rate));"}},
         "optimizer_.step() first, then the exchange"}}},
      {9,
       {{{{"return loss;", loss_of_unit_9("", "l * l")}}, "the variance 1/n"},
        {{{"return loss;", loss_of_unit_9("/ n", "1")}}, "λ² γ² of it arrives"},
        {{{"return loss;", worker_of_unit_9("d / 2.", "n", "d / 2. * distance")}},
         "of_worker is the loss of the mean model plus"},
        {{{"return loss;", worker_of_unit_9("d / 2.", "(n - 1)", "d / 2. * (mean + distance)")}},
         "by n, not n - 1"},
        {{{"return loss;", worker_of_unit_9("d / 2", "n", "d / 2. * (mean + distance)")}},
         "d / 2 divides whole numbers"}}},
      {10,
       {{{{"return 0;", R"(
  double weighted = 0, all = 0;
  for (std::size_t i = 0; i < b.size(); ++i) weighted += b[i] / rates[i], all += 1 / rates[i];
  return weighted / all;)"}},
         "not 1 / r_i: fast workers win"},
        {{{"return 0;", kPlaceOfUnit10},
          {"return factors;",
           "for (std::size_t i = 0; i < rates.size(); ++i) factors[i] = 1 / "
           "rates[i] * rates[0];"}},
         "use the least of all rates"},
        {{{"return 0;", kPlaceOfUnit10},
          {"return factors;",
           "for (std::size_t i = 0; i < rates.size(); ++i) factors[i] = 1 / rates[i];"}},
         "1 / r_i makes the steps of slow workers too long"},
        {{{"return 0;", kPlaceOfUnit10},
          {"return factors;", kFactorsOfUnit10},
          {"(void)w, (void)gamma, (void)g, (void)all;", R"(
  const Workers old = all;
  for (int i = 0; i < w.n; ++i) {
    const auto at = static_cast<std::size_t>(i);
    all.x[at] = -gamma * old.y[at], all.y[at] = g[at] - old.before[at];
    for (int j = 0; j < w.n; ++j) {
      all.x[at] += w(i, j) * old.x[static_cast<std::size_t>(j)];
      all.y[at] += w(i, j) * old.y[static_cast<std::size_t>(j)];
    }
  }
  all.before = g;)"}},
         "x takes a step along y, as it has just become"},
        {{{"return 0;", kPlaceOfUnit10},
          {"return factors;", kFactorsOfUnit10},
          {"(void)w, (void)gamma, (void)g, (void)all;", R"(
  for (std::size_t i = 0; i < g.size(); ++i) all.x[i] -= gamma * (all.y[i] = g[i]);)"}},
         "W mixes x and y"},
        {{{"return 0;", kPlaceOfUnit10},
          {"return factors;", kFactorsOfUnit10},
          {"(void)w, (void)gamma, (void)g, (void)all;", R"(
  for (std::size_t i = 0; i < g.size(); ++i) all.x[i] -= gamma * (all.y[i] += g[i]);)"}},
         "`before` becomes g"}}},
      {11,
       {{{{"return 0;", distance_of_unit_11("1", "period + 1", "(1 - 1. / n)")}},
         "k runs from 0, just after an average"},
        {{{"return 0;", distance_of_unit_11("0", "period", "1")}}, "of the noise 1 - 1/n is left"},
        {{{"return 0;", distance_of_unit_11("0", "period", "(1 - 1 / n)")}}, "(1. / n, for whole"},
        {{{"return 0;", distance_of_unit_11("0", "period", "(1 - 1. / n)", "gamma * k")}},
         "γk is only the start of 1 - a^k"},
        {{{"return 0;", distance_of_unit_11("0", "period", "(1 - 1. / n)", "1 - std::pow(a, k)",
                                            "noise * noise")}},
         "noise is s² already"},
        {{{"return 0;", distance_of_unit_11("0", "period", "(1 - 1. / n)")},
          {"(void)n, (void)steps, (void)period, (void)pairs;",
           "return steps / period * (pairs ? 1 : 2 * (n - 1) / n);"}},
         "instead of 15, for 10 averages of 4 workers; do you divide whole numbers?"},
        {{{"return 0;", distance_of_unit_11("0", "period", "(1 - 1. / n)")},
          {"(void)n, (void)steps, (void)period, (void)pairs;",
           "return steps / period * (pairs ? 2 : 2. * (n - 1) / n);"}},
         "it is 20: 100 steps with period 10 have 10 averages, one model each"},
        {{{"return 0;", distance_of_unit_11("0", "period", "(1 - 1. / n)")},
          {"(void)n, (void)steps, (void)period, (void)pairs;",
           "return steps / period * (pairs ? 1 : 2. * (n - 1) / n);"},
          {"(void)outer, (void)velocity, (void)mean, (void)rate, (void)momentum;",
           "velocity = momentum * velocity + (1 - momentum) * (outer - mean), "
           "outer -= rate * (outer - mean + momentum * velocity);"}},
         "v <- μ v + d, without a factor"},
        {{{"return 0;", distance_of_unit_11("0", "period", "(1 - 1. / n)")},
          {"(void)n, (void)steps, (void)period, (void)pairs;",
           "return 1. * steps / period * (pairs ? 1 : 2. * (n - 1) / n);"}},
         "divide whole numbers"},
        {{{"return 0;", distance_of_unit_11("0", "period", "(1 - 1. / n)")},
          {"(void)n, (void)steps, (void)period, (void)pairs;",
           "return steps / period * (pairs ? 1 : 2. * (n - 1) / n);"},
          {"(void)outer, (void)velocity, (void)mean, (void)rate, (void)momentum;",
           "velocity = momentum * velocity + outer - mean, outer -= rate * velocity;"}},
         "that is the heavy ball"}}},
      {12,
       {{{{"(void)w, (void)kappa, (void)k, (void)x, (void)replica;",
           "for (std::size_t i = 0; i < x.size(); ++i) replica[i] = largest(x[i], k);"}},
         "goes κ W_ij of the way"},
        {{{"(void)w, (void)kappa, (void)k, (void)x, (void)replica;",
           exchange_of_unit_12("largest(x[i], k)")}},
         "not of x: what is known already is not news"},
        {{{"(void)w, (void)kappa, (void)k, (void)x, (void)replica;", kInOneLoopOfUnit12}},
         "others lose; all replicas first, then all models"},
        {{{"(void)w, (void)kappa, (void)k, (void)x, (void)replica;",
           exchange_of_unit_12("largest(news, k)")},
          {"(void)other, (void)weight, (void)radius;",
           "for (std::size_t d = 0; d < own.size(); ++d)\n    out[d] = weight * "
           "std::clamp(other[d] - "
           "own[d], -radius, radius);"}},
         "clip the length of the difference"}}}};
  return all;
}

}  // namespace gossamer::apps
