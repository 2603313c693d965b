// The rounds of synchronous methods: fixed graphs with Metropolis weights, matchings, and groups of
// workers that change from round to round.
#include "gossamer/dist/graph/rounds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <mutex>
#include <numeric>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/graph/base_rounds.h"
#include "gossamer/dist/graph/graph_shapes.h"

namespace gossamer::dist {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }
// the smallest q with 2^q >= n
int log2_up(int n) { return std::bit_width(static_cast<unsigned>(n - 1)); }

class Named : public Rounds {
 public:
  Named(std::string name, int n, i64 period) : name_(std::move(name)), n_(n), period_(period) {}
  const std::string& name() const final { return name_; }
  int workers() const final { return n_; }
  i64 period() const final { return period_; }
  bool directed() const override { return false; }

  Round round(int worker, i64 k) const final {
    check<ConfigError>(worker >= 0 && worker < n_ && k >= 0, "rounds ", name_, " of ", n_,
                       " workers: worker ", worker, " in round ", k, " does not exist");
    return mix(worker, static_cast<int>(k % period_));
  }

 protected:
  virtual Round mix(int worker, int k) const = 0;  // k < period

 private:
  std::string name_;
  int n_;
  i64 period_;
};

// The mean over a group that holds `worker`; the members come in ascending order.
Round mean_over(const std::vector<int>& group, int worker) {
  Round r;
  r.own = 1.0 / static_cast<double>(group.size());
  for (const int member : group)
    if (member != worker) r.in.push_back({member, r.own});
  r.out = r.in;
  return r;
}

std::vector<int> range(int first, int count) {
  std::vector<int> out(at(count));
  for (int i = 0; i < count; ++i) out[at(i)] = first + i;
  return out;
}

class Fixed final : public Named {
 public:
  explicit Fixed(const Graph& g) : Named(g.name, g.n, 1), rounds_(at(g.n)) {
    std::vector<int> degree(at(g.n));
    for (const Edge& e : g.edges) ++degree[at(e.a)], ++degree[at(e.b)];
    const auto connect = [&](int worker, int other) {
      rounds_[at(worker)].in.push_back(
          {other, 1.0 / (1 + std::max(degree[at(worker)], degree[at(other)]))});
    };
    for (const Edge& e : g.edges) connect(e.a, e.b), connect(e.b, e.a);
    for (Round& r : rounds_) {
      std::ranges::sort(r.in, {}, &Neighbour::worker);
      for (const Neighbour& other : r.in) r.own -= other.weight;
      r.out = r.in;
    }
  }

 private:
  Round mix(int worker, int) const override { return rounds_[at(worker)]; }
  std::vector<Round> rounds_;
};

class Complete final : public Named {
 public:
  explicit Complete(int n) : Named("complete", n, 1) {}

 private:
  Round mix(int worker, int) const override { return mean_over(range(0, workers()), worker); }
};

// Rounds in which pairs average; a worker without a partner keeps what it has.
class Matching : public Named {
 public:
  using Named::Named;

 private:
  virtual int partner(int worker, int k) const = 0;  // -1: none
  Round mix(int worker, int k) const override {
    const int other = partner(worker, k);
    if (other < 0) return {};
    return {0.5, {{other, 0.5}}, {{other, 0.5}}};
  }
};

class RingMatching final : public Matching {
 public:
  explicit RingMatching(int n) : Matching("ring-matching", n, n <= 2 ? 1 : n % 2 ? n : 2) {}

 private:
  // Places count from the worker behind the one left out, so that pairs are (0,1) (2,3) …; an even
  // ring has nobody to leave out, and its places begin at 0 and at 1 in turn. Leaving out n-1, n-2,
  // … uses no edge twice in a row.
  int partner(int worker, int k) const override {
    const int n = workers(), first = n % 2 ? (n - k) % n : k;
    const int place = (worker - first + n) % n;
    if (n % 2 && place == n - 1) return -1;
    return (first + (place ^ 1)) % n;
  }
};

class OnePeerExp final : public Matching {
 public:
  explicit OnePeerExp(int n)
      : Matching("one-peer-exp", n, period_of(n)), powers_(std::max(log2_up(n), 1)) {}

 private:
  static i64 period_of(int n) {
    return i64{std::max(log2_up(n), 1)} * (std::has_single_bit(static_cast<unsigned>(n)) ? 1 : n);
  }

  int partner(int worker, int k) const override {
    const int n = workers(), moved = k / powers_, hop = 1 << k % powers_;
    const int other = (worker + moved) % n ^ hop;
    return other < n ? (other - moved + n) % n : -1;
  }

  int powers_;
};

class OnePeerExpDirected final : public Named {
 public:
  explicit OnePeerExpDirected(int n) : Named("one-peer-exp-directed", n, std::max(log2_up(n), 1)) {}
  bool directed() const override { return true; }

 private:
  Round mix(int worker, int k) const override {
    const int n = workers(), hop = (1 << k) % n;
    if (n == 1) return {};
    return {0.5, {{(worker - hop + n) % n, 0.5}}, {{(worker + hop) % n, 0.5}}};
  }
};

// Each hop 2^h between nodes takes two rounds: half of the pairs of nodes first average inside each
// node and then over both, the other half the other way round (algorithm notes of Decent-DP's code,
// "alternating-exp-ring").
class AlternatingExpRing final : public Named {
 public:
  AlternatingExpRing(const std::string& name, int nodes, int per_node)
      : Named(name, nodes * per_node, std::max(2 * log2_up(nodes), 1)),
        nodes_(nodes),
        per_node_(per_node) {}

 private:
  Round mix(int worker, int k) const override {
    const int node = worker / per_node_, hop = 1 << k / 2;
    std::vector<int> group = range(node * per_node_, per_node_);
    if (nodes_ > 1) {
      const int other = node ^ hop, low = std::min(node, other);
      // its number among the pairs of this hop, from 0
      const int pair = low / (2 * hop) * hop + low % hop;
      // Pairs are numbered through all hops; a hop has nodes/2, an even number, so the number
      // within the hop decides. (Two nodes: one pair.)
      if (pair % 2 != k % 2) {
        const std::vector<int> others = range(other * per_node_, per_node_);
        group.insert(other < node ? group.begin() : group.end(), others.begin(), others.end());
      }
    }
    return mean_over(group, worker);
  }

  int nodes_, per_node_;
};

class Base final : public Named {
 public:
  Base(const std::string& name, std::vector<std::vector<Round>> rounds)
      : Named(name, static_cast<int>(rounds[0].size()), static_cast<i64>(rounds.size())),
        rounds_(std::move(rounds)) {}

  static std::shared_ptr<const Rounds> make(const shapes::Name& parts, const std::string& name,
                                            int n) {
    int most = 1;
    if (!parts.argument.empty())
      most = shapes::whole_number<int>(parts, parts.argument, "base:2 (2 others in a round)");
    check<ConfigError>(most >= 1, "graph ", name, ": ", most,
                       " others in a round; at least 1 is needed");
    return std::make_shared<Base>(name, base_rounds(n, most));
  }

 private:
  Round mix(int worker, int k) const override { return rounds_[at(k)][at(worker)]; }
  const std::vector<std::vector<Round>> rounds_;
};

// The workers stand on a circle, in an order that is drawn anew for each round, and each is joined
// with the `degree` nearest places. How much a round brings them together on average depends on
// the trace of W^2 alone, since all orders are equally likely; so it is as much as with graphs
// drawn from all regular ones.
class Epidemic final : public Named {
 public:
  Epidemic(const std::string& name, int n, int degree, std::uint64_t seed)
      : Named(name, n, degree < n - 1 ? kRounds : 1), degree_(degree), seed_(seed) {}

  static std::shared_ptr<const Rounds> make(const shapes::Name& parts, const std::string& name,
                                            int n) {
    int degree = std::min(2, n - 1);
    std::uint64_t seed = 0;
    const std::string& argument = parts.argument;
    const std::size_t colon = argument.find(':');
    if (!argument.empty())
      degree = shapes::whole_number<int>(parts, std::string_view(argument).substr(0, colon),
                                         "epidemic:4 (4 neighbours)");
    if (colon != std::string::npos)
      seed =
          shapes::whole_number<std::uint64_t>(parts, std::string_view(argument).substr(colon + 1),
                                              "epidemic:4:7 (4 neighbours, seed 7)");
    const auto want = [&](bool ok, const std::string& wanted) {
      check<ConfigError>(ok, "graph ", name, ": ", n, " workers with ", degree,
                         " neighbours each; ", wanted);
    };
    want(n == 1 ? degree == 0 : degree >= 1, "at least 1 neighbour is needed");
    want(degree < n, "there are only " + std::to_string(n - 1) + " others");
    want(degree % 2 == 0 || n % 2 == 0,
         "one of the two numbers must be even, since every edge has two ends");
    return std::make_shared<Epidemic>(name, n, degree, seed);
  }

 private:
  static constexpr i64 kRounds = 1024;
  struct Order {
    std::vector<int> place_of, worker_at;
  };

  Round mix(int worker, int k) const override {
    const std::shared_ptr<const Order> order = order_of(k);
    const int n = workers(), place = order->place_of[at(worker)];
    Round r;
    r.own = 1.0 / (degree_ + 1);
    const auto join = [&](int other) {
      r.in.push_back({order->worker_at[at((other % n + n) % n)], r.own});
    };
    for (int hop = 1; hop <= degree_ / 2; ++hop) join(place + hop), join(place - hop);
    if (degree_ % 2) join(place + n / 2);
    std::ranges::sort(r.in, {}, &Neighbour::worker);
    r.out = r.in;
    return r;
  }

  // Mostly all workers of one round are asked for, one after the other.
  std::shared_ptr<const Order> order_of(int k) const {
    const std::scoped_lock lock(mutex_);
    if (order_ && round_ == k) return order_;
    auto order = std::make_shared<Order>();
    order->worker_at = range(0, workers());
    Rng random(seed_, kStream + static_cast<std::uint64_t>(k));
    for (int i = workers() - 1; i > 0; --i)
      std::swap(order->worker_at[at(i)],
                order->worker_at[random.below(static_cast<std::uint32_t>(i) + 1)]);
    order->place_of.resize(at(workers()));
    for (int place = 0; place < workers(); ++place)
      order->place_of[at(order->worker_at[at(place)])] = place;
    round_ = k;
    return order_ = order;
  }

  static constexpr std::uint64_t kStream = 0x656c00000000ull;
  const int degree_;
  const std::uint64_t seed_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Order> order_;
  mutable int round_ = -1;
};

const std::vector<std::string>& own_names() {  // beside those of the graphs
  static const auto& names = *new std::vector<std::string>{
      "base", "epidemic", "one-peer-exp", "one-peer-exp-directed", "ring-matching"};
  return names;
}

}  // namespace

std::vector<std::string> rounds_names() {
  std::vector<std::string> names = graph_names();
  names.insert(names.end(), own_names().begin(), own_names().end());
  return names;
}

bool known_rounds(const std::string& name) {
  const std::string base = shapes::split(name).base;
  if (base == "base" || base == "epidemic") return true;
  return known_graph(name) || std::ranges::find(own_names(), name) != own_names().end();
}

std::shared_ptr<const Rounds> make_rounds(const std::string& name, int n, int per_node) {
  check<ConfigError>(n >= 1, "rounds ", name, ": ", n, " workers; at least 1 is needed");
  if (name == "ring-matching") return std::make_shared<RingMatching>(n);
  if (name == "one-peer-exp") return std::make_shared<OnePeerExp>(n);
  if (name == "one-peer-exp-directed") return std::make_shared<OnePeerExpDirected>(n);
  if (name == "complete") return std::make_shared<Complete>(n);
  const shapes::Name parts = shapes::split(name);
  if (parts.base == "base") return Base::make(parts, name, n);
  if (parts.base == "epidemic") return Epidemic::make(parts, name, n);
  if (parts.base == "aer") {
    const int inside = shapes::workers_per_node(parts, n, per_node);
    return std::make_shared<AlternatingExpRing>(name, n / inside, inside);
  }
  if (!known_rounds(name)) {
    std::string known;
    for (const std::string& each : rounds_names()) known += each + ", ";
    fail<ConfigError>("graph \"", name, "\" is unknown; known are: ", known,
                      "random-regular:D, aer:L, base:K, epidemic:S, file:PATH");
  }
  return std::make_shared<Fixed>(make_graph(name, n, 1, per_node));
}

std::shared_ptr<const Rounds> make_rounds(const Graph& g) { return std::make_shared<Fixed>(g); }

std::vector<double> mixing_matrix(const Rounds& rounds, i64 k) {
  const int n = rounds.workers();
  std::vector<double> w(at(n) * at(n));
  for (int i = 0; i < n; ++i) {
    const Round r = rounds.round(i, k);
    w[at(i) * at(n) + at(i)] = r.own;
    for (const Neighbour& other : r.in) w[at(i) * at(n) + at(other.worker)] += other.weight;
  }
  return w;
}

namespace {

// The weight under which `worker` stands in an ascending list; 0 if it does not.
double weight_of(const std::vector<Neighbour>& list, int worker) {
  const auto found = std::ranges::lower_bound(list, worker, {}, &Neighbour::worker);
  return found != list.end() && found->worker == worker ? found->weight : 0;
}

void validate_round(const Rounds& rounds, i64 k) {
  const int n = rounds.workers();
  const auto where = [&] {
    return "rounds " + rounds.name() + " of " + std::to_string(n) + " workers, round " +
           std::to_string(k) + ": ";
  };
  std::vector<Round> all;
  for (int i = 0; i < n; ++i) all.push_back(rounds.round(i, k));
  std::size_t sent = 0, received = 0;
  for (int i = 0; i < n; ++i) {
    const Round& r = all[at(i)];
    double row = r.own;
    check<ConfigError>(r.own >= 0 && std::isfinite(r.own), where(), "worker ", i, " has weight ",
                       r.own, " on its own value; it must be 0 or more");
    check<ConfigError>(std::ranges::is_sorted(r.out, {}, &Neighbour::worker) &&
                           std::ranges::is_sorted(r.in, {}, &Neighbour::worker),
                       where(), "worker ", i, "'s neighbours are not ascending");
    sent += r.out.size(), received += r.in.size();
    int last = -1;
    for (const auto& [j, weight] : r.in) {
      check<ConfigError>(j >= 0 && j < n && j != i && j != last, where(), "worker ", i,
                         " takes from worker ", j, "; each other worker at most once");
      check<ConfigError>(weight > 0 && std::isfinite(weight), where(), "worker ", i,
                         " takes from worker ", j, " with weight ", weight,
                         "; it must be positive");
      const double given = weight_of(all[at(j)].out, i);
      check<ConfigError>(given > 0, where(), "worker ", i, " waits for worker ", j,
                         ", which sends it nothing");
      check<ConfigError>(rounds.directed() || weight_of(all[at(j)].in, i) == weight, where(),
                         "workers ", i, " and ", j, " do not weigh each other equally");
      check<ConfigError>(given == weight, where(), "worker ", i, " takes ", weight, " of worker ",
                         j, "'s value, which gives it ", given);
      row += weight;
      last = j;
    }
    check<ConfigError>(rounds.directed() || std::abs(row - 1) < 1e-12 * n, where(),
                       "the weights of worker ", i, " sum to ", row, " instead of 1");
  }
  // Every worker that waits is sent to, and as many values are sent as waited for: so nobody sends
  // to a worker that does not wait.
  check<ConfigError>(sent == received, where(), sent, " values are sent, but ", received,
                     " waited for");
  for (int j = 0; j < n; ++j) {
    double column = all[at(j)].own;
    for (const Neighbour& to : all[at(j)].out) column += to.weight;
    check<ConfigError>(std::abs(column - 1) < 1e-12 * n, where(), "worker ", j, "'s value counts ",
                       column, " times instead of once: the mean would move");
  }
}

}  // namespace

void validate(const Rounds& rounds) {
  check<ConfigError>(rounds.workers() >= 1 && rounds.period() >= 1, "rounds ", rounds.name(), ": ",
                     rounds.workers(), " workers and period ", rounds.period(),
                     "; both must be 1 or more");
  const i64 most = std::max<i64>(64, (i64{1} << 22) / rounds.workers());
  i64 step = (rounds.period() + most - 1) / most;
  // so that all residues are met: every hop, every worker left out
  while (std::gcd(step, rounds.period()) != 1) ++step;
  for (i64 k = 0; k < rounds.period(); k += step) validate_round(rounds, k);
}

}  // namespace gossamer::dist
