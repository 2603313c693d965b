// The pairing protocol: every reachable state of small networks, with crossing messages, time-outs
// and deaths.
#include "gossamer/dist/gossip/pairing.h"

#include <unordered_set>

#include <gmock/gmock.h>

#include "gossamer/core/random.h"

namespace gossamer::dist {
namespace {

using Links = std::vector<std::pair<int, int>>;

// dues: of each worker; time-outs (and reminders) and deaths: in all
struct Budget {
  std::vector<int> dues;
  int time_outs, deaths;
};

// 128 bits of a state: two states of a few million have the same with a probability of 1e-25.
struct Print {
  std::uint64_t a = 0x9e3779b97f4a7c15ull, b = 0xc2b2ae3d27d4eb4full;
  void add(std::uint64_t x) {
    a = (a ^ x) * 0x100000001b3ull;
    a ^= a >> 29;
    b = (b + x) * 0xff51afd7ed558ccdull;
    b ^= b >> 32;
  }
  bool operator==(const Print&) const = default;
  struct Hash {
    std::size_t operator()(const Print& p) const { return p.a; }
  };
};

// The whole network: workers, FIFO channels, and what the world may still do. Copied for each
// event, so it is kept small: bits, not lists.
struct World {
  struct Said {
    MessageType type;
    std::uint32_t epoch, nonce;
  };
  std::vector<Pairing> workers;
  std::vector<std::vector<Said>> channel;  // [from * n + to]
  std::uint32_t dead = 0, noticed = 0;     // bits: worker; who * n + of whom
  std::uint32_t arrived = 0;               // the payload of its exchange is there
  std::vector<int> dues;
  std::vector<int> met;      // of each worker: the partner of its last exchange
  std::uint32_t anyone = 0;  // bits: it may draw that one, since its time for others was over
  int time_outs = 0, deaths = 0;

  int n() const { return static_cast<int>(workers.size()); }
  std::vector<Said>& from_to(int from, int to) {
    return channel[static_cast<std::size_t>(from * n() + to)];
  }
  const std::vector<Said>& from_to(int from, int to) const {
    return channel[static_cast<std::size_t>(from * n() + to)];
  }
  bool is_dead(int i) const { return dead >> i & 1; }
  bool has_noticed(int who, int whom) const { return noticed >> (who * n() + whom) & 1; }
  void collect(int i) {
    for (auto& [to, m] : workers[static_cast<std::size_t>(i)].take_messages())
      if (!is_dead(to)) from_to(i, to).push_back({m.type, m.epoch, m.nonce});
  }
  Print print() const {
    Print out;
    for (int i = 0; i < n(); ++i)
      if (!is_dead(i))
        for (const std::uint32_t word : workers[static_cast<std::size_t>(i)].fingerprint())
          out.add(word);
    for (const auto& queue : channel) {
      out.add(queue.size());
      for (const Said& m : queue)
        out.add(static_cast<std::uint64_t>(m.type) << 56 ^
                static_cast<std::uint64_t>(m.epoch) << 28 ^ m.nonce);
    }
    out.add(static_cast<std::uint64_t>(dead) << 32 | noticed);
    out.add(static_cast<std::uint64_t>(anyone) << 32 | arrived);
    for (const int d : dues) out.add(static_cast<std::uint64_t>(d));
    for (const int m : met) out.add(static_cast<std::uint64_t>(m + 1));
    out.add(static_cast<std::uint64_t>(time_outs) << 32 | static_cast<std::uint64_t>(deaths));
    return out;
  }
};

struct Result {
  i64 states = 0, exchanges = 0;
  std::string fault;
};

class Checker {
 public:
  Checker(int n, const Links& links, Budget budget) : n_(n), links_(links) {
    World w;
    for (int i = 0; i < n; ++i) {
      std::map<int, double> peers;
      for (const auto& [a, b] : links) {
        if (a == i) peers[b] = 1;
        if (b == i) peers[a] = 1;
      }
      w.workers.emplace_back(
          i, peers, [this](std::span<const double> rates) { return choose(rates.size()); });
    }
    w.channel.resize(static_cast<std::size_t>(n * n));
    w.dues = budget.dues;
    w.met.assign(w.workers.size(), -1);
    w.time_outs = budget.time_outs;
    w.deaths = budget.deaths;
    for (int i = 0; i < n; ++i) {
      w.workers[static_cast<std::size_t>(i)].open();
      w.collect(i);
    }
    visit(std::move(w));
  }

  bool forget_avail_after_cancel = false, forget_the_last_partner = false;

  Result run() {
    while (!todo_.empty() && result_.fault.empty()) {
      const World w = std::move(todo_.back());
      todo_.pop_back();
      expand(w);
    }
    return result_;
  }

 private:
  // A choice inside an event: the event is replayed once for each.
  std::size_t choose(std::size_t n) {
    if (depth_ == choices_.size()) choices_.push_back({0, n});
    return choices_[depth_++].first;
  }
  template <class Event>
  void branch(const World& w, Event event) {
    choices_.clear();
    for (;;) {
      depth_ = 0;
      World next = w;
      event(next);
      for (int i = 0; i < n_; ++i) next.collect(i);
      if (result_.states % 16 == 0) compare_counters(w, next);
      for (int i = 0; i < n_; ++i) check_partner(w, next, i);
      visit(std::move(next));
      while (!choices_.empty() && ++choices_.back().first == choices_.back().second)
        choices_.pop_back();
      if (choices_.empty()) return;
    }
  }
  // changes() instead of the whole state: it must tell the same.
  void compare_counters(const World& before, const World& after) {
    for (std::size_t i = 0; i < after.workers.size(); ++i) {
      const bool counted = before.workers[i].changes() != after.workers[i].changes();
      const bool changed = before.workers[i].fingerprint() != after.workers[i].fingerprint();
      if (counted != changed)
        result_.fault = "worker " + std::to_string(i) +
                        (changed ? " changed and counts nothing" : " counts a change of nothing");
    }
  }
  // Who starts an exchange has not drawn the partner of its last one, unless no other neighbour
  // lives, as far as it knows, or its time was over.
  void check_partner(const World& before, const World& after, int i) {
    if (!lives(after, i) || is(before, i, Pairing::State::exchanging) ||
        !is(after, i, Pairing::State::exchanging) || !at(after, i).initiated())
      return;
    const int partner = at(after, i).partner();
    if (partner != before.met[static_cast<std::size_t>(i)] || before.anyone >> i & 1) return;
    for (const auto& [a, b] : links_) {
      const int other = a == i ? b : b == i ? a : -1;
      if (other >= 0 && other != partner && !after.has_noticed(i, other))
        result_.fault = "worker " + std::to_string(i) + " meets " + std::to_string(partner) +
                        " again, although it knows of " + std::to_string(other);
    }
  }
  void visit(World w) {
    if (!seen_.insert(w.print()).second) return;
    ++result_.states;
    todo_.push_back(std::move(w));
  }

  static Pairing& at(World& w, int i) { return w.workers[static_cast<std::size_t>(i)]; }
  static const Pairing& at(const World& w, int i) { return w.workers[static_cast<std::size_t>(i)]; }
  static bool is(const World& w, int i, Pairing::State s) { return at(w, i).state() == s; }
  bool lives(const World& w, int i) const { return !w.is_dead(i); }
  bool exchanging_together(const World& w, int a, int b) const {
    return is(w, a, Pairing::State::exchanging) && is(w, b, Pairing::State::exchanging) &&
           at(w, a).partner() == b && at(w, b).partner() == a &&
           at(w, a).session() == at(w, b).session();
  }

  void expand(const World& w) {
    bool quiet = true;
    for (int a = 0; a < n_; ++a)
      for (int b = 0; b < n_; ++b) {
        if (a == b || !lives(w, b)) continue;
        if (!w.from_to(a, b).empty()) {
          quiet = false;
          branch(w, [=, this](World& next) {
            auto& queue = next.from_to(a, b);
            Message m;
            m.type = queue.front().type, m.epoch = queue.front().epoch,
            m.nonce = queue.front().nonce;
            queue.erase(queue.begin());
            at(next, b).receive(a, m);
            if (forget_avail_after_cancel && m.type == MessageType::cancel)
              for (auto& [to, answer] : at(next, b).take_messages())
                if (answer.type != MessageType::avail)
                  next.from_to(b, to).push_back({answer.type, answer.epoch, answer.nonce});
          });
        } else if (!lives(w, a) && !w.has_noticed(b, a)) {
          // after its last words, the connection is closed
          quiet = false;
          branch(w, [=, this](World& next) {
            next.noticed |= 1u << (b * n_ + a);
            const bool exchanging =
                is(next, b, Pairing::State::exchanging) && at(next, b).partner() == a;
            at(next, b).peer_dead(a);
            if (exchanging) end(next, b);
          });
        }
      }
    for (int a = 0; a < n_; ++a) {
      if (!lives(w, a)) continue;
      if (w.dues[static_cast<std::size_t>(a)] > 0 && !at(w, a).wanting()) {
        quiet = false;
        branch(w,
               [=](World& next) { --next.dues[static_cast<std::size_t>(a)], at(next, a).due(); });
      }
      if (w.time_outs > 0 && is(w, a, Pairing::State::proposing))
        branch(w, [=](World& next) { --next.time_outs, at(next, a).time_out(); });
      if (w.time_outs > 0 && is(w, a, Pairing::State::accepted))  // its COMMIT is late
        branch(w, [=](World& next) { --next.time_outs, at(next, a).remind(); });
      if (w.deaths > 0)
        branch(w, [=, this](World& next) {
          --next.deaths, next.dead |= 1u << a, next.arrived &= ~(1u << a),
              next.dues[static_cast<std::size_t>(a)] = 0;
          for (int b = 0; b < n_; ++b) next.from_to(b, a).clear();
        });
      // Its time for others is over, sooner or later: it does not wait for ever.
      if (at(w, a).avoided() >= 0 && at(w, a).wanting() && is(w, a, Pairing::State::available)) {
        quiet = false;
        branch(w, [=](World& next) {
          next.anyone |= 1u << a;
          at(next, a).meet_anyone();
        });
      }
      // each side ends at its own moment: one may be in its next pairing while the other still
      // copies
      if (w.arrived >> a & 1) {
        quiet = false;
        branch(w, [=, this](World& next) { end(next, a); });
      }
      for (int b = a + 1; b < n_; ++b)
        if (lives(w, b) && exchanging_together(w, a, b) && !(w.arrived >> a & 1) &&
            !(w.arrived >> b & 1)) {
          quiet = false;
          ++result_.exchanges;
          branch(w, [=](World& next) { next.arrived |= 1u << a | 1u << b; });
        }
    }
    if (quiet) judge(w);
  }
  void end(World& w, int i) const {
    w.arrived &= ~(1u << i);
    const int partner = at(w, i).partner();
    if (std::exchange(w.met[static_cast<std::size_t>(i)], partner) != partner)
      w.anyone &= ~(1u << i);
    at(w, i).exchange_done();
    if (forget_the_last_partner) at(w, i).meet_anyone();
    at(w, i).open();
  }

  // Nothing is in flight and nothing will happen by itself: nobody may be waiting.
  void judge(const World& w) {
    for (int i = 0; i < n_; ++i) {
      if (!lives(w, i)) continue;
      if (is(w, i, Pairing::State::exchanging))
        result_.fault = "one-sided session of worker " + std::to_string(i);
      else if (!is(w, i, Pairing::State::available))
        result_.fault = "worker " + std::to_string(i) + " waits for ever";
    }
    for (const auto& [a, b] : links_)
      if (lives(w, a) && lives(w, b) && (at(w, a).wanting() || at(w, b).wanting()))
        result_.fault = "workers " + std::to_string(a) + " and " + std::to_string(b) +
                        " are free, one wants, and nothing happens";
  }

  int n_;
  Links links_;
  std::vector<World> todo_;
  std::unordered_set<Print, Print::Hash> seen_;
  std::vector<std::pair<std::size_t, std::size_t>> choices_;
  std::size_t depth_ = 0;
  Result result_;
};

const Links pair2 = {{0, 1}}, path3 = {{0, 1}, {1, 2}}, triangle = {{0, 1}, {1, 2}, {0, 2}},
            path4 = {{0, 1}, {1, 2}, {2, 3}}, star4 = {{0, 1}, {0, 2}, {0, 3}},
            ring4 = {{0, 1}, {1, 2}, {2, 3}, {0, 3}},
            complete4 = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};

// About two million states in all.
void explore(const Links& links, const std::vector<Budget>& budgets) {
  for (const Budget& budget : budgets) {
    const Result r = Checker(static_cast<int>(budget.dues.size()), links, budget).run();
    EXPECT_EQ(r.fault, "") << testing::PrintToString(budget.dues) << ", " << budget.time_outs
                           << " time-outs, " << budget.deaths << " deaths, after " << r.states
                           << " states";
    EXPECT_GT(r.exchanges, 0);
  }
}

TEST(Pairing, T23_HasNoDeadlockAndNoOneSidedSessionOnAPath) {
  explore(pair2, {{{3, 3}, 2, 1}});
  explore(path3, {{{1, 1, 1}, 1, 1}});
  explore(path4, {{{1, 1, 1, 1}, 0, 0}, {{0, 1, 1, 0}, 1, 1}});
}

TEST(Pairing, T23_HasNoDeadlockAndNoOneSidedSessionOnTheTriangle) {
  explore(triangle, {{{1, 1, 1}, 0, 1}, {{1, 1, 0}, 1, 1}, {{1, 0, 1}, 1, 1}, {{0, 1, 1}, 1, 1}});
}

TEST(Pairing, T23_HasNoDeadlockAndNoOneSidedSessionOnTheStar) {
  explore(star4, {{{1, 1, 1, 1}, 0, 0}, {{1, 1, 1, 0}, 1, 0}, {{0, 1, 1, 1}, 0, 1}});
}

TEST(Pairing, T23_HasNoDeadlockAndNoOneSidedSessionOnTheRing) {
  explore(ring4, {{{1, 1, 1, 0}, 0, 0},
                  {{1, 1, 0, 0}, 1, 0},
                  {{1, 0, 1, 0}, 1, 0},
                  {{1, 0, 1, 0}, 0, 1},
                  {{0, 1, 1, 0}, 0, 1}});
}

TEST(Pairing, T23_HasNoDeadlockAndNoOneSidedSessionOnTheCompleteGraphOfFour) {
  explore(complete4, {{{1, 1, 0, 0}, 0, 0},
                      {{0, 1, 1, 0}, 0, 0},
                      {{1, 0, 0, 0}, 1, 1},
                      {{0, 1, 0, 0}, 0, 1},
                      {{0, 0, 0, 1}, 1, 0}});
}

// The repeated AVAIL after a CANCEL was missing in the protocol's first version. Without it the
// checker must find the lost wake-up.
TEST(Pairing, DrawsWithoutRepeatsKeepTheRates) {
  for (const std::vector<double>& rates :
       {std::vector<double>{1, 1, 1, 1, 1}, {2, 1, 1, 1, 1}, {.5, .3, .2}, {.49, .2, .2, .11}}) {
    const std::vector<double> w = unrepeated(rates);
    double all = 0, sum = 0, steps = 0;
    for (std::size_t i = 0; i < w.size(); ++i) all += rates[i], sum += w[i];
    for (const double each : w) steps += each * (sum - each);
    for (std::size_t i = 0; i < w.size(); ++i)
      EXPECT_NEAR(w[i] * (sum - w[i]) / steps, rates[i] / all, 1e-2) << i;
  }
}

TEST(Pairing, TheCheckerFindsTheFaultOfTheFirstVersion) {
  Checker checker(2, {{0, 1}}, {{1, 1}, 1, 0});
  checker.forget_avail_after_cancel = true;
  EXPECT_NE(checker.run().fault, "");
}

TEST(Pairing, TheCheckerFindsAWorkerThatMeetsItsLastPartnerAgain) {
  Checker checker(3, path3, {{1, 1, 1}, 0, 0});
  checker.forget_the_last_partner = true;
  EXPECT_THAT(checker.run().fault, ::testing::HasSubstr("again"));
}

}  // namespace
}  // namespace gossamer::dist
