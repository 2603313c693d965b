// How long training takes and who waits: CIFAR-10 and ImageNet of A2CiD2, and one slow worker.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "gossamer/apps/paper/paper.h"
#include "gossamer/dist/simulation/coordinator.h"
#include "gossamer/dist/simulation/network.h"
#include "gossamer/dist/simulation/timeline.h"

namespace gossamer::apps {
namespace {

const char* const kA2cid2 = "Nabli, Belilovsky, Oyallon: A2CiD2, NeurIPS 2023 (arXiv 2306.08289)";

// Nodes of 8 A100 joined by NVLink, 100 Gb/s Omni-Path between them.
dist::Machines jean_zay(double compute_s, double sigma, double bytes, int buckets) {
  dist::Machines m;
  m.compute_s = compute_s;
  m.compute = {dist::Spread::Kind::lognormal, sigma};
  m.node_size = 8;
  m.node_bandwidth = 2e11;
  m.node_latency_s = 1e-5;
  m.bandwidth = 12.5e9;
  m.latency_s = 2e-5;
  m.bytes = bytes;
  m.buckets = buckets;
  return m;
}

dist::SimulationPlan plan_of(int workers, const std::string& method, dist::Machines machines) {
  dist::SimulationOptions o;
  o.graph = "exponential";
  o.workers = workers;
  o.method = method;
  o.pairing = "handshake";
  o.dims = 1;
  o.machines = std::move(machines);
  return dist::plan_simulation(o);
}

// Seconds until the workers together have done so many gradients, as this library pairs them.
double gossip_seconds(const dist::SimulationPlan& plan, double gradients) {
  dist::NetworkSimulation run(plan, nullptr, 0);
  const double step = plan.options.machines.compute_s;
  double t = 0;
  while (static_cast<double>(run.gradients()) < gradients) run.run_until_seconds(t += step);
  return t;
}

double all_reduce_step(const dist::SimulationPlan& plan, double steps) {
  const auto r = dist::simulate_timeline(plan, steps * plan.options.machines.compute_s);
  return 1 / r.workers[0].steps_per_s;
}

}  // namespace

PaperPage cifar_minutes(const PaperOptions&) {
  constexpr double kCompute = .043, kSigma = .04, kGradients = 300 * 390;
  PaperPage page{
      .title = "Minutes of CIFAR-10 with 4 to 64 workers",
      .source = std::string(kA2cid2) + ", table 3 (each +- .1 minute)",
      .assumptions = {
          "ResNet-18, 300 epochs of 390 batches of 128: 117,000 gradients of all workers together; "
          "44.7 MB; nodes of 8 A100 with 200 GB/s and 10 us within a node, 100 Gb/s and 20 us "
          "between nodes, shared by its 8 workers.",
          "All-reduce: 2 buckets of 22 MB (PyTorch's are 25 MB), the faster of ring and tree, "
          "beside backward, which is two thirds of the gradient.",
          "A2CiD2 as published: worker 0 pairs free neighbours of the exponential graph; a "
          "gradient "
          "waits for its exchange; the two sides send one after the other (NCCL).",
          "Fitted, to the column of 4 workers only (one node): 43 ms a gradient, and a log-normal "
          "spread of 4 % in each gradient's time (all-reduce waits for the slowest). Nothing is "
          "fitted to the other columns."}};
  const int sizes[] = {4, 8, 16, 32, 64};
  const double all_reduce[] = {21.9, 11.1, 6.6, 3.2, 1.8}, gossip[] = {20.9, 10.5, 5.2, 2.7, 1.5};
  PaperChart chart{{"minutes", "workers", true, true}, {}};
  Curve ours[2] = {{.name = "all-reduce"}, {.name = "A2CiD2", .colour = 1}},
        theirs[2] = {{.name = "published", .dots = true},
                     {.name = "published", .colour = 1, .dots = true}};
  std::string handshake;
  for (int k = 0; k < 5; ++k) {
    const int n = sizes[k];
    const auto machines = jean_zay(kCompute, kSigma, 44.7e6, 2);
    const double steps = std::floor(kGradients / n);
    const double reduced = steps * all_reduce_step(plan_of(n, "allreduce", machines), 2000) / 60;
    const auto plan = plan_of(n, "a2cid2", machines);
    const double gossiped = dist::coordinated_run(plan, static_cast<i64>(n * steps)).seconds / 60;
    page.rows.push_back(within(.15, fmt::format("all-reduce, n = {}", n), all_reduce[k], reduced));
    page.rows.push_back(within(.05, fmt::format("A2CiD2, n = {}", n), gossip[k], gossiped));
    handshake += fmt::format("{}{:.2f}", k > 0 ? ", " : "", gossip_seconds(plan, n * steps) / 60);
    ours[0].points.emplace_back(n, reduced), theirs[0].points.emplace_back(n, all_reduce[k]);
    ours[1].points.emplace_back(n, gossiped), theirs[1].points.emplace_back(n, gossip[k]);
  }
  for (const Curve& c : {ours[0], ours[1], theirs[0], theirs[1]}) chart.curves.push_back(c);
  page.charts.push_back(std::move(chart));
  page.notes = {
      "With this library's handshake, where no gradient waits for an exchange: " + handshake +
          " minutes.",
      "A2CiD2 with 64 workers does not come out: 1.5 minutes are 49 ms a gradient, a seventh more "
      "than with 4, and nothing in this model takes them; +-.1 minute is 7 %. Six seconds to begin "
      "and end a run would make 1.41."};
  return page;
}

PaperPage imagenet_idle(const PaperOptions&) {
  constexpr int kWorkers = 64, kSlowNode = 8;
  constexpr double kCompute = .632, kSlow = 1.06, kSigma = .04, kSteps = 14'075;
  PaperPage page{
      .title = "Who waits on ImageNet with 64 workers",
      .source = std::string(kA2cid2) + ", table 2 (thousands of gradients; minutes to two digits)",
      .assumptions = {
          "ResNet-50, 90 epochs of batches of 128: 900,800 gradients in all; 102 MB; the machines "
          "of cifar-minutes, four buckets, a spread of 4 % in each gradient's time.",
          "Fitted: 632 ms a gradient to A2CiD2's 150 minutes; one of the eight nodes is 6 % "
          "slower, "
          "to its slowest worker's 13k. All-reduce is predicted from that.",
          "A2CiD2 as published: worker 0 pairs free neighbours of the exponential graph, and a "
          "gradient waits for its exchange."}};
  auto machines = jean_zay(kCompute, kSigma, 102e6, 4);
  machines.slow.assign(kWorkers, 1.0);
  std::fill_n(machines.slow.begin(), kSlowNode, kSlow);
  const auto plan = plan_of(kWorkers, "a2cid2", machines);
  const auto gossip = dist::coordinated_run(plan, static_cast<i64>(kWorkers * kSteps));
  const auto [slowest, fastest] = std::ranges::minmax(gossip.gradients);
  const auto reduced = plan_of(kWorkers, "allreduce", machines);
  const auto line = dist::simulate_timeline(reduced, 2000 * kCompute);
  const double step = 1 / line.workers[0].steps_per_s;
  page.rows = {near(.5, "A2CiD2: fastest worker, thousands", 14, fastest / 1e3),
               near(.5, "A2CiD2: slowest worker, thousands", 13, slowest / 1e3),
               near(5, "A2CiD2: minutes", 150, gossip.seconds / 60),
               near(.5, "all-reduce: every worker, thousands", 14, kSteps / 1e3),
               near(5, "all-reduce: minutes", 170, step * kSteps / 60)};
  double waited = 0, idle = 0;
  for (const double s : gossip.waited_s) waited += s / gossip.seconds / kWorkers;
  for (const auto& w : line.workers) idle += (w.waiting + w.exposed) / kWorkers;
  page.rows.push_back(shown("A2CiD2: part of the time in which a worker waits", NAN, waited));
  page.rows.push_back(shown("all-reduce: part of the time in which a worker waits", NAN, idle));
  PaperChart chart{{"thousands of gradients by worker", "worker", false, false}, {}};
  Curve ours{.name = "A2CiD2", .dots = true}, same{.name = "all-reduce", .colour = 1};
  for (int i = 0; i < kWorkers; ++i) {
    ours.points.emplace_back(i, gossip.gradients[static_cast<std::size_t>(i)] / 1e3);
    same.points.emplace_back(i, kSteps / 1e3);
  }
  chart.curves = {ours, same};
  page.charts.push_back(std::move(chart));
  page.notes = {
      fmt::format("With this library's handshake A2CiD2 would take {:.0f} minutes: no "
                  "gradient waits for an exchange.",
                  gossip_seconds(plan, kWorkers * kSteps) / 60)};
  return page;
}

PaperPage straggler_page(const PaperOptions&) {
  PaperPage page{
      .title = "One worker three times slower",
      .source =
          "No paper; expected numbers: numpy's, of the same machines (tests/pages/machines.py)",
      .assumptions = {
          "0.25 s a gradient, log-normal with sigma .3; worker 3 needs three times as long; "
          "ResNet-50 (102 MB) over 25 Gb/s, .1 ms, each worker a node of its own; 1,000 gradient "
          "durations, mean of 8 seeds; of gossip, which waits for nobody, one.",
          "Efficiency: steps of all workers by the steps of workers that never wait. Rounds of sgp "
          "and dpsgd as `gossamer simulate timeline` has them; local-sgd averages every 8 steps."}};
  constexpr int kSeeds = 8;
  const struct {
    const char* method;
    double expected;
  } methods[] = {{"allreduce", .339}, {"local-sgd", .344}, {"sgp", .335},
                 {"dpsgd", .352},     {"a2cid2", 1},       {"adpsgd", 1}};
  PaperChart chart{{"efficiency with one slow worker", "workers", false, true}, {}};
  int colour = 0;
  for (const auto& m : methods) {
    Curve curve{.name = m.method, .colour = colour++};
    for (const int n : {4, 8, 16, 32, 64}) {
      dist::SimulationOptions o;
      o.graph = "ring";
      o.workers = n;
      o.method = m.method;
      o.pairing = "handshake";
      o.dims = 1;
      o.machines.compute = {dist::Spread::Kind::lognormal, .3};
      o.machines.slow = {1, 1, 1, 3};
      const int seeds = m.expected < 1 ? kSeeds : 1;
      double got = 0;
      for (int seed = 0; seed < seeds; ++seed) {
        o.seed = static_cast<std::uint64_t>(seed);
        const auto plan = dist::plan_simulation(o);
        got += dist::simulate_timeline(plan, 1000 * o.machines.compute_s).efficiency / seeds;
      }
      curve.points.emplace_back(n, got);
      const std::string what = fmt::format("{}, n = {}", m.method, n);
      page.rows.push_back(n == 16 ? expected_near(.01, what, m.expected, got)
                                  : shown(what, NAN, got));
    }
    chart.curves.push_back(std::move(curve));
  }
  page.charts.push_back(std::move(chart));
  page.notes = {
      "Whoever meets in rounds goes at the pace of the slowest, whatever the graph; gossip "
      "loses the slow worker's share alone."};
  return page;
}

}  // namespace gossamer::apps
