// `gossamer graph NAME N`: how fast workers agree on a graph, or by rounds of exchanges.
#include <algorithm>
#include <optional>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/simulate_page.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/graph/theory.h"

namespace gossamer::apps {
namespace {

constexpr int kMostWorkers = 4096;

// Pairwise gossip on a graph.
struct Gossip {
  dist::Graph graph;
  dist::GraphConstants k;
  // exchanges per gradient of the busiest worker
  double busiest = 0;
  std::optional<double> plain, accelerated;  // exponents of E|x - mean|^2
};

Gossip gossip_on(dist::Graph g) {
  Gossip out{std::move(g), {}, 0, {}, {}};
  out.k = dist::constants(out.graph);
  std::vector<double> load(static_cast<std::size_t>(out.graph.n));
  for (const dist::Edge& e : out.graph.edges)
    load[static_cast<std::size_t>(e.a)] += e.rate, load[static_cast<std::size_t>(e.b)] += e.rate;
  out.busiest = *std::ranges::max_element(load);
  out.plain = dist::decay_exponent(out.graph, 0, 0.5, 0.5);
  out.accelerated = dist::decay_exponent(out.graph, out.k.eta, out.k.alpha, out.k.alpha_tilde);
  return out;
}

std::string json_or_null(const std::optional<double>& v) { return v ? json_text(*v) : "null"; }
std::string text_or_unknown(const std::optional<double>& v) {
  return v ? fmt::format("{:<10.6g}", *v) : "unknown   ";
}

std::string json_of(const GraphCommand& command, const std::optional<Gossip>& g,
                    const dist::Rounds& rounds, const std::optional<dist::Mixing>& mixing) {
  JsonObject out;
  out.add("graph", command.name).add("workers", command.workers);
  if (g) {
    out.add("rate", command.rate).add("edges", g->graph.edges.size());
    out.add("chi1", g->k.chi1)
        .add("chi2", g->k.chi2)
        .add("eta", g->k.eta)
        .add("alpha", g->k.alpha)
        .add("alpha_tilde", g->k.alpha_tilde);
    out.add("busiest", g->busiest).add("chi1_one_at_a_time", g->k.chi1 * g->busiest / command.rate);
    out.raw("decay_plain", json_or_null(g->plain))
        .raw("decay_a2cid2", json_or_null(g->accelerated));
  }
  out.add("period", rounds.period()).add("directed", rounds.directed());
  out.raw("rho", json_or_null(mixing ? std::optional(mixing->rho) : std::nullopt));
  out.raw("spectral_gap", json_or_null(mixing ? std::optional(mixing->gap) : std::nullopt));
  out.raw("rounds", mixing && mixing->rounds > 0 ? json_text(mixing->rounds) : "null");
  return out.str();
}

void write_pictures(const GraphCommand& command, const std::optional<Gossip>& g,
                    const std::optional<dist::Mixing>& mixing, const std::string& json) {
  std::string pictures;
  if (g)
    pictures = graph_pictures(g->graph, {{"pairwise gossip", g->plain.value_or(0)},
                                         {"A2CiD2", g->accelerated.value_or(0)}});
  if (mixing) pictures += rounds_picture(mixing->rho);
  write_result_page(command.html, fmt::format("{} of {} workers", command.name, command.workers),
                    pictures, json);
}

void print_gossip(const Gossip& g, double rate) {
  fmt::print("{} of {}, {}, {} exchange{} per worker and gradient\n", g.graph.name,
             counted(g.graph.n, "worker"), counted(g.graph.edges.size(), "edge"), rate,
             rate == 1 ? "" : "s");
  fmt::print("  chi1    {:<10.6g} plain gossip needs time ~ chi1\n", g.k.chi1);
  fmt::print("  chi2    {:<10.6g} A2CiD2 needs time ~ sqrt(chi1 chi2) = {:.6g}\n", g.k.chi2,
             0.5 / g.k.eta);
  fmt::print("  eta     {:<10.6g} mixing rate of x and its twin\n", g.k.eta);
  fmt::print("  alpha~  {:<10.6g} step of the twin at an exchange (of x: {})\n", g.k.alpha_tilde,
             g.k.alpha);
  if (g.plain || g.accelerated) {
    fmt::print("  decay   {} of |x - mean|^2 per gradient by plain gossip, exact\n",
               text_or_unknown(g.plain));
    fmt::print("          {} by A2CiD2, exact\n", text_or_unknown(g.accelerated));
  } else {
    fmt::print("  decay   unknown    computing its exact exponent takes too long at this size\n");
  }
  if (g.busiest > 1.001 * rate)
    fmt::print(
        "  busiest {:<10.6g} exchanges per gradient of one worker; if it can do only {}, the whole "
        "graph slows down: chi1 {:.6g}\n",
        g.busiest, rate, g.k.chi1 * g.busiest / rate);
}

void print_rounds(const dist::Rounds& rounds, const std::optional<dist::Mixing>& mixing,
                  bool graph) {
  if (graph)
    fmt::print("synchronous rounds on it{}\n",
               rounds.period() > 1 ? fmt::format(", that repeat after {}", rounds.period()) : "");
  else
    fmt::print("{} of {} workers: {}synchronous rounds that repeat after {}\n", rounds.name(),
               rounds.workers(), rounds.directed() ? "directed " : "", rounds.period());
  if (!mixing)
    fmt::print("  rho     unknown    it converges too slowly to be measured\n");
  else if (mixing->rho == 0)
    fmt::print("  rho     0          the exact mean after {} round{}\n", mixing->rounds,
               mixing->rounds == 1 ? "" : "s");
  else if (mixing->rounds == 0)
    fmt::print("  rho     1          they never agree\n");
  else
    fmt::print(
        "  rho     {:<10.8g} factor of |x - mean| in each round (gap {:.6g}): a millionth after {} "
        "rounds\n",
        mixing->rho, mixing->gap, mixing->rounds);
}

}  // namespace

int graph(const GraphCommand& command) {
  check<ConfigError>(command.workers >= 2, "graph ", command.name, " ", command.workers,
                     ": a graph needs at least 2 workers");
  check<ConfigError>(command.workers <= kMostWorkers, "graph ", command.name, " ", command.workers,
                     ": at most ", kMostWorkers, " workers");
  check<ConfigError>(command.rate > 0, "graph: --rate ", command.rate, " must be above 0");
  const auto rounds = dist::make_rounds(command.name, command.workers);
  std::optional<Gossip> gossip;
  if (dist::known_graph(command.name))
    gossip = gossip_on(dist::make_graph(command.name, command.workers, command.rate));
  const auto mixing = dist::mixing(*rounds);
  const std::string json = json_of(command, gossip, *rounds, mixing);
  if (!command.html.empty()) write_pictures(command, gossip, mixing, json);
  if (command.json) {
    fmt::print("{}\n", json);
    return 0;
  }
  if (gossip) print_gossip(*gossip, command.rate);
  print_rounds(*rounds, mixing, gossip.has_value());
  return 0;
}

}  // namespace gossamer::apps
