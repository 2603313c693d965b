// Graphs of workers and how they heal. Their shapes are in graph_shapes.cpp, the constants are in
// graph_constants.cpp.
#include "gossamer/dist/graph/graph.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "gossamer/core/error.h"
#include "gossamer/dist/graph/graph_shapes.h"

namespace gossamer::dist {
namespace {

// The whole network shall do rate * workers / 2 exchanges per unit of time.
void scale_rates(Graph& g, double rate, int workers) {
  double total = 0;
  for (const Edge& e : g.edges) total += e.rate;
  if (total > 0)
    for (Edge& e : g.edges) e.rate *= rate * workers / 2 / total;
}

}  // namespace

std::vector<int> Graph::neighbours(int worker) const {
  std::vector<int> out;
  for (const Edge& e : edges) {
    if (e.a == worker) out.push_back(e.b);
    if (e.b == worker) out.push_back(e.a);
  }
  std::ranges::sort(out);
  return out;
}

double Graph::rate(int a, int b) const {
  if (a > b) std::swap(a, b);
  for (const Edge& e : edges)
    if (e.a == a && e.b == b) return e.rate;
  return 0;
}

std::vector<std::string> graph_names() { return shapes::names(); }
bool known_graph(const std::string& name) { return shapes::known(shapes::split(name).base); }

namespace {

Graph scaled(const std::string& name, int n, std::vector<Edge> edges, double rate) {
  check<ConfigError>(rate >= 0 && std::isfinite(rate), "graph ", name, ": rate ", rate,
                     "; it must be a finite number, 0 or more");
  Graph g{name, n, std::move(edges)};
  // 0: the shape is asked for, never to be used for exchanges; constants stay finite
  scale_rates(g, rate == 0 ? 1 : rate, n);
  return g;
}

}  // namespace

Graph make_graph(const std::string& name, int n, double rate, int per_node) {
  const shapes::Name parts = shapes::split(name);
  if (!known_graph(name)) {
    std::string known;
    for (const std::string& each : graph_names()) known += each + ", ";
    fail<ConfigError>("graph \"", name, "\" is unknown; known are: ", known,
                      "random-regular:D, aer:L, file:PATH");
  }
  check<ConfigError>(n >= 1, "graph ", name, ": ", n, " workers; at least 1 is needed");
  return scaled(name, n, shapes::make(parts, n, per_node), rate);
}

Graph parse_graph(std::string_view text, const std::string& path, int n, double rate) {
  check<ConfigError>(n >= 1, "graph file ", path, ": ", n, " workers; at least 1 is needed");
  return scaled("file:" + path, n, shapes::parse_edges(text, path, n), rate);
}

void validate(const Graph& g) {
  check<ConfigError>(g.n >= 1, "graph ", g.name, ": ", g.n, " workers; at least 1 is needed");
  std::vector<std::pair<int, int>> pairs;
  for (const Edge& e : g.edges) {
    check<ConfigError>(e.a >= 0 && e.b < g.n, "graph ", g.name, ": edge ", e.a, "-", e.b,
                       " leaves the workers 0 to ", g.n - 1);
    check<ConfigError>(e.a < e.b, "graph ", g.name, ": edge ", e.a, "-", e.b,
                       "; the first worker must be the smaller, and no worker its own neighbour");
    check<ConfigError>(e.rate > 0 && std::isfinite(e.rate), "graph ", g.name, ": edge ", e.a, "-",
                       e.b, " has rate ", e.rate, "; it must be positive");
    pairs.emplace_back(e.a, e.b);
  }
  std::ranges::sort(pairs);
  const auto twice = std::ranges::adjacent_find(pairs);
  if (twice != pairs.end())
    fail<ConfigError>("graph ", g.name, ": edge ", twice->first, "-", twice->second,
                      " is listed twice; add the rates instead");
  const int lonely = shapes::unreachable(g.n, g.edges);
  check<ConfigError>(lonely < 0, "graph ", g.name, ": no path leads from worker 0 to worker ",
                     lonely, "; add edges until all are connected");
}

Graph heal(const Graph& g, const std::vector<bool>& dead) {
  std::map<std::pair<int, int>, double> w;  // rates, (a, b) with a < b
  double total = 0;
  std::vector<bool> active(static_cast<std::size_t>(g.n));
  for (const Edge& e : g.edges) {
    w[{e.a, e.b}] = e.rate;
    total += e.rate;
    active[static_cast<std::size_t>(e.a)] = active[static_cast<std::size_t>(e.b)] = true;
  }
  const auto before = std::ranges::count(active, true);
  for (int gone = 0; gone < g.n; ++gone) {
    if (static_cast<std::size_t>(gone) >= dead.size() || !dead[static_cast<std::size_t>(gone)])
      continue;
    std::vector<int> left;
    double rate = 0;
    for (auto it = w.begin(); it != w.end();) {
      const auto [a, b] = it->first;
      if (a != gone && b != gone) {
        ++it;
        continue;
      }
      left.push_back(a == gone ? b : a);
      rate += it->second;
      it = w.erase(it);
    }
    // A cycle through those left behind (two: one edge, so a ring closes); an edge that exists
    // already serves as well.
    std::ranges::sort(left);
    const std::size_t count = left.size();
    for (std::size_t k = 0; count > 1 && k < (count == 2 ? 1 : count); ++k) {
      const int a = left[k], b = left[(k + 1) % count];
      w.emplace(std::pair{std::min(a, b), std::max(a, b)}, rate / static_cast<double>(count));
    }
    active[static_cast<std::size_t>(gone)] = false;
  }
  Graph healed{g.name, g.n, {}};
  for (const auto& [edge, rate] : w) healed.edges.push_back({edge.first, edge.second, rate});
  if (before > 0)
    scale_rates(healed, 2 * total / static_cast<double>(before),
                static_cast<int>(std::ranges::count(active, true)));
  return healed;
}

Graph graph_of_living(const Graph& all, const std::vector<bool>& gone, int per_node) {
  std::vector<int> place;  // of node i
  for (int p = 0; p < all.n; ++p)
    if (!gone[static_cast<std::size_t>(p)]) place.push_back(p);
  const int count = static_cast<int>(place.size());
  double total = 0;
  for (const Edge& e : all.edges) total += e.rate;
  const double rate = 2 * total / all.n;
  // a file names its workers
  const bool by_name = known_graph(all.name) && shapes::split(all.name).base != "file";
  for (int n = count; by_name && n >= 1 && n < all.n; ++n) {
    Graph made;
    try {
      made = make_graph(all.name, n, rate, per_node);
    } catch (const ConfigError&) {  // it can't have so many nodes
      continue;
    }
    std::vector<bool> surplus(static_cast<std::size_t>(n));
    std::fill(surplus.begin() + count, surplus.end(), true);
    if (n > count) made = heal(made, surplus);
    made.n = all.n;
    for (Edge& e : made.edges) {
      e.a = place[static_cast<std::size_t>(e.a)];
      e.b = place[static_cast<std::size_t>(e.b)];
    }
    return made;
  }
  return heal(all, gone);
}

std::uint32_t name_of_set(const std::vector<bool>& gone) {
  if (std::ranges::find(gone, true) == gone.end()) return 0;
  std::uint32_t hash = 0x811c9dc5u;  // FNV-1a
  for (const bool g : gone) hash = (hash ^ (g ? 1u : 0u)) * 0x01000193u;
  return std::max(hash, 1u);
}

}  // namespace gossamer::dist
