// How fast workers agree: table 1 of A2CiD2's slides, the ring of 64, the order of the published
// code.
#include <fmt/format.h>

#include "gossamer/apps/paper/paper.h"
#include "gossamer/dist/graph/theory.h"
#include "gossamer/dist/simulation/consensus.h"

namespace gossamer::apps {
namespace {

const char* const kA2cid2 = "Nabli, Belilovsky, Oyallon: A2CiD2, NeurIPS 2023 (arXiv 2306.08289)";

dist::SimulationPlan ring_plan(int workers, const std::string& method) {
  dist::SimulationOptions o;
  o.graph = "ring";
  o.workers = workers;
  o.method = method;
  return dist::plan_simulation(o);
}

double exact_rate(int workers, bool accelerated) {
  const dist::Graph g = dist::make_graph("ring", workers);
  const dist::GraphConstants k = dist::constants(g);
  return dist::decay_exponent(g, accelerated ? k.eta : 0, k.alpha,
                              accelerated ? k.alpha_tilde : k.alpha)
      .value_or(NAN);
}

Points points_of(const std::vector<double>& x, const std::vector<double>& y) {
  Points out;
  for (std::size_t k = 0; k < x.size(); ++k) out.emplace_back(x[k], y[k]);
  return out;
}

}  // namespace

PaperPage slides_table(const PaperOptions&) {
  PaperPage page{
      .title = "Exchanges until agreement, and how they grow with n",
      .source = std::string(kA2cid2) + ", table 1 (as on its slides)",
      .assumptions = {
          "Counted are exchanges between two workers until |x - mean| is a millionth of "
          "its start, from the start that is slowest on the graph.",
          "Synchronous: every edge exchanges in every round, Metropolis weights. "
          "Accelerated: the same rounds with Chebyshev's recurrence. A2CiD2: simulated, "
          "exchanges at Poisson times, n/2 a unit of time; mean of 8 to 256 seeds.",
          "The powers are fitted over n = 16, 32, ... 1024 by least squares; the paper's "
          "are for n to infinity."}};
  const std::vector<int> sizes{16, 32, 64, 128, 256, 512, 1024};
  const struct {
    const char* graph;
    double synchronous, accelerated, a2cid2;
  } table[] = {{"star", 2, 1.5, 1}, {"ring", 3, 2, 2}, {"complete", 2, 2, 1}};
  for (const auto& row : table) {
    std::vector<double> n, counts[3];
    for (const int size : sizes) {
      const auto r = dist::count_exchanges(row.graph, size, std::max(8, 4096 / size));
      n.push_back(size);
      counts[0].push_back(r.synchronous);
      counts[1].push_back(r.accelerated);
      counts[2].push_back(r.a2cid2);
    }
    const char* names[] = {"synchronous", "accelerated", "A2CiD2"};
    const double published[] = {row.synchronous, row.accelerated, row.a2cid2};
    PaperChart chart{{std::string("exchanges, ") + row.graph, "workers", true, true}, {}};
    for (int m = 0; m < 3; ++m) {
      page.rows.push_back(near(.05, fmt::format("{}, {}: power of n", row.graph, names[m]),
                               published[m], dist::fitted_power(n, counts[m])));
      chart.curves.push_back({.name = names[m], .points = points_of(n, counts[m]), .colour = m});
    }
    page.charts.push_back(std::move(chart));
  }
  page.notes = {
      "A complete graph gains nothing from acceleration: its synchronous rounds agree at once, and "
      "each costs n (n - 1)/2 exchanges.",
      "The star needs few exchanges, but its hub has to do n/2 of them in a unit of time."};
  return page;
}

PaperPage ring_page(const PaperOptions&) {
  constexpr int kSeeds = 12, kSamples = 90;
  PaperPage page{
      .title = "A ring of 64 agrees, with and without acceleration",
      .source = std::string(kA2cid2) + ", figure on consensus; exact exponents by theory",
      .assumptions = {
          "64 workers, independent normal values in 16 coordinates, exchanges at Poisson "
          "times, one a worker and unit of time; no gradients.",
          "The exact exponents are eigenvalues of the linear equation that moves second "
          "moments (dist/graph/theory.h).",
          "The simulated slope is of the mean over seeds: late in the run for the "
          "baseline (its fast modes must be gone), over [100, 300] for A2CiD2."}};
  const struct {
    const char *method, *name;
    double exact, late;
  } rows[] = {{"adpsgd", "without (AD-PSGD)", .0048, .0048}, {"a2cid2", "A2CiD2", .0567, .0555}};
  PaperChart chart{{"mean (x − x̄)² on a ring of 64", "mean gradient durations", true}, {}};
  for (int m = 0; m < 2; ++m) {
    const auto& row = rows[m];
    dist::SimulationPlan plan = ring_plan(64, row.method);
    const double exact = exact_rate(64, m == 1);
    page.rows.push_back(
        expected_within(.01, fmt::format("{}: exact exponent", row.name), row.exact, exact));
    const auto late = m == 0 ? dist::simulate_consensus(plan, 2000, 40, 800)
                             : dist::simulate_consensus(plan, 300, 40, 100);
    page.rows.push_back(expected_within(.1, fmt::format("{}: slope, 40 seeds", row.name), row.late,
                                        late.decay_rate));
    std::vector<double> time, mean(kSamples + 1, 0.0);
    for (int k = 0; k <= kSamples; ++k) time.push_back(300. * k / kSamples);
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      const auto run = dist::make_simulation(plan, nullptr, seed);
      Curve curve{.name = fmt::format("{}, seed {}", row.name, seed), .colour = 7, .faint = true};
      for (std::size_t k = 0; k < time.size(); ++k) {
        run->run_until(time[k]);
        const double distance = run->distance();
        mean[k] += distance / kSeeds;
        curve.points.emplace_back(time[k], distance);
      }
      chart.curves.push_back(std::move(curve));
    }
    chart.curves.push_back({.name = row.name, .points = points_of(time, mean), .colour = m});
    Curve slope{.name = fmt::format("exactly exp(-{:.4g} t)", exact), .colour = m + 2};
    const std::size_t from = time.size() / 3;
    for (std::size_t k = from; k < time.size(); ++k)
      slope.points.emplace_back(time[k], mean[from] * std::exp(-exact * (time[k] - time[from])));
    chart.curves.push_back(std::move(slope));
  }
  page.rows.push_back(shown("how many times as fast", NAN, page.rows[2].ours / page.rows[0].ours));
  page.charts.push_back(std::move(chart));
  page.notes = {
      "Until t = 300 the baseline still falls faster (.0058) than in the long run: waves "
      "shorter than the ring die first."};
  return page;
}

PaperPage published_order(const PaperOptions&) {
  PaperPage page{
      .title = "What the published code's order of events costs",
      .source =
          std::string(kA2cid2) + ", code in p2p_averaging.py; rates by Monte Carlo (oracle T12)",
      .assumptions = {
          "The published code sends x as it was last written, lets x and x~ drift after "
          "the transfer, and then replaces x by the mean. Here x and x~ drift first.",
          "Staleness: x was last written at most so long before the exchange (a gradient "
          "writes it); in mean gradient durations. None: only exchanges write it.",
          "Slope of the mean (x - mean)^2 over 40 seeds on [20, 80] for n = 16, on [100, "
          "300] for n = 64."}};
  const struct {
    int workers;
    double from, to, baseline, exact, order[5];
  } rings[] = {{16, 20, 80, .0765, .197, {.190, .184, .173, .151, .111}},
               {64, 100, 300, .0059, .0555, {.042, .035, .027, .017, .0089}}};
  const double stale[] = {.05, .1, .2, .5, INFINITY};
  PaperChart chart{{"rate of agreement, of the exact order's", "staleness of x", false}, {}};
  for (const auto& ring : rings) {
    const auto rate = [&](const char* method, double staleness) {
      dist::SimulationPlan plan = ring_plan(ring.workers, method);
      plan.options.staleness = staleness;
      return dist::simulate_consensus(plan, ring.to, 40, ring.from).decay_rate;
    };
    const auto row = [&](double part, const std::string& what, double expected, double ours) {
      page.rows.push_back(
          expected_within(part, fmt::format("ring of {}: {}", ring.workers, what), expected, ours));
    };
    const double exact = rate("a2cid2", 0);
    row(.1, "without acceleration", ring.baseline, rate("adpsgd", 0));
    row(.15, "exact order", ring.exact, exact);
    Curve curve{.name = fmt::format("ring of {}", ring.workers),
                .points = {{0, 1}},
                .colour = ring.workers == 16 ? 0 : 1};
    for (int k = 0; k < 5; ++k) {
      const double ours = rate("published", stale[k]);
      row(.15,
          std::isfinite(stale[k]) ? fmt::format("published, staleness {}", stale[k])
                                  : "published, no gradients",
          ring.order[k], ours);
      if (std::isfinite(stale[k])) curve.points.emplace_back(stale[k], ours / exact);
    }
    chart.curves.push_back(std::move(curve));
  }
  page.charts.push_back(std::move(chart));
  page.notes = {
      "With the papers' slow steps (about 640 ms) x was seldom old, so little was lost; "
      "with fast steps most of the acceleration is.",
      "The published order also moves the mean of all workers; the exact one keeps it."};
  return page;
}

}  // namespace gossamer::apps
