// Elimination, Lanczos and selected inversion on the Laplacian of a sparse graph.
#include "gossamer/dist/graph/sparse_laplacian.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/graph/linear_algebra.h"

namespace gossamer::dist {
namespace {

using Vector = std::vector<double>;

std::size_t at(int i) { return static_cast<std::size_t>(i); }

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

void subtract_mean(Vector& x) {
  double mean = 0;
  for (const double v : x) mean += v / static_cast<double>(x.size());
  for (double& v : x) v -= mean;
}

// The largest eigenvalue of a symmetric operator on vectors that sum to 0: Lanczos with full
// orthogonalisation (Golub and Van Loan, 10.1).
double lanczos(int n, const std::function<Vector(const Vector&)>& times) {
  constexpr int kMostSteps = 300;
  Rng random(1);
  Vector q(at(n));
  for (double& v : q) v = random.uniform53() - 0.5;
  subtract_mean(q);
  std::vector<Vector> basis;
  Vector diagonal, beside;
  double value = 0;
  for (int step = 1; step <= std::min(n - 1, kMostSteps); ++step) {
    const double length = std::sqrt(dot(q, q));
    if (step > 1) {
      // the space is exhausted: what was found is exact
      if (length < 1e-14 * std::abs(value)) break;
      beside.push_back(length);
    }
    for (double& v : q) v /= length;
    basis.push_back(q);
    q = times(q);
    diagonal.push_back(dot(basis.back(), q));
    // rounding of the first pass is taken off by the second
    for (int twice = 0; twice < 2; ++twice)
      for (const Vector& b : basis) {
        const double along = dot(b, q);
        for (std::size_t i = 0; i < q.size(); ++i) q[i] -= along * b[i];
      }
    subtract_mean(q);
    if (step > 40 && step % 16 != 0 && step < std::min(n - 1, kMostSteps)) continue;
    Square small(step);
    for (int i = 0; i < step; ++i) small(i, i) = diagonal[at(i)];
    for (int i = 0; i + 1 < step; ++i) small(i, i + 1) = small(i + 1, i) = beside[at(i)];
    const double before = std::exchange(value, symmetric_eigenvalues(std::move(small)).back());
    if (step > 16 && std::abs(value - before) < 1e-13 * value) break;
  }
  return value;
}

}  // namespace

// The worker with the fewest neighbours goes first. Without it, each two of its neighbours are
// joined with weight w_a w_b / (sum of w): the star-mesh transform, which is Gaussian elimination
// without a subtraction.
SparseLaplacian::SparseLaplacian(const Graph& g)
    : graph_(&g), number_(at(g.n), -1), links_(at(g.n)), weight_(at(g.n)) {
  std::vector<std::vector<Link>> left(at(g.n));  // by worker, ascending
  for (const Edge& e : g.edges)
    left[at(e.a)].push_back({e.b, e.rate}), left[at(e.b)].push_back({e.a, e.rate});
  std::set<std::pair<std::size_t, int>> queue;
  for (int i = 0; i < g.n; ++i) {
    std::ranges::sort(left[at(i)], {}, &Link::to);
    queue.emplace(left[at(i)].size(), i);
  }
  int pieces = 0;
  std::vector<Link> merged;
  for (int v = 0; v < g.n; ++v) {
    const int worker = queue.begin()->second;
    queue.erase(queue.begin());
    number_[at(worker)] = v;
    std::vector<Link> star = std::move(left[at(worker)]);
    for (const Link& link : star) weight_[at(v)] += link.weight;
    pieces += star.empty();
    for (const auto& [a, weight_a] : star) {
      queue.erase({left[at(a)].size(), a});
      merged.clear();
      auto other = star.begin();
      for (const Link& link : left[at(a)]) {
        if (link.to == worker) continue;
        for (; other != star.end() && other->to < link.to; ++other)
          if (other->to != a)
            merged.push_back({other->to, weight_a * other->weight / weight_[at(v)]});
        merged.push_back(link);
        if (other != star.end() && other->to == link.to)
          merged.back().weight += weight_a * other++->weight / weight_[at(v)];
      }
      for (; other != star.end(); ++other)
        if (other->to != a)
          merged.push_back({other->to, weight_a * other->weight / weight_[at(v)]});
      left[at(a)] = merged;
      queue.emplace(merged.size(), a);
    }
    links_[at(v)] = std::move(star);
  }
  check<ConfigError>(pieces <= 1, "graph ", g.name, ": it falls apart into ", pieces,
                     " pieces; add edges until all workers are connected");
  for (std::vector<Link>& links : links_) {
    for (Link& link : links) link.to = number_[at(link.to)];
    std::ranges::sort(links, {}, &Link::to);
  }
}

Vector SparseLaplacian::apply(const Vector& x) const {
  Vector out(x.size());
  for (const Edge& e : graph_->edges) {
    const double flow = e.rate * (x[at(e.a)] - x[at(e.b)]);
    out[at(e.a)] += flow, out[at(e.b)] -= flow;
  }
  return out;
}

Vector SparseLaplacian::solve(Vector b) const {
  const int n = graph_->n;
  Vector x(at(n));
  for (int i = 0; i < n; ++i) x[at(number_[at(i)])] = b[at(i)];
  for (int v = 0; v + 1 < n; ++v)
    for (const auto& [to, weight] : links_[at(v)]) x[at(to)] += x[at(v)] * weight / weight_[at(v)];
  // any value would do, the mean goes at the end
  x[at(n - 1)] = 0;
  for (int v = n - 2; v >= 0; --v) {
    double sum = x[at(v)];
    for (const auto& [to, weight] : links_[at(v)]) sum += weight * x[at(to)];
    x[at(v)] = sum / weight_[at(v)];
  }
  for (int i = 0; i < n; ++i) b[at(i)] = x[at(number_[at(i)])];
  subtract_mean(b);
  return b;
}

double SparseLaplacian::smallest_positive() const {
  return 1 / lanczos(graph_->n, [this](const Vector& x) { return solve(x); });
}

double SparseLaplacian::largest() const {
  return lanczos(graph_->n, [this](const Vector& x) { return apply(x); });
}

// With the last worker grounded, Z = L^-1 is needed where links_ has entries only: from the last to
// the first (Takahashi, Fagan and Chen 1973), Z_va = sum over b in links_[v] of weight_vb Z_ba /
// weight_v, Z_vv = (1 + sum weight_vb Z_bv) / weight_v.
double SparseLaplacian::largest_resistance() const {
  const int n = graph_->n;
  std::vector<Vector> beside(at(n));  // Z_va, in the order of links_[v]
  // Z_vv; of links_[v] spread out; what is summed for each a
  Vector own(at(n)), weight(at(n)), sum(at(n));
  for (int v = n - 2; v >= 0; --v) {
    for (const Link& link : links_[at(v)])
      weight[at(link.to)] = link.weight, sum[at(link.to)] = link.weight * own[at(link.to)];
    for (const Link& link : links_[at(v)]) {
      const std::vector<Link>& row = links_[at(link.to)];
      const Vector& z = beside[at(link.to)];
      double total = 0;
      // weight is 0 at those that v has no link to
      for (std::size_t i = 0; i < row.size(); ++i) {
        total += weight[at(row[i].to)] * z[i];
        sum[at(row[i].to)] += link.weight * z[i];
      }
      sum[at(link.to)] += total;
    }
    own[at(v)] = 1;
    for (const Link& link : links_[at(v)]) {
      beside[at(v)].push_back(sum[at(link.to)] / weight_[at(v)]);
      own[at(v)] += link.weight * beside[at(v)].back();
    }
    own[at(v)] /= weight_[at(v)];
    for (const Link& link : links_[at(v)]) weight[at(link.to)] = 0;
  }
  double most = 0;
  for (const Edge& e : graph_->edges) {
    const auto [a, b] = std::minmax({number_[at(e.a)], number_[at(e.b)]});
    const auto link = std::ranges::lower_bound(links_[at(a)], b, {}, &Link::to);
    most = std::max(most,
                    own[at(a)] + own[at(b)] -
                        2 * beside[at(a)][static_cast<std::size_t>(link - links_[at(a)].begin())]);
  }
  return most;
}

}  // namespace gossamer::dist
