// LocalCluster: workers that die, come back, and are cut off from each other.
#include "gossamer/dist/local/local_cluster.h"

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dist/over.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/membership.h"
#include "gossamer/dist/transport.h"
#include "support/error_of.h"

namespace gossamer::dist {
namespace {

std::string next(Group& g) {
  const Event e = g.control().next(Seconds(10));
  switch (e.kind) {
    case Event::Kind::dead:
      return "dead " + std::to_string(e.peer);
    case Event::Kind::joined:
      return "joined " + std::to_string(e.peer);
    case Event::Kind::message:
      return "message " + std::to_string(e.message.nonce) + " of " + std::to_string(e.peer);
    case Event::Kind::exchanged:
      return std::string(e.ok ? "exchanged " : "failed ") + std::to_string(e.session);
    case Event::Kind::woken:
      return "woken";
    case Event::Kind::none:
      break;
  }
  return "nothing";
}
std::string nothing_more(Group& g) {
  return g.control().next(Seconds(0)).kind == Event::Kind::none ? "" : "more";
}

void say(Group& from, int to, std::uint32_t number) {
  Message m;
  m.nonce = number;
  from.control().send(to, m);
}

// The sum of 1, and of the ranks, over those who take part; each on its own thread.
std::vector<std::pair<float, float>> sums(const std::vector<Membership*>& members,
                                          const std::vector<int>& ranks) {
  std::vector<std::pair<float, float>> out(members.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < members.size(); ++i)
    threads.emplace_back([&, i] {
      members[i]->run([&](Collectives& c) {
        std::vector<float> v{1, static_cast<float>(ranks[i])};
        c.all_reduce_sum(over(v));
        out[i] = {v[0], v[1]};
      });
    });
  for (auto& t : threads) t.join();
  return out;
}
using Sums = std::vector<std::pair<float, float>>;

TEST(LocalCluster, AWorkerThatWasKilledComesBackInTheSameSlot) {
  LocalCluster cluster(3);
  Group &a = cluster.group(0), &old = cluster.group(2);
  say(a, 2, 1);
  cluster.kill(2);
  EXPECT_EQ(next(a), "dead 2");
  EXPECT_FALSE(a.control().alive(2));
  Group& fresh = cluster.revive(2);
  EXPECT_EQ(&fresh, &cluster.group(2));
  EXPECT_EQ(next(a), "joined 2");
  EXPECT_EQ(a.arrivals(2), 2u);
  EXPECT_EQ(next(fresh), "joined 0");
  EXPECT_EQ(next(fresh), "joined 1");
  EXPECT_EQ(nothing_more(fresh), "") << "the message to its old life is lost";
  say(a, 2, 7);
  EXPECT_EQ(next(fresh), "message 7 of 0");
  // What still runs of the old life is dead, and takes nothing of the new one.
  EXPECT_FALSE(old.control().alive(2));
  say(old, 0, 8);
  EXPECT_EQ(nothing_more(a), "");
  EXPECT_THROW(old.collectives().barrier(), DistError);
  EXPECT_THROW(fresh.collectives().barrier(), DistError) << "until it is rebuilt";
  std::vector<float> send{3}, receive{0}, back{0};
  a.payload().exchange(2, 5, over(send), over(receive), {}, Seconds(10));
  old.payload().exchange(0, 5, over(send), over(back), {}, Seconds(10));
  fresh.payload().exchange(0, 5, over(receive), over(back), {}, Seconds(10));
  EXPECT_EQ(next(a), "exchanged 5");
  EXPECT_EQ(next(fresh), "exchanged 5");
  EXPECT_EQ(back[0], 3);
  EXPECT_THROW(cluster.revive(1), ConfigError);
}

TEST(LocalCluster, TheSameSetOfMembersComesAgainAfterADeathAndAReturn) {
  LocalCluster cluster(3);
  Membership a(cluster.group(0), 1), b(cluster.group(1), 1), c(cluster.group(2), 1);
  EXPECT_EQ(sums({&a, &b, &c}, {0, 1, 2}), Sums(3, {3, 3}));
  for (int time = 0; time < 3; ++time) {
    cluster.kill(2);
    EXPECT_EQ(sums({&a, &b}, {0, 1}), Sums(2, {2, 1}));
    Membership again(cluster.revive(2), 1);
    EXPECT_EQ(sums({&a, &b}, {0, 1}), Sums(2, {2, 1})) << "it takes part when all say so";
    a.joined(2);
    b.joined(2);
    EXPECT_EQ(sums({&a, &b, &again}, {0, 1, 2}), Sums(3, {3, 3}));
  }
}

TEST(LocalCluster, AReturnBetweenTwoOperationsIsNoticed) {
  LocalCluster cluster(2);
  Membership a(cluster.group(0), 1), b(cluster.group(1), 1);
  cluster.kill(1);
  Membership again(cluster.revive(1), 1);  // before worker 0 has done anything about it
  a.joined(1);
  EXPECT_EQ(sums({&a, &again}, {0, 1}), Sums(2, {2, 1}));
}

TEST(LocalCluster, ACollectiveWaitsForTheLastWorkerNoLongerThanItsLimit) {
  LocalCluster cluster(2, Seconds(10), Seconds(0.01));
  std::vector<double> x{1};
  try {
    cluster.group(0).collectives().all_reduce_sum(std::span<double>(x));
    FAIL() << "worker 1 has never come";
  } catch (const DistError& e) {
    EXPECT_NE(std::string(e.what()).find("no sign of worker(s) 1"), std::string::npos) << e.what();
  }
  const std::string late = error_of([&] { cluster.group(1).collectives().barrier(); });
  EXPECT_NE(late.find("the others no longer wait for this one"), std::string::npos) << late;
}

TEST(LocalCluster, AShortCutDelaysAndLosesNothing) {
  LocalCluster cluster(2, Seconds(1000));
  Group &a = cluster.group(0), &b = cluster.group(1);
  std::vector<float> x{1}, y{2}, got_a{0}, got_b{0};
  cluster.cut(0, 1);
  say(a, 1, 1);
  say(a, 1, 2);
  a.payload().exchange(1, 9, over(x), over(got_a), {}, Seconds(1000));
  b.payload().exchange(0, 9, over(y), over(got_b), {}, Seconds(1000));
  EXPECT_EQ(nothing_more(b), "");
  cluster.mend(0, 1);
  EXPECT_EQ(next(b), "message 1 of 0");
  EXPECT_EQ(next(b), "message 2 of 0");
  EXPECT_EQ(next(b), "exchanged 9");
  EXPECT_EQ(next(a), "exchanged 9");
  EXPECT_EQ(got_a[0] + got_b[0], 3);
  EXPECT_EQ(nothing_more(a) + nothing_more(b), "");
}

TEST(LocalCluster, ALongCutIsADeathOnBothSidesAndAReturnWhenItIsMended) {
  LocalCluster cluster(3, Seconds(0.05));
  Group &a = cluster.group(0), &b = cluster.group(1), &c = cluster.group(2);
  std::vector<float> x{1}, got{0};
  a.payload().exchange(1, 9, over(x), over(got), {}, Seconds(1000));
  cluster.cut(0, 1);
  say(a, 1, 1);
  EXPECT_EQ(next(a), "failed 9");
  EXPECT_EQ(next(a), "dead 1");
  EXPECT_EQ(next(b), "dead 0");
  EXPECT_EQ(a.alive(), (std::vector<int>{0, 2}));
  EXPECT_EQ(c.alive(), (std::vector<int>{0, 1, 2}));
  say(a, 1, 2);
  cluster.mend(0, 1);
  EXPECT_EQ(next(a), "joined 1");
  EXPECT_EQ(next(b), "joined 0") << "and nothing of what was said before";
  say(a, 1, 3);
  EXPECT_EQ(next(b), "message 3 of 0");
  EXPECT_EQ(nothing_more(c), "");
}

TEST(LocalCluster, TwoHalvesGoOnAndGrowTogetherAgain) {
  LocalCluster cluster(4, Seconds(0.05));
  std::vector<std::unique_ptr<Membership>> m;
  for (int r = 0; r < 4; ++r) m.push_back(std::make_unique<Membership>(cluster.group(r), 1));
  for (int left : {0, 1})
    for (int right : {2, 3}) cluster.cut(left, right);
  EXPECT_EQ(sums({m[0].get(), m[1].get(), m[2].get(), m[3].get()}, {0, 1, 2, 3}),
            (Sums{{2, 1}, {2, 1}, {2, 5}, {2, 5}}));
  for (int left : {0, 1})
    for (int right : {2, 3}) cluster.mend(left, right);
  for (int r = 0; r < 4; ++r)
    for (const int other : {(r + 2) % 4, (r + 2) % 4 ^ 1})
      m[static_cast<std::size_t>(r)]->joined(other);
  EXPECT_EQ(sums({m[0].get(), m[1].get(), m[2].get(), m[3].get()}, {0, 1, 2, 3}), Sums(4, {4, 6}));
}

TEST(LocalCluster, OfTwoSidesThatWentOnTheLargerOneRemains) {
  LocalCluster cluster(5, Seconds(0.05));
  std::vector<std::unique_ptr<Membership>> m;
  for (int r = 0; r < 5; ++r)
    m.push_back(std::make_unique<Membership>(cluster.group(r), 1, Membership::Lost::is_out));
  for (int left : {0, 1})
    for (int right : {2, 3, 4}) cluster.cut(left, right);
  EXPECT_EQ(sums({m[0].get(), m[1].get(), m[2].get(), m[3].get(), m[4].get()}, {0, 1, 2, 3, 4}),
            (Sums{{2, 1}, {2, 1}, {3, 9}, {3, 9}, {3, 9}}));
  for (int left : {0, 1})
    for (int right : {2, 3, 4}) cluster.mend(left, right);
  const auto hear_all = [&](int r) {
    for (Event e = cluster.group(r).control().next(Seconds(0)); e.kind != Event::Kind::none;
         e = cluster.group(r).control().next(Seconds(0)))
      m[static_cast<std::size_t>(r)]->hear(e);
  };
  for (int r : {2, 3, 4}) EXPECT_NO_THROW(hear_all(r)) << r;
  for (int r : {0, 1}) {
    EXPECT_THAT(error_of([&] { hear_all(r); }),
                testing::ContainsRegex("worker [234] \\(of 3 that went on together\\) has given "
                                       "this worker up"));
    const auto nothing = [](Collectives&) {};
    EXPECT_THROW(m[static_cast<std::size_t>(r)]->run(nothing), DistError);
  }
  for (int r : {2, 3, 4}) EXPECT_NO_THROW(hear_all(r)) << r;
  EXPECT_EQ(sums({m[2].get(), m[3].get(), m[4].get()}, {2, 3, 4}), Sums(3, {3, 9}));
}

}  // namespace
}  // namespace gossamer::dist
