// CIFAR-10's accuracy by method and graph, by real runs of `gossamer train`.
#include <fmt/format.h>

#include "gossamer/apps/paper/paper.h"

namespace gossamer::apps {
namespace {

constexpr const char* kGraphs[] = {"ring", "exponential", "complete"};
constexpr const char* kMethods[] = {"adpsgd", "a2cid2"};

}  // namespace

PaperPage cifar_accuracy(const PaperOptions& options) {
  PaperPage page{
      .title = fmt::format("CIFAR-10 by {} workers: accuracy by method and graph", options.workers),
      .source =
          "Nabli, Belilovsky, Oyallon: A2CiD2, NeurIPS 2023 (arXiv 2306.08289), and the script of "
          "github.com/AdelNabli/ACiD",
      .assumptions = {
          "The recipe is apps/configs/cifar10-resnet18-paper.toml, or the one given: what all runs "
          "have in common. One seed.",
          "Each run has a folder. A run that has ended is not made again, one that was stopped "
          "goes on from its checkpoint.",
          "All-reduce sums gradients and knows no graph."}};
  // graph: "" for sums over all
  const auto row = [&](const std::string& method, const std::string& graph) {
    std::vector<std::string> keys{"train.method=" + method};
    if (!graph.empty()) keys.push_back("train.graph=" + graph);
    const PaperRun run = options.run(
        fmt::format("{}-{}{}", method, graph.empty() ? "" : graph + "-", options.workers), keys);
    const std::string what = method + (graph.empty() ? "" : " on " + graph);
    page.rows.push_back(shown(what + ": top-1, %", NAN, 100 * run.top1));
    page.rows.push_back(shown("    seconds", NAN, run.seconds));
    if (run.exchanges > 0) {
      page.rows.push_back(shown("    exchanges per gradient", NAN, run.exchanges));
      page.rows.push_back(shown("    consensus distance at the end", NAN, run.distance));
    }
    return 100 * run.top1;
  };
  PaperChart chart{.text = {"top-1, %", "graph: 1 ring, 2 exponential, 3 complete"}};
  const double sums = row("allreduce", "");
  chart.curves.push_back({.name = "allreduce", .points = {{1, sums}, {3, sums}}});
  for (int m = 0; m < 2; ++m) {
    Curve curve{.name = kMethods[m], .points = {}, .colour = m + 1};
    for (int g = 0; g < 3; ++g) curve.points.emplace_back(g + 1, row(kMethods[m], kGraphs[g]));
    chart.curves.push_back(std::move(curve));
  }
  page.charts.push_back(std::move(chart));
  return page;
}

}  // namespace gossamer::apps
