// Who takes part and when the run ends: every order of events of small networks with losses,
// returns, restarts and crossing messages; and random long ones, in which progress is counted too.
#include "gossamer/dist/gossip/roster.h"

#include <unordered_set>

#include <gtest/gtest.h>

#include "gossamer/core/random.h"

namespace gossamer::dist {
namespace {

// Workers and the links between them. A link tells both its ends of a loss and of a new connection,
// each at its own time and in order with the messages.
class Network {
 public:
  struct Item {
    Event::Kind kind;  // message, dead, joined
    Message message{};
  };
  struct Worker {
    explicit Worker(Roster r) : roster(std::move(r)) {}
    Roster roster;
    bool dead = false, left = false;
    std::vector<bool> set;  // left: who was gone for it
    int gave_to = -1;       // who has its state, and has not been heard since
  };

  // started: the others of the n are free places, where restart() lets a worker join
  Network(int n, int started)
      : n_(n), started_(started), inbox(static_cast<std::size_t>(n * n)), up(inbox.size(), true) {
    for (int i = 0; i < n; ++i) {
      workers.emplace_back(new_roster(i));
      workers.back().dead = i >= started;
    }
  }

  int n() const { return n_; }
  Worker& at(int i) { return workers[static_cast<std::size_t>(i)]; }
  const Worker& at(int i) const { return workers[static_cast<std::size_t>(i)]; }
  // runs: takes part in the protocol
  bool runs(int i) const { return !at(i).dead && !at(i).left; }
  std::vector<Item>& from_to(int a, int b) { return inbox[static_cast<std::size_t>(a * n_ + b)]; }
  const std::vector<Item>& from_to(int a, int b) const {
    return inbox[static_cast<std::size_t>(a * n_ + b)];
  }
  bool linked(int a, int b) const {
    return up[static_cast<std::size_t>(a * n_ + b)] && !at(a).dead && !at(b).dead;
  }
  void set_link(int a, int b, bool is_up) {
    up[static_cast<std::size_t>(a * n_ + b)] = up[static_cast<std::size_t>(b * n_ + a)] = is_up;
  }

  // Sends what worker i has to say. What is sent over a lost link is lost.
  void collect(int i) {
    for (auto& [to, m] : at(i).roster.take_messages())
      if (linked(i, to) && !(loses && loses())) from_to(i, to).push_back({Event::Kind::message, m});
    at(i).roster.take_changes();
  }
  void deliver(int from, int to) {
    const Item item = from_to(from, to).front();
    from_to(from, to).erase(from_to(from, to).begin());
    if (!runs(to)) return;
    Roster& r = at(to).roster;
    if (item.kind == Event::Kind::message) r.receive(from, item.message, now);
    if (item.kind == Event::Kind::dead) {
      r.lost(from, "dead");
      if (at(to).gave_to == from) at(to).gave_to = -1;
    }
    if (item.kind == Event::Kind::joined) r.joined(from, now);
    r.advance(now);  // the Exchanger does so after each event
    collect(to);
  }
  // drop: what is under way is lost; otherwise it comes before the news of the loss
  void cut(int a, int b, bool drop) {
    set_link(a, b, false);
    for (const auto& [x, y] : {std::pair(a, b), {b, a}}) {
      if (drop) lose(x, y);
      from_to(x, y).push_back({Event::Kind::dead});
    }
  }
  void mend(int a, int b) {
    set_link(a, b, true);
    for (const auto& [x, y] : {std::pair(a, b), {b, a}})
      from_to(x, y).push_back({Event::Kind::joined});
  }
  void kill(int i) {
    for (int other = 0; other < n_; ++other) {
      if (other == i) continue;
      if (linked(i, other)) from_to(i, other).push_back({Event::Kind::dead});
      from_to(other, i).clear();
    }
    at(i).dead = true;
  }
  // Started again, with the state of `giver`.
  void restart(int i, int giver) {
    std::vector<bool> reached;
    at(i).dead = false;
    for (int other = 0; other < n_; ++other) {
      reached.push_back(other == i || !at(other).dead);
      if (other == i) continue;
      set_link(i, other, true);
      if (reached.back()) from_to(i, other).push_back({Event::Kind::joined});
    }
    at(i) = Worker(new_roster(i));
    at(i).roster.start_again(at(giver).roster.count(), reached, now);
    at(giver).gave_to = i;
    collect(i);
  }
  // A worker waits for the one that has its state (StateSender::busy).
  bool may_stop(int i) const {
    const int other = at(i).gave_to;
    return !at(i).roster.stopping() && (other < 0 || at(other).dead || at(i).roster.member(other));
  }
  void stop(int i) {
    at(i).roster.complete();
    at(i).roster.stop(now);
    collect(i);
  }
  bool leave(int i) {
    if (!at(i).roster.ended(now)) return false;
    at(i).left = true;
    at(i).set = at(i).roster.gone();
    for (int other = 0; other < n_; ++other)
      if (other != i && linked(i, other))
        from_to(i, other).push_back({Event::Kind::message, {.type = MessageType::bye, .epoch = 1}});
    return true;
  }
  bool quiet() const {
    for (int a = 0; a < n_; ++a)
      for (int b = 0; b < n_; ++b)
        if (runs(b) && !from_to(a, b).empty()) return false;
    return true;
  }
  void deliver_all() {
    while (!quiet())
      for (int a = 0; a < n_; ++a)
        for (int b = 0; b < n_; ++b)
          if (!from_to(a, b).empty()) deliver(a, b);
  }
  void pass_time(double seconds) {
    now += seconds;
    for (int i = 0; i < n_; ++i)
      if (runs(i)) at(i).roster.advance(now), collect(i);
    deliver_all();
  }

 private:
  Roster new_roster(int i) const { return Roster(i, n_, 0, 600, started_); }
  void lose(int from, int to) {
    // losses and returns themselves do not get lost
    std::erase_if(from_to(from, to),
                  [](const Item& item) { return item.kind == Event::Kind::message; });
  }
  int n_, started_;

 public:
  std::vector<Worker> workers;
  std::vector<std::vector<Item>> inbox;  // [from * n + to]
  std::vector<bool> up;
  double now = 0;
  bool (*loses)() = nullptr;  // true: this message is lost
};

// What may still happen, in all. Nothing in a Roster depends on the order of ids, so one cut is
// that of workers 0 and 1, one death that of worker 0, who asks worker 1 for its state.
struct Budget {
  int cuts, kills;
};

class Checker {
 public:
  Checker(int n, int started, Budget budget) { visit({Network(n, started), budget, {}}); }

  std::string run() {
    while (!todo_.empty() && fault_.empty()) {
      const World w = std::move(todo_.back());
      todo_.pop_back();
      expand(w);
    }
    return fault_;
  }
  i64 states() const { return static_cast<i64>(seen_.size()); }
  i64 ends() const { return ends_; }

 private:
  struct World {
    Network net;
    Budget budget;
    std::vector<std::pair<int, int>> cut;
  };

  static std::string print(const World& w) {
    std::string out;
    const auto add = [&](std::uint32_t x) { out.append(reinterpret_cast<const char*>(&x), 4); };
    for (int i = 0; i < w.net.n(); ++i) {
      for (const std::uint32_t word : w.net.at(i).roster.fingerprint()) add(word);
      add(w.net.at(i).dead | w.net.at(i).left << 1 |
          static_cast<std::uint32_t>(w.net.at(i).gave_to + 1) << 2);
    }
    for (const auto& queue : w.net.inbox) {
      add(static_cast<std::uint32_t>(queue.size()));
      for (const Network::Item& item : queue) {
        add(static_cast<std::uint32_t>(item.kind) << 8 |
            static_cast<std::uint32_t>(item.message.type));
        add(item.message.epoch);
      }
    }
    for (const bool each : w.net.up) out += each ? '1' : '0';
    add(static_cast<std::uint32_t>(w.budget.cuts << 8 | w.budget.kills));
    for (const auto& [a, b] : w.cut) add(static_cast<std::uint32_t>(a << 8 | b));
    return out;
  }
  void visit(World w) {
    if (seen_.insert(print(w)).second) todo_.push_back(std::move(w));
  }
  template <class Event>
  void branch(const World& w, Event event) {
    World next = w;
    event(next);
    visit(std::move(next));
  }

  void expand(const World& w) {
    const int n = w.net.n();
    bool left = false, moved = false, noticed = true;
    for (int i = 0; i < n; ++i) left |= w.net.at(i).left;
    for (int a = 0; a < n; ++a)
      for (int b = 0; b < n; ++b)
        if (w.net.runs(b) && !w.net.from_to(a, b).empty()) {
          moved = true;
          for (const Network::Item& item : w.net.from_to(a, b))
            noticed &= item.kind == Event::Kind::message;
          branch(w, [=](World& next) { next.net.deliver(a, b); });
        }
    for (int i = 0; i < n; ++i) {
      if (!w.net.runs(i)) continue;
      if (w.net.may_stop(i)) {
        moved = true;
        branch(w, [=](World& next) { next.net.stop(i); });
      }
      World next = w;
      if (noticed && next.net.leave(i)) {
        moved = true;
        visit(std::move(next));
      }
    }
    // when the first has left, the others must end as it did
    if (!left) disturb(w);
    if (!moved) judge(w);
  }

  void disturb(const World& w) {
    const int n = w.net.n();
    for (const auto& [a, b] : w.cut)
      if (!w.net.at(a).dead && !w.net.at(b).dead)
        branch(w, [a = a, b = b](World& next) {
          std::erase(next.cut, std::pair(a, b));
          next.net.mend(a, b);
        });
    for (int a = 0; a < n; ++a) {
      for (int b = a + 1; b < (w.budget.cuts > 1 ? n : 2) && w.budget.cuts > 0; ++b)
        for (const bool drop : {false, true})
          if (w.net.linked(a, b))
            branch(w, [=](World& next) {
              --next.budget.cuts;
              next.cut.emplace_back(a, b);
              next.net.cut(a, b, drop);
            });
      if (w.budget.kills > 0 && a == 0 && !w.net.at(a).dead)
        branch(w, [=](World& next) { --next.budget.kills, next.net.kill(a); });
      if (!w.net.at(a).dead) continue;
      for (int giver = 0; giver < n; ++giver)
        if (giver != a && w.net.runs(giver) && !w.net.at(giver).roster.stopping())
          branch(w, [=](World& next) {
            std::erase_if(next.cut, [=](auto p) { return p.first == a || p.second == a; });
            next.net.restart(a, giver);
          });
    }
  }

  // Nothing is under way. What is said again each second must be enough for all to end.
  void judge(World w) {
    ++ends_;
    // two that stay cut off from each other, but not from the others, wait in vain to agree
    const int rounds = w.cut.empty() ? 4 : 12;
    for (int i = 0; i < rounds; ++i) {
      w.net.pass_time(1.5);
      for (int k = 0; k < w.net.n(); ++k)
        if (w.net.runs(k)) w.net.leave(k);
    }
    const auto fail = [&](int i, const std::string& what) {
      fault_ = "worker " + std::to_string(i) + " " + what;
    };
    for (int a = 0; a < w.net.n(); ++a) {
      if (w.net.at(a).dead) continue;
      if (!w.net.at(a).left) return fail(a, "waits for ever");
      for (int b = 0; b < w.net.n() && w.cut.empty(); ++b)
        if (b != a && !w.net.at(b).dead && !w.net.at(a).set[static_cast<std::size_t>(b)] &&
            w.net.at(a).set != w.net.at(b).set)
          return fail(a, "ends with others than worker " + std::to_string(b));
    }
  }

  std::vector<World> todo_;
  std::unordered_set<std::string> seen_;
  std::string fault_;
  i64 ends_ = 0;
};

void explore(int n, int started, const std::vector<Budget>& budgets) {
  for (const Budget& b : budgets) {
    Checker checker(n, started, b);
    EXPECT_EQ(checker.run(), "") << n << " places, " << started << " workers, " << b.cuts
                                 << " cuts, " << b.kills << " kills, after " << checker.states()
                                 << " states";
    EXPECT_GT(checker.ends(), 0);
  }
}

// Long random runs. All workers that live do their gradients together, so that their q are equal
// and the estimate of what all have done has no error but the gradients done while a worker counted
// members that were gone, or did not count one that was there.
TEST(Roster, EstimatesWhatAllHaveDoneThroughLossesAndReturns) {
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    static Rng random(1);
    random = Rng(seed);
    const auto below = [&](int n) {
      return static_cast<int>(random.below(static_cast<std::uint32_t>(n)));
    };
    const int n = 2 + below(4);
    Network net(n, seed % 3 ? n : 1 + below(n));
    if (seed % 2) net.loses = [] { return random.below(10) == 0; };
    double done = 0, slack = 0;
    std::vector<double> of_life(static_cast<std::size_t>(n));
    std::vector<std::pair<int, int>> cuts;
    const auto gradients = [&] {
      for (int i = 0; i < n; ++i) {
        if (!net.runs(i)) continue;
        net.at(i).roster.gradient();
        ++done;
        ++of_life[static_cast<std::size_t>(i)];
        for (int other = 0; other < n; ++other)
          slack += other != i && net.at(i).roster.member(other) != net.linked(i, other);
      }
    };
    for (int step = 0; step < 400; ++step) {
      const int a = below(n), b = below(n);
      switch (below(12)) {
        case 0:
          if (a < b && net.linked(a, b)) net.cut(a, b, below(2)), cuts.emplace_back(a, b);
          break;
        case 1:
        case 2:
          if (cuts.empty()) break;
          if (net.runs(cuts.back().first) && net.runs(cuts.back().second))
            net.mend(cuts.back().first, cuts.back().second);
          cuts.pop_back();
          break;
        case 3:
          if (!net.runs(a) || below(8) != 0) break;
          for (int i = 0; i < n; ++i)  // what it did while cut off is not heard of any more
            slack += net.runs(i) && !net.at(i).roster.member(a)
                         ? of_life[static_cast<std::size_t>(a)]
                         : 0;
          net.kill(a);
          break;
        case 4: {
          // from one that reaches all that live, so that it has counted them all
          bool reaches = net.at(a).dead && net.runs(b);
          for (int i = 0; i < n && reaches; ++i)
            reaches = i == a || net.at(i).dead || i == b ||
                      (net.linked(b, i) && net.at(b).roster.member(i));
          if (!reaches) break;
          std::erase_if(cuts, [=](auto p) { return p.first == a || p.second == a; });
          net.restart(a, b);
          of_life[static_cast<std::size_t>(a)] = 0;
          break;
        }
        case 5:
        case 6:
          if (below(3) == 0) gradients();
          break;
        case 7:
          if (a != b && net.linked(a, b) && net.runs(a) && net.runs(b)) {
            Roster &x = net.at(a).roster, &y = net.at(b).roster;
            const Progress own = x.progress(), theirs = y.progress();
            x.average(own, theirs);
            y.average(theirs, own);
          }
          break;
        default:
          if (a != b && !net.from_to(a, b).empty()) net.deliver(a, b);
      }
    }
    net.loses = nullptr;
    for (const auto& [a, b] : cuts)
      if (!net.linked(a, b) && net.runs(a) && net.runs(b)) net.mend(a, b);
    for (int i = 0; i < 3; ++i) net.pass_time(1.5);
    for (int i = 0; i < n; ++i) {
      if (!net.runs(i)) continue;
      Roster& r = net.at(i).roster;
      for (int other = 0; other < n; ++other) EXPECT_EQ(r.member(other), net.runs(other)) << seed;
      EXPECT_NEAR(r.gradients_of_all(), done, slack + 1e-6) << "worker " << i << ", seed " << seed;
      net.stop(i);
    }
    for (int i = 0; i < 3; ++i) net.pass_time(1.5);
    for (int i = 0; i < n; ++i) {
      EXPECT_TRUE(!net.runs(i) || net.leave(i)) << "worker " << i << ", seed " << seed;
    }
  }
}

TEST(Roster, TwoWorkersAlwaysEndAlike) { explore(2, 2, {{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}}); }
TEST(Roster, ThreeWorkersAlwaysEndAlike) { explore(3, 3, {{0, 0}, {1, 0}, {0, 1}}); }
TEST(Roster, WhoJoinsEndsAsTheOthersDo) {
  explore(2, 1, {{0, 0}, {1, 0}, {2, 0}, {0, 1}, {1, 1}});
  explore(3, 2, {{0, 0}, {1, 0}, {0, 1}});
  explore(3, 1, {{0, 0}});
}

}  // namespace
}  // namespace gossamer::dist
