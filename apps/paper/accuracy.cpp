// CIFAR-10's accuracy by method and graph, by real runs of `gossamer train`.
#include <fmt/format.h>

#include "gossamer/apps/paper/paper.h"

namespace gossamer::apps {
namespace {

constexpr const char *kGraphs[] = {"ring", "exponential", "complete"},
                     *kMethods[] = {"adpsgd", "a2cid2"}, *kSums = "allreduce";

struct Arm {
  std::string method, graph;  // graph: none, where gradients are summed over all
  std::string text() const { return method + (graph.empty() ? "" : " on " + graph); }
};

std::vector<Arm> arms() {
  std::vector<Arm> all{{kSums, ""}};
  for (const char* method : kMethods)
    for (const char* graph : kGraphs) all.push_back({method, graph});
  return all;
}

PlannedRun planned(const Arm& arm, int workers) {
  PlannedRun run{.name = arm.method, .keys = {"train.method=" + arm.method}};
  if (!arm.graph.empty()) {
    run.name += "-" + arm.graph;
    run.keys.push_back("train.graph=" + arm.graph);
  }
  run.name += fmt::format("-{}", workers);
  return run;
}

}  // namespace

PaperPage cifar_accuracy(const PaperOptions& options) {
  PaperPage page{
      .title = fmt::format("CIFAR-10 by {} workers: accuracy by method and graph", options.workers),
      .source =
          "Nabli, Belilovsky, Oyallon: A2CiD2, NeurIPS 2023 (arXiv 2306.08289), and the script of "
          "github.com/AdelNabli/ACiD",
      .assumptions = {
          "The recipe is apps/configs/cifar10-resnet18-paper.toml, or the one given: what all runs "
          "have in common. One seed each.",
          "All-reduce sums gradients and knows no graph.",
          "Where all workers share one GPU or CPU, the seconds say nothing of a machine of which "
          "each has its own."}};
  const std::vector<Arm> all = arms();
  std::vector<PlannedRun> plans;
  for (const Arm& arm : all) plans.push_back(planned(arm, options.workers));
  const std::vector<PaperRun> runs = options.runs(plans);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const PaperRun& run = runs.at(i);
    page.rows.push_back(shown(all[i].text() + ": top-1, %", NAN, 100 * run.top1));
    page.rows.push_back(shown("    seconds", NAN, run.seconds));
    if (all[i].graph.empty()) continue;
    page.rows.push_back(shown("    exchanges per gradient", NAN, run.exchanges));
    page.rows.push_back(shown("    consensus distance at the end", NAN, run.distance));
  }
  PaperChart chart{.text = {"top-1, %", "graph: 1 ring, 2 exponential, 3 complete"}};
  const double sums = 100 * runs.at(0).top1;
  chart.curves.push_back({.name = kSums, .points = {{1, sums}, {3, sums}}});
  for (std::size_t i = 1; i < all.size(); i += std::size(kGraphs)) {
    Curve curve{.name = all[i].method, .points = {}, .colour = static_cast<int>(i)};
    for (std::size_t g = 0; g < std::size(kGraphs); ++g)
      curve.points.emplace_back(g + 1, 100 * runs.at(i + g).top1);
    chart.curves.push_back(std::move(curve));
  }
  page.charts.push_back(std::move(chart));
  return page;
}

}  // namespace gossamer::apps
