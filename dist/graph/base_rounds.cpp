// The paper builds the graph in three layers, and so does this file: the hyper-hypercube for a
// number of workers without prime factors above k+1, the Simple Base-(k+1) graph for any number,
// and the Base-(k+1) graph, which joins both where that takes fewer rounds.
#include "gossamer/dist/graph/base_rounds.h"

#include <algorithm>
#include <numeric>

namespace gossamer::dist {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

struct Pair {
  int a, b;
  double weight;
};
using Pairs = std::vector<Pair>;  // of one round; a worker keeps what its pairs leave of 1
using Workers = std::vector<int>;

// The members take the mean of all.
void average(Pairs& round, const Workers& group) {
  for (std::size_t i = 0; i < group.size(); ++i)
    for (std::size_t j = i + 1; j < group.size(); ++j)
      round.push_back({group[i], group[j], 1.0 / static_cast<double>(group.size())});
}

// `small` is a round of 0 … workers.size()-1.
void put(Pairs& round, const Pairs& small, const Workers& workers) {
  for (const Pair& p : small) round.push_back({workers[at(p.a)], workers[at(p.b)], p.weight});
}

Workers range(int first, int count, int stride = 1) {
  Workers out(at(count));
  for (int i = 0; i < count; ++i) out[at(i)] = first + i * stride;
  return out;
}

// The largest divisor of n without prime factors above k+1.
int smooth_part(int n, int k) {
  int part = 1;
  for (int f = 2; f <= k + 1 && f <= n; ++f)
    for (; n % f == 0; n /= f) part *= f;
  return part;
}

// Algorithm 1: one round for each factor f <= k+1 of n, a digit of the worker's number each.
std::vector<Pairs> hyper_hypercube(int n, int k) {
  std::vector<int> factors;
  for (int f = std::min(k + 1, n), rest = n; f >= 2; --f)
    for (; rest % f == 0; rest /= f) factors.push_back(f);
  std::ranges::reverse(factors);
  std::vector<Pairs> rounds;
  int stride = 1;
  for (const int f : factors) {
    Pairs& round = rounds.emplace_back();
    for (int i = 0; i < n; ++i)
      if (i / stride % f == 0) average(round, range(i, f, stride));
    stride *= f;
  }
  if (rounds.empty()) rounds.emplace_back();  // one worker
  return rounds;
}

// The workers of one digit of n in base k+1: `blocks` of equal size, a power of k+1.
struct DigitSet {
  std::vector<Workers> blocks;
  Workers all;
  std::vector<Pairs> inside_all, inside_block;  // their hyper-hypercubes
  std::size_t done = 0;                         // rounds inside the blocks
};

std::vector<DigitSet> digit_sets(int n, int k) {
  int power = 1, first = 0;
  while (power <= n / (k + 1)) power *= k + 1;
  std::vector<DigitSet> sets;
  for (int rest = n; rest > 0; rest %= power, power /= k + 1) {
    if (rest < power) continue;
    DigitSet& set = sets.emplace_back();
    for (int b = 0; b < rest / power; ++b, first += power)
      set.blocks.push_back(range(first, power));
    for (const Workers& block : set.blocks)
      set.all.insert(set.all.end(), block.begin(), block.end());
    set.inside_all = hyper_hypercube(static_cast<int>(set.all.size()), k);
    set.inside_block = hyper_hypercube(power, k);
  }
  return sets;
}

// Algorithm 2. First each set takes its own mean; then, set by set, those behind take from its
// blocks what makes their value the mean of it and all behind it; then the blocks mix inside.
std::vector<Pairs> simple_base(int n, int k) {
  if (smooth_part(n, k) == n) return hyper_hypercube(n, k);
  std::vector<DigitSet> sets = digit_sets(n, k);
  std::vector<double> behind(sets.size());  // workers of this set and those behind it
  double sum = 0;
  for (std::size_t l = sets.size(); l-- > 0;)
    behind[l] = sum += static_cast<double>(sets[l].all.size());
  const std::size_t first = sets[0].inside_all.size();

  std::vector<Pairs> rounds;
  for (std::size_t m = 0; sets[0].done < sets[0].inside_block.size(); ++m) {
    Pairs& round = rounds.emplace_back();
    std::vector<Workers> free;  // of the set whose turn it is
    if (m >= first && m - first < sets.size()) free = sets[m - first].blocks;
    for (std::size_t l = sets.size(); l-- > 0;) {
      DigitSet& set = sets[l];
      if (m < first) {
        put(round, set.inside_all[m % set.inside_all.size()], set.all);
      } else if (m < first + l) {
        const std::size_t giver = m - first;
        const double share = static_cast<double>(sets[giver].all.size()) / behind[giver];
        for (const int i : set.all)
          for (Workers& block : free) {
            round.push_back({i, block.back(), share / static_cast<double>(free.size())});
            block.pop_back();
          }
      } else if (m == first + l && l + 1 < sets.size()) {
        Workers left;
        for (const Workers& block : free) left.insert(left.end(), block.begin(), block.end());
        for (auto from = left.begin(); from != left.end();) {
          const auto to = from + std::min<std::ptrdiff_t>(k + 1, left.end() - from);
          average(round, {from, to});
          from = to;
        }
      } else {
        if (static_cast<int>(set.all.size()) < k + 1)
          put(round, set.inside_all[set.done % set.inside_all.size()], set.all);
        else
          for (const Workers& block : set.blocks)
            put(round, set.inside_block[set.done % set.inside_block.size()], block);
        ++set.done;
      }
    }
  }
  return rounds;
}

// Algorithm 3: the Simple Base graph in p equal parts side by side, then the hyper-hypercube of p
// across them.
std::vector<Pairs> base(int n, int k) {
  const int p = smooth_part(n, k), q = n / p;
  std::vector<Pairs> plain = simple_base(n, k);
  if (p == 1 || q == 1) return plain;
  const std::vector<Pairs> within = simple_base(q, k), across = hyper_hypercube(p, k);
  if (plain.size() < within.size() + across.size()) return plain;
  std::vector<Pairs> rounds;
  for (const Pairs& small : within) {
    Pairs& round = rounds.emplace_back();
    for (int i = 0; i < p; ++i) put(round, small, range(q * i, q));
  }
  for (const Pairs& small : across) {
    Pairs& round = rounds.emplace_back();
    for (int j = 0; j < q; ++j) put(round, small, range(j, p, q));
  }
  return rounds;
}

std::vector<Round> as_seen(const Pairs& pairs, int n) {
  std::vector<Round> workers(at(n));
  for (const Pair& p : pairs) {
    workers[at(p.a)].in.push_back({p.b, p.weight});
    workers[at(p.b)].in.push_back({p.a, p.weight});
  }
  for (Round& r : workers) {
    std::ranges::sort(r.in, {}, &Neighbour::worker);
    for (const Neighbour& other : r.in) r.own -= other.weight;
    r.own = std::max(r.own, 0.0);  // a worker may give all away, but for rounding
    r.out = r.in;
  }
  return workers;
}

}  // namespace

std::vector<std::vector<Round>> base_rounds(int n, int k) {
  std::vector<std::vector<Round>> rounds;
  for (const Pairs& pairs : base(n, std::min(k, std::max(n - 1, 1))))
    rounds.push_back(as_seen(pairs, n));
  return rounds;
}

}  // namespace gossamer::dist
