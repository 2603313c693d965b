// Graphs of workers and how they heal. The constants are in graph_constants.cpp.
#include "gossamer/dist/graph.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

using Weights = std::map<std::pair<int, int>, double>;      // relative rates, (a, b) with a < b

void add(Weights& w, int a, int b, double weight = 1) {
  if (a != b) w[{std::min(a, b), std::max(a, b)}] += weight;
}

Weights chain(int n) {
  Weights w;
  for (int i = 0; i + 1 < n; ++i) add(w, i, i + 1);
  return w;
}

Weights ring(int n) {
  Weights w = chain(n);
  if (n > 2) add(w, n - 1, 0);
  return w;
}

Weights complete(int n) {
  Weights w;
  for (int i = 0; i < n; ++i)
    for (int j = i + 1; j < n; ++j) add(w, i, j);
  return w;
}

// Every worker names its neighbours at +2^k and -2^k, up to n/2. At exactly n/2 both are the same worker, so that edge counts
// double: this is how the published A2CiD2 code builds it.
Weights exponential(int n) {
  Weights w;
  for (int offset = 1; offset <= n / 2; offset *= 2)
    for (int i = 0; i < n; ++i) add(w, i, (i + offset) % n);
  return w;
}

Weights star(int n) {
  Weights w;
  for (int i = 1; i < n; ++i) add(w, 0, i);
  return w;
}

Weights hypercube(int n) {
  check<ConfigError>(std::has_single_bit(static_cast<unsigned>(n)), "graph hypercube: ", n, " workers; the number must be a power of two (",
                     std::bit_floor(static_cast<unsigned>(n)), " or ", std::bit_ceil(static_cast<unsigned>(n)), ")");
  Weights w;
  for (int i = 0; i < n; ++i)
    for (int bit = 1; bit < n; bit *= 2)
      if (i < (i ^ bit)) add(w, i, i ^ bit);
  return w;
}

int rows_of_torus(int n) {           // the largest divisor not above the root
  int rows = 1;
  for (int r = 2; r * r <= n; ++r)
    if (n % r == 0) rows = r;
  return rows;
}

Weights torus(int n) {
  const int rows = rows_of_torus(n);
  if (rows == 1 && n > 3) {
    int other = n + 1;
    while (rows_of_torus(other) == 1) ++other;
    fail<ConfigError>("graph torus: ", n, " workers can't be laid out in two or more rows and columns; ", other, " can, or use ring");
  }
  const int columns = n / rows;
  Weights w;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) {
      const int here = r * columns + c;
      add(w, here, r * columns + (c + 1) % columns);
      add(w, here, (r + 1) % rows * columns + c);
    }
  for (auto& [edge, weight] : w) weight = 1;               // with two rows, up and down are one edge, as any other
  return w;
}

const std::map<std::string, std::function<Weights(int)>>& makers() {
  static const std::map<std::string, std::function<Weights(int)>> table = {
      {"ring", ring}, {"chain", chain},         {"complete", complete}, {"exponential", exponential},
      {"star", star}, {"hypercube", hypercube}, {"torus", torus}};
  return table;
}

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

std::vector<std::string> graph_names() {
  std::vector<std::string> names;
  for (const auto& [name, maker] : makers()) names.push_back(name);
  return names;
}

Graph make_graph(const std::string& name, int n, double rate) {
  const auto maker = makers().find(name);
  if (maker == makers().end()) {
    std::string known;
    for (const std::string& each : graph_names()) known += (known.empty() ? "" : ", ") + each;
    fail<ConfigError>("graph \"", name, "\" is unknown; known are: ", known);
  }
  check<ConfigError>(n >= 1, "graph ", name, ": ", n, " workers; at least 1 is needed");
  check<ConfigError>(rate >= 0 && std::isfinite(rate), "graph ", name, ": rate ", rate, "; it must be 0 or more");
  Graph g{name, n, {}};
  if (rate == 0) rate = 1;              // the shape is asked for, never to be used for exchanges: constants stay finite
  for (const auto& [edge, weight] : maker->second(n)) g.edges.push_back({edge.first, edge.second, weight});
  scale_rates(g, rate, n);
  return g;
}

void validate(const Graph& g) {
  check<ConfigError>(g.n >= 1, "graph ", g.name, ": ", g.n, " workers; at least 1 is needed");
  std::vector<int> root(static_cast<std::size_t>(g.n));
  for (int i = 0; i < g.n; ++i) root[static_cast<std::size_t>(i)] = i;
  const auto find = [&](int i) {
    while (root[static_cast<std::size_t>(i)] != i) i = root[static_cast<std::size_t>(i)];
    return i;
  };
  std::map<std::pair<int, int>, int> seen;
  for (const Edge& e : g.edges) {
    check<ConfigError>(e.a >= 0 && e.b < g.n, "graph ", g.name, ": edge ", e.a, "-", e.b, " leaves the workers 0 to ", g.n - 1);
    check<ConfigError>(e.a < e.b, "graph ", g.name, ": edge ", e.a, "-", e.b, "; the first worker must be the smaller, and no worker its own neighbour");
    check<ConfigError>(e.rate > 0 && std::isfinite(e.rate), "graph ", g.name, ": edge ", e.a, "-", e.b, " has rate ", e.rate, "; it must be positive");
    check<ConfigError>(seen[{e.a, e.b}]++ == 0, "graph ", g.name, ": edge ", e.a, "-", e.b, " is listed twice; add the rates instead");
    root[static_cast<std::size_t>(find(e.a))] = find(e.b);
  }
  for (int i = 1; i < g.n; ++i)
    check<ConfigError>(find(i) == find(0), "graph ", g.name, ": no path leads from worker 0 to worker ", i, "; add edges until all are connected");
}

Graph heal(const Graph& g, const std::vector<bool>& dead) {
  Weights w;
  double total = 0;
  std::vector<bool> active(static_cast<std::size_t>(g.n));
  for (const Edge& e : g.edges) {
    w[{e.a, e.b}] = e.rate;
    total += e.rate;
    active[static_cast<std::size_t>(e.a)] = active[static_cast<std::size_t>(e.b)] = true;
  }
  const auto before = std::ranges::count(active, true);
  for (int gone = 0; gone < g.n; ++gone) {
    if (static_cast<std::size_t>(gone) >= dead.size() || !dead[static_cast<std::size_t>(gone)]) continue;
    std::vector<int> left;
    double rate = 0;
    for (auto it = w.begin(); it != w.end();) {
      const auto [a, b] = it->first;
      if (a != gone && b != gone) { ++it; continue; }
      left.push_back(a == gone ? b : a);
      rate += it->second;
      it = w.erase(it);
    }
    // A cycle through those left behind (two: one edge, so a ring closes); an edge that exists already serves as well.
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
  if (before > 0) scale_rates(healed, 2 * total / static_cast<double>(before), static_cast<int>(std::ranges::count(active, true)));
  return healed;
}

}  // namespace gossamer::dist
