// Point 3 of the pairing's contract with real threads: random compute times, one worker ten times slower, many small exchanges. Nobody is
// in two exchanges at once, both ends count the same, and nothing ever stands still (the test would not end).
// GOSSAMER_STRESS_EXCHANGES=1000000 runs more of them than the suite has time for.
#include <cstdlib>
#include <set>

#include "dist_workers.h"

namespace gossamer::dist {
namespace {

// What a worker's payload and link see, checked from outside of all classes under test.
struct Watch {
  explicit Watch(int n) : with(static_cast<std::size_t>(n), -1), together(static_cast<std::size_t>(n), std::vector<i64>(static_cast<std::size_t>(n), 0)) {}
  void begin(int rank, int peer, std::uint64_t session) {
    const std::scoped_lock lock(mutex);
    int& now = with[static_cast<std::size_t>(rank)];
    if (now >= 0) fault = "worker " + std::to_string(rank) + " is in two exchanges at once";
    if (!sessions[std::minmax(rank, peer)].insert({rank, session}).second) fault = "session " + std::to_string(session) + " is used twice";
    now = peer;
  }
  void end(int rank, int peer, bool ok) {
    const std::scoped_lock lock(mutex);
    with[static_cast<std::size_t>(rank)] = -1;
    if (ok) ++together[static_cast<std::size_t>(rank)][static_cast<std::size_t>(peer)], ++ends;
    else ++failed;
  }
  std::mutex mutex;
  std::vector<int> with;
  std::map<std::pair<int, int>, std::set<std::pair<int, std::uint64_t>>> sessions;
  std::vector<std::vector<i64>> together;
  std::string fault;
  i64 failed = 0;
  std::atomic<i64> ends = 0;
};

class WatchedGroup : public Group, private ControlLink, private Payload {
 public:
  WatchedGroup(Group& inner, Watch& watch) : inner_(inner), watch_(watch) {}
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  ControlLink& control() override { return *this; }
  Payload& payload() override { return *this; }
  Collectives& collectives() override { return inner_.collectives(); }
  void rebuild(const std::vector<int>& alive, std::uint32_t epoch) override { inner_.rebuild(alive, epoch); }
  std::vector<int> alive() const override { return inner_.alive(); }

 private:
  void send(int peer, const Message& m) override { inner_.control().send(peer, m); }
  Event next(Seconds timeout) override {
    Event e = inner_.control().next(timeout);
    if (e.kind == Event::Kind::exchanged) watch_.end(rank(), e.peer, e.ok);
    return e;
  }
  void post(Event e) override { inner_.control().post(std::move(e)); }
  bool alive(int peer) const override { return inner_.control().alive(peer); }
  void connect(const std::vector<int>& peers, Seconds deadline) override { inner_.control().connect(peers, deadline); }
  void exchange(int peer, std::uint64_t session, std::span<const float> out, std::span<float> in, Seconds deadline) override {
    watch_.begin(rank(), peer, session);
    inner_.payload().exchange(peer, session, out, in, deadline);
  }
  void abort(int peer) override { inner_.payload().abort(peer); }
  void settle(Seconds limit) override { inner_.payload().settle(limit); }
  Group& inner_;
  Watch& watch_;
};

i64 exchanges_wanted(i64 usual) {
  const char* given = std::getenv("GOSSAMER_STRESS_EXCHANGES");
  return given ? std::max<i64>(1, std::atoll(given)) : usual;
}

void stress(const char* graph, int n, const char* pairing, i64 exchanges) {
  LocalCluster cluster(n);
  Watch watch(n);
  std::vector<std::vector<EdgeStats>> edges(static_cast<std::size_t>(n));
  std::vector<i64> gradients(static_cast<std::size_t>(n));
  on_workers(cluster, n, [&](int rank, Group& inner) {
    WatchedGroup group(inner, watch);
    Quadratic q(rank, 8, true);
    MethodOptions options;
    options.rate = 2;
    options.seed = 5;
    options.pairing = pairing;
    auto method = make_method("a2cid2", q.params, q.sgd, group, make_graph(graph, n, 2), options);
    Rng random(6, static_cast<std::uint64_t>(rank));
    const double mean_us = rank == n / 2 ? 2000 : 200;
    while (watch.ends < 2 * exchanges) {
      q.gradient(.01f);
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(mean_us * random.exponential()));
      method->step(.02);
    }
    method->finish();
    edges[static_cast<std::size_t>(rank)] = method->stats().edges;
    gradients[static_cast<std::size_t>(rank)] = method->stats().gradients;
  });
  EXPECT_EQ(watch.fault, "");
  EXPECT_GE(watch.ends, 2 * exchanges);
  EXPECT_EQ(watch.failed, 0);
  for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
    EXPECT_EQ(watch.with[i], -1) << "worker " << i << " ends in an exchange";
    for (std::size_t j = 0; j < i; ++j) EXPECT_EQ(watch.together[i][j], watch.together[j][i]) << i << "-" << j;
    for (const EdgeStats& e : edges[i]) EXPECT_EQ(e.exchanges, watch.together[i][static_cast<std::size_t>(e.peer)]) << i << "-" << e.peer;
  }
  for (const auto& [pair, ends] : watch.sessions) EXPECT_EQ(ends.size() % 2, 0u) << "a session of one side only: " << pair.first << "-" << pair.second;
  EXPECT_LT(2 * gradients[static_cast<std::size_t>(n / 2)], gradients[0]) << "the slow worker held the others up";
}

TEST(PairingStress, T23_RingWithASlowWorker) { stress("ring", 6, "handshake", exchanges_wanted(6000)); }
TEST(PairingStress, T23_CompleteGraphWithASlowWorker) { stress("complete", 6, "handshake", exchanges_wanted(6000)); }
TEST(PairingStress, T23_ExponentialGraphWithASlowWorker) { stress("exponential", 10, "handshake", exchanges_wanted(6000)); }

}  // namespace
}  // namespace gossamer::dist
