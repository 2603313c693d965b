// `gossamer graph NAME N`: what a graph of workers is worth.
#include <cstdio>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/json.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/graph.h"

namespace gossamer::apps {

int graph(const GraphCommand& command) {
  check<ConfigError>(command.workers >= 2, "graph ", command.name, " ", command.workers, ": a graph needs at least 2 workers");
  check<ConfigError>(command.workers <= 2048, "graph ", command.name, " ", command.workers, ": at most 2048 workers; the constants take time ~ N^3");
  check<ConfigError>(command.rate > 0, "graph: --rate ", command.rate, " must be above 0");
  const dist::Graph g = dist::make_graph(command.name, command.workers, command.rate);
  const dist::GraphConstants k = dist::constants(g);
  if (command.json) {
    JsonObject out;
    out.add("graph", g.name).add("workers", g.n).add("rate", command.rate).add("edges", g.edges.size());
    out.add("chi1", k.chi1).add("chi2", k.chi2).add("eta", k.eta).add("alpha", k.alpha).add("alpha_tilde", k.alpha_tilde);
    fmt::print("{}\n", out.str());
    return 0;
  }
  fmt::print("{} of {} workers, {} edges, {} exchanges per worker and gradient\n", g.name, g.n, g.edges.size(), command.rate);
  fmt::print("  chi1    {:<10.6g} plain gossip needs time ~ chi1\n", k.chi1);
  fmt::print("  chi2    {:<10.6g} A2CiD2 needs time ~ sqrt(chi1 chi2) = {:.6g}\n", k.chi2, 0.5 / k.eta);
  fmt::print("  eta     {:<10.6g} mixing rate of x and its twin\n", k.eta);
  fmt::print("  alpha~  {:<10.6g} step of the twin at an exchange (of x: {})\n", k.alpha_tilde, k.alpha);
  return 0;
}

}  // namespace gossamer::apps
