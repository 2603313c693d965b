// Unit 6 of the course: who may ask whom. Fill the two holes, then
//   gossamer course check 6
#include <array>
#include <deque>
#include <vector>

#include "check.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/simulation/timeline.h"

using namespace gossamer;

// Your prediction: one of 16 workers needs ten times as long as the others. What is the efficiency
// of gossip with pairing by messages, and so for all? (1: no worker ever waits. All-reduce: 0.105.)
const double prediction = NAN;

// What a worker knows. At most one of the two is not -1.
struct Worker {
  int rank = 0;
  int asked = -1;   // the peer that it has asked and whose answer it waits for
  int paired = -1;  // the peer with which it exchanges
};

// May this worker, which is free (both are -1), ask its neighbour `peer` for an exchange?
bool may_ask(const Worker& self, int peer) {
  // The first hole.
  (void)self, (void)peer;
  return false;
}

// `from` asks this worker. yes: the exchange begins at once. later: the question waits; it is asked
// again when the exchange or the wait of this worker is over. (There is no "no": a slow worker that
// is refused each time would never take part.)
enum class Answer { yes, later };
Answer answer(const Worker& self, int from) {
  // The second hole.
  (void)self, (void)from;
  return Answer::later;
}

// ---- The test. `gossamer course check` uses its own copy of what follows.

constexpr int kMost = 6;

struct Question {
  int from, to;
  bool accepted;  // it is the answer to a question: yes
};

std::string name(int rank) { return "worker " + std::to_string(rank); }

// One of many orders in which things may happen to n workers, every pair of them neighbours.
struct Run {
  Run(int workers, std::uint64_t seed) : n(workers), random(seed) {
    for (int i = 0; i < n; ++i) worker[static_cast<std::size_t>(i)].rank = i;
  }
  Worker& at(int i) { return worker[static_cast<std::size_t>(i)]; }

  void ask_again(int i) {
    auto& queue = waiting[static_cast<std::size_t>(i)];
    for (std::size_t left = queue.size(); left > 0; --left) {
      const int from = queue.front();
      queue.pop_front();
      asked(from, i);
    }
  }
  void asked(int from, int to) {
    if (answer(at(to), from) == Answer::later) {
      waiting[static_cast<std::size_t>(to)].push_back(from);
      return;
    }
    course::expect(at(to).paired < 0,
                   "nobody is in two exchanges (order " + std::to_string(seed) + ")",
                   name(to) + " exchanges with " + name(at(to).paired) + " and says yes to " +
                       name(from) + ": only a worker with paired == -1 may");
    course::expect(
        at(to).asked < 0, "nobody is in two exchanges (order " + std::to_string(seed) + ")",
        name(to) + " has asked " + name(at(to).asked) + " and says yes to " + name(from) +
            "; the answer to its own question may be on its way and be "
            "yes. While it waits (asked != -1) it must say later");
    at(to).paired = from;
    flying.push_back({to, from, true});
  }
  void arrive(const Question& q) {
    if (!q.accepted) return asked(q.from, q.to);
    at(q.to).asked = -1;
    at(q.to).paired = q.from;
  }
  bool together(int i) { return at(i).paired >= 0 && at(at(i).paired).paired == i; }

  // Does one thing out of those that can happen; false: nothing can.
  bool step() {
    struct Choice {
      int kind, a, b;
    };
    std::vector<Choice> choices;
    for (std::size_t k = 0; k < flying.size(); ++k) choices.push_back({0, static_cast<int>(k), 0});
    for (int i = 0; i < n; ++i) {
      if (together(i) && i < at(i).paired) choices.push_back({1, i, at(i).paired});
      if (at(i).asked >= 0 || at(i).paired >= 0 || wishes == 0) continue;
      for (int j = 0; j < n; ++j)
        if (j != i && may_ask(at(i), j)) choices.push_back({2, i, j});
    }
    if (choices.empty()) return false;
    const Choice c = choices[random.below(static_cast<std::uint32_t>(choices.size()))];
    if (c.kind == 0) {
      const Question q = flying[static_cast<std::size_t>(c.a)];
      flying.erase(flying.begin() + c.a);
      arrive(q);
    } else if (c.kind == 1) {
      at(c.a).paired = at(c.b).paired = -1;
      ++met[static_cast<std::size_t>(c.a)][static_cast<std::size_t>(c.b)];
      ask_again(c.a), ask_again(c.b);
    } else {
      --wishes;
      at(c.a).asked = c.b;
      flying.push_back({c.a, c.b, false});
    }
    return true;
  }

  // Nothing can happen any more: nobody may be waiting.
  void expect_the_end() {
    const std::string what = "no deadlock (order " + std::to_string(seed) + ")";
    for (int i = 0; i < n; ++i) {
      if (at(i).asked < 0) continue;
      const int j = at(i).asked;
      course::expect(
          at(j).asked >= 0 || at(j).paired >= 0, what,
          name(i) + " waits for " + name(j) + ", which is free and says later: later for ever");
      std::string cycle = name(i);
      int k = j;
      for (int steps = 0; steps <= n && k >= 0; ++steps, k = at(k).asked)
        cycle += " waits for " + name(k) + ", which";
      course::expect(false, what,
                     cycle +
                         " ... They wait in a circle. If each may ask only peers that stand "
                         "on one side of it in some order of all workers, no circle can close");
    }
    course::expect(wishes == 0, "somebody asks", "a free worker never may: look at may_ask()");
  }

  int n, wishes = 12;
  std::uint64_t seed = 0;
  Rng random;
  std::array<Worker, kMost> worker;
  std::vector<Question> flying;  // in any order
  std::array<std::deque<int>, kMost> waiting;
  std::array<std::array<int, kMost>, kMost> met{};
};

int main() {
  using course::expect;
  constexpr int kOrders = 100'000;
  std::array<std::array<long, kMost>, kMost> met{};
  for (int order = 0; order < kOrders; ++order) {
    Run run(2 + order % (kMost - 1), static_cast<std::uint64_t>(order));
    run.seed = static_cast<std::uint64_t>(order);
    while (run.step()) {
    }
    run.expect_the_end();
    for (std::size_t i = 0; i < kMost; ++i)
      for (std::size_t j = 0; j < kMost; ++j) met[i][j] += run.met[i][j];
  }
  for (int i = 0; i < kMost; ++i)
    for (int j = i + 1; j < kMost; ++j)
      expect(met[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] > 1000,
             name(i) + " and " + name(j) + " exchange with each other",
             "one of the two must be allowed to ask the other");
  course::done("100,000 orders of events without a deadlock or a worker in two exchanges");
  dist::SimulationOptions options;
  options.workers = 16;
  options.pairing = "handshake";
  options.dims = 1;
  options.machines.slow = {1, 1, 1, 10};
  const auto timeline =
      dist::simulate_timeline(dist::plan_simulation(options), 500 * options.machines.compute_s);
  course::predicted(prediction, timeline.efficiency, .05, "the efficiency");
  return course::end();
}
