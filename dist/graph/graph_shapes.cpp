// The shapes of graphs, one function each from n to edges.
#include "gossamer/dist/graph/graph_shapes.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <unordered_set>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"

namespace gossamer::dist::shapes {
namespace {

using Edges = std::vector<Edge>;  // any order, repeated edges add up

struct Request {
  const Name& name;
  int n, per_node;
};

void add(Edges& edges, int a, int b, double weight = 1) {
  if (a != b) edges.push_back({std::min(a, b), std::max(a, b), weight});
}

Edges chain(const Request& r) {
  Edges e;
  for (int i = 0; i + 1 < r.n; ++i) add(e, i, i + 1);
  return e;
}

Edges ring(const Request& r) {
  Edges e = chain(r);
  if (r.n > 2) add(e, r.n - 1, 0);
  return e;
}

Edges complete(const Request& r) {
  Edges e;
  for (int i = 0; i < r.n; ++i)
    for (int j = i + 1; j < r.n; ++j) add(e, i, j);
  return e;
}

// Every worker names its neighbours at +2^k and -2^k, up to n/2. At exactly n/2 both are the same
// worker, so that edge counts double: this is how the published A2CiD2 code builds it.
Edges exponential(const Request& r) {
  Edges e;
  for (int offset = 1; offset <= r.n / 2; offset *= 2)
    for (int i = 0; i < r.n; ++i) add(e, i, (i + offset) % r.n);
  return e;
}

Edges star(const Request& r) {
  Edges e;
  for (int i = 1; i < r.n; ++i) add(e, 0, i);
  return e;
}

// Balanced and binary: the children of i are 2i+1 and 2i+2.
Edges tree(const Request& r) {
  Edges e;
  for (int i = 1; i < r.n; ++i) add(e, (i - 1) / 2, i);
  return e;
}

// "8 or 16", what to take instead of 12.
std::string powers_near(int n) {
  const auto u = static_cast<unsigned>(std::max(n, 1));
  return std::to_string(std::bit_floor(u)) + " or " + std::to_string(std::bit_ceil(u));
}

Edges hypercube(const Request& r) {
  check<ConfigError>(std::has_single_bit(static_cast<unsigned>(r.n)), "graph hypercube: ", r.n,
                     " workers; the number must be a power of two (", powers_near(r.n), ")");
  Edges e;
  for (int i = 0; i < r.n; ++i)
    for (int bit = 1; bit < r.n; bit *= 2)
      if (i < (i ^ bit)) add(e, i, i ^ bit);
  return e;
}

int rows_of_torus(int n) {  // the largest divisor not above the root
  int rows = 1;
  for (int r = 2; r * r <= n; ++r)
    if (n % r == 0) rows = r;
  return rows;
}

Edges torus(const Request& r) {
  const int n = r.n, rows = rows_of_torus(n), columns = n / rows;
  if (rows == 1 && n > 3) {
    int other = n + 1;
    while (rows_of_torus(other) == 1) ++other;
    fail<ConfigError>("graph torus: ", n,
                      " workers can't be laid out in two or more rows and columns; ", other,
                      " can, or use ring");
  }
  Edges e;
  for (int row = 0; row < rows; ++row)
    for (int c = 0; c < columns; ++c) {
      const int here = row * columns + c;
      // With two in a line, onward and back are one edge, as any other.
      if (columns > 2 || c == 0) add(e, here, row * columns + (c + 1) % columns);
      if (rows > 2 || row == 0) add(e, here, (row + 1) % rows * columns + c);
    }
  return e;
}

// Rates as the rounds of that name mix: with q = log2 of the number of nodes, two workers of a node
// meet 3q times as often as two of neighbouring nodes (q rounds of weight 1/L and q of 1/(2L),
// against one of 1/(2L)).
Edges aer(const Request& r) {
  const int inside = workers_per_node(r.name, r.n, r.per_node), nodes = r.n / inside;
  const double q = std::bit_width(static_cast<unsigned>(nodes)) - 1;
  Edges e;
  for (int i = 0; i < r.n; ++i) {
    const int node = i / inside;
    for (int j = i + 1; j < (node + 1) * inside; ++j) add(e, i, j, q > 0 ? 3 * q : 1);
    for (int hop = 1; hop < nodes; hop *= 2)
      if ((node ^ hop) > node)
        for (int j = 0; j < inside; ++j) add(e, i, (node ^ hop) * inside + j);
  }
  return e;
}

// ----- random regular

// Begins with a regular circulant and exchanges the ends of random pairs of edges, which keeps
// every degree ("switch chain").
Edges random_regular(const Request& r) {
  const std::string& argument = r.name.argument;
  const std::size_t colon = argument.find(':');
  int degree = std::min(4, r.n - 1);
  std::uint64_t seed = 0;
  if (!argument.empty())
    degree = whole_number<int>(r.name, argument.substr(0, colon), "random-regular:4");
  if (colon != std::string::npos)
    seed = whole_number<std::uint64_t>(r.name, argument.substr(colon + 1),
                                       "random-regular:4:7 (degree 4, seed 7)");
  const auto want = [&](bool ok, const std::string& wanted) {
    check<ConfigError>(ok, "graph random-regular:", degree, ": ", r.n, " workers with ", degree,
                       " neighbours each; ", wanted);
  };
  want(degree >= 0 && (r.n == 1 || degree >= 1), "at least 1 neighbour is needed");
  want(degree < r.n, "there are only " + std::to_string(r.n - 1) + " others");
  want(degree % 2 == 0 || r.n % 2 == 0,
       "one of the two numbers must be even, since every edge has two ends");
  want(degree >= 2 || r.n <= 2,
       "pairs are not connected with each other; 2 neighbours are the least");
  if (degree == r.n - 1) return complete(r);

  Edges e;
  const auto key = [&](int a, int b) {
    return static_cast<std::uint64_t>(std::min(a, b)) * static_cast<std::uint64_t>(r.n) +
           static_cast<std::uint64_t>(std::max(a, b));
  };
  std::unordered_set<std::uint64_t> taken;
  const auto connect = [&](int a, int b) { add(e, a, b), taken.insert(key(a, b)); };
  for (int i = 0; i < r.n; ++i)
    for (int k = 1; k <= degree / 2; ++k) connect(i, (i + k) % r.n);
  if (degree % 2)
    for (int i = 0; i < r.n / 2; ++i) connect(i, i + r.n / 2);

  Rng random(seed, 0x7265676c61ull);
  const auto edges = static_cast<std::uint32_t>(e.size());
  do {
    for (std::uint32_t k = 0; k < 10 * edges; ++k) {
      Edge& one = e[random.below(edges)];
      Edge& two = e[random.below(edges)];
      int a = one.a, b = one.b, c = two.a, d = two.b;
      if (random.below(2)) std::swap(c, d);
      if (a == c || a == d || b == c || b == d || taken.contains(key(a, d)) ||
          taken.contains(key(c, b)))
        continue;
      taken.erase(key(a, b)), taken.erase(key(c, d));
      taken.insert(key(a, d)), taken.insert(key(c, b));
      one = {std::min(a, d), std::max(a, d), 1};
      two = {std::min(c, b), std::max(c, b), 1};
    }
    // certain to end: connected ones exist, and the chain reaches them all
  } while (unreachable(r.n, e) >= 0);
  return e;
}

Edges file(const Request& r) { return read_edges(r.name.argument, r.n); }

const std::map<std::string, std::function<Edges(const Request&)>>& makers() {
  static const auto& table = *new std::map<std::string, std::function<Edges(const Request&)>>{
      {"ring", ring},
      {"chain", chain},
      {"complete", complete},
      {"exponential", exponential},
      {"star", star},
      {"tree", tree},
      {"hypercube", hypercube},
      {"torus", torus},
      {"aer", aer},
      {"random-regular", random_regular},
      {"file", file}};
  return table;
}

}  // namespace

Name split(const std::string& name) {
  const std::size_t colon = name.find(':');
  return colon == std::string::npos ? Name{name, ""}
                                    : Name{name.substr(0, colon), name.substr(colon + 1)};
}

bool known(const std::string& base) { return makers().contains(base); }

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const auto& [name, maker] : makers())
    if (name != "file") out.push_back(name);
  return out;
}

int workers_per_node(const Name& name, int n, int per_node) {
  if (!name.argument.empty()) per_node = whole_number<int>(name, name.argument, "aer:8");
  check<ConfigError>(per_node >= 1, "graph aer: ", per_node,
                     " workers a node; at least 1 is needed");
  check<ConfigError>(n % per_node == 0, "graph aer: ", n, " workers can't fill nodes of ", per_node,
                     "; take a multiple of ", per_node);
  const int nodes = n / per_node;
  check<ConfigError>(std::has_single_bit(static_cast<unsigned>(nodes)), "graph aer: ", n,
                     " workers on ", nodes, " nodes of ", per_node,
                     "; the number of nodes must be a power of two (", powers_near(nodes), ")");
  return per_node;
}

std::vector<Edge> make(const Name& name, int n, int per_node) {
  const bool takes_argument =
      name.base == "random-regular" || name.base == "aer" || name.base == "file";
  check<ConfigError>(takes_argument || name.argument.empty(), "graph ", name.base, ":",
                     name.argument, ": ", name.base, " takes nothing behind a colon");
  Edges e = makers().at(name.base)({name, n, per_node});
  std::ranges::sort(e, [](const Edge& x, const Edge& y) {
    return std::pair{x.a, x.b} < std::pair{y.a, y.b};
  });
  Edges merged;
  for (const Edge& edge : e) {
    if (!merged.empty() && merged.back().a == edge.a && merged.back().b == edge.b)
      merged.back().rate += edge.rate;
    else
      merged.push_back(edge);
  }
  return merged;
}

int unreachable(int n, const std::vector<Edge>& edges) {
  std::vector<int> root(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) root[static_cast<std::size_t>(i)] = i;
  const auto find = [&](int i) {
    const auto up = [&](int j) -> int& { return root[static_cast<std::size_t>(j)]; };
    for (; up(i) != i; i = up(i)) up(i) = up(up(i));  // halve the path on the way
    return i;
  };
  for (const Edge& e : edges) root[static_cast<std::size_t>(find(e.a))] = find(e.b);
  for (int i = 1; i < n; ++i)
    if (find(i) != find(0)) return i;
  return -1;
}

}  // namespace gossamer::dist::shapes
