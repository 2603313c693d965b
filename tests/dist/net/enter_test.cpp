// Processes that join a job in places that were free.
#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include <gmock/gmock.h>

#include "dist/net/harness.h"
#include "dist/over.h"
#include "gossamer/dist/net/grant.h"
#include "support/error_of.h"

namespace gossamer::dist::testing {
namespace {

using ::testing::HasSubstr;

// The workers that a job begins with, each with a thread that keeps its group until the test ends.
class Job {
 public:
  Job(int started, int places, const JoinOptions& options = quick(),
      const dist::KeyPair* launcher = nullptr)
      : port(free_port()), options_(options) {
    std::vector<std::thread> threads;
    groups.resize(static_cast<std::size_t>(started));
    for (int r = 0; r < started; ++r) {
      LaunchInfo info = place(r, started, port);
      info.places = places;
      if (launcher) info.grant = new_identity(*launcher, static_cast<std::uint32_t>(r), 0);
      threads.emplace_back(
          [this, r, info] { groups[static_cast<std::size_t>(r)] = join(info, options_); });
    }
    for (auto& t : threads) t.join();
  }
  std::string seed() const { return "127.0.0.1:" + std::to_string(port); }
  Entry entry() const {
    LaunchInfo with;
    with.token = kToken;
    return enter(with, {seed()}, options_);
  }
  std::unique_ptr<Group> joined() const { return join(entry().place, options_); }

  const int port;
  std::vector<std::unique_ptr<Group>> groups;

 private:
  const JoinOptions options_;
};

// Whether this event of `peer` comes.
bool sees(Group& group, Event::Kind kind, int peer) {
  for (const double end = now_s() + 20; now_s() < end;)
    if (const Event e = group.control().next(Seconds(.2)); e.kind == kind && e.peer == peer)
      return true;
  return false;
}

void expect_exchange(Group& a, Group& b) {
  std::vector<float> x(1000, 1), y(1000, 2), at_a(1000), at_b(1000);
  a.payload().exchange(b.rank(), 9, over(x), over(at_a), {}, Seconds(20));
  b.payload().exchange(a.rank(), 9, over(y), over(at_b), {}, Seconds(20));
  EXPECT_TRUE(sees(a, Event::Kind::exchanged, b.rank()));
  EXPECT_TRUE(sees(b, Event::Kind::exchanged, a.rank()));
  EXPECT_EQ(at_a, y);
  EXPECT_EQ(at_b, x);
}

void expect_collective(const std::vector<Group*>& groups) {
  std::vector<int> ranks;
  for (Group* g : groups) ranks.push_back(g->rank());
  std::sort(ranks.begin(), ranks.end());
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (Group* g : groups)
    threads.emplace_back([&, g] {
      try {
        g->rebuild(ranks, 0);
        std::vector<double> one{1};
        g->collectives().all_reduce_sum(std::span<double>(one));
        good += one[0] == static_cast<double>(ranks.size());
        g->collectives().barrier();
      } catch (const std::exception& error) {
        ADD_FAILURE() << "worker " << g->rank() << ": " << error.what();
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(good, std::ssize(groups));
}

class Enter : public ::testing::TestWithParam<const char*> {
 protected:
  static JoinOptions options() {
    JoinOptions o = quick();
    o.tls = GetParam();
    o.about = "settings of the job";
    return o;
  }
};

TEST_P(Enter, AProcessTakesAFreePlaceAndMeetsAll) {
  Job job(2, 4, options());
  const Entry entry = job.entry();
  EXPECT_EQ(entry.about, "settings of the job");
  EXPECT_EQ(entry.place.size, 2);
  EXPECT_EQ(entry.place.places, 4);
  EXPECT_EQ(entry.place.seeds.size(), 2u);
  const auto third = join(entry.place, options());
  EXPECT_TRUE(third->rank() == 2 || third->rank() == 3);
  EXPECT_EQ(third->size(), 4);
  EXPECT_EQ(third->started(), 2);
  EXPECT_EQ(third->alive(), (std::vector{0, 1, third->rank()}));
  for (const auto& g : job.groups) {
    EXPECT_TRUE(sees(*g, Event::Kind::joined, third->rank()));
    EXPECT_EQ(g->arrivals(third->rank()), 1u);
    expect_exchange(*g, *third);
  }
  expect_collective({job.groups[0].get(), job.groups[1].get(), third.get()});
}

TEST_P(Enter, WhoLeavesMakesRoom) {
  Job job(2, 3, options());
  for (int time = 0; time < 3; ++time) {
    const auto third = job.joined();
    EXPECT_EQ(third->rank(), 2);
    for (const auto& g : job.groups) EXPECT_TRUE(sees(*g, Event::Kind::joined, 2));
    EXPECT_THAT(error_of([&] { (void)job.entry(); }), HasSubstr("3 places, and all are taken"));
  }
}

TEST_P(Enter, ManyComeAtOnceToOne) {
  Job job(1, 6, options());
  std::vector<std::unique_ptr<Group>> come(5);
  std::vector<std::thread> threads;
  for (auto& group : come)
    threads.emplace_back([&] {
      while (!group) try {
          group = job.joined();
        } catch (const PlaceTaken&) {
        }
    });
  for (auto& t : threads) t.join();
  std::set<int> ranks;
  for (const auto& g : come) ranks.insert(g->rank());
  EXPECT_EQ(ranks, (std::set{1, 2, 3, 4, 5}));
  std::vector<Group*> all{job.groups[0].get()};
  for (const auto& g : come) all.push_back(g.get());
  for (const double end = now_s() + 20; now_s() < end;) {
    bool complete = true;
    for (const Group* g : all) complete &= g->alive().size() == 6;
    if (complete) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  expect_collective(all);
}

TEST_P(Enter, OfTwoThatTakeOnePlaceOneIsToldToAskAgain) {
  Job job(2, 3, options());
  const Entry entry = job.entry();
  const auto first = join(entry.place, options());
  EXPECT_THROW((void)join(entry.place, options()), PlaceTaken);
  EXPECT_EQ(first->alive(), (std::vector{0, 1, 2}));
  expect_collective({job.groups[0].get(), job.groups[1].get(), first.get()});
}

INSTANTIATE_TEST_SUITE_P(Links, Enter, ::testing::Values("off", "on"));

TEST(EnterLaunched, WhoJoinsNeedsNoGrantOfTheLauncher) {
  const KeyPair launcher = new_key_pair();
  JoinOptions o = quick();
  o.tls = "on";
  Job job(2, 3, o, &launcher);
  const auto third = job.joined();
  EXPECT_TRUE(sees(*job.groups[1], Event::Kind::joined, 2));
  expect_exchange(*job.groups[1], *third);
}

TEST(EnterLaunched, ButNobodyTakesAPlaceOfTheLaunchers) {
  const KeyPair launcher = new_key_pair();
  JoinOptions o = quick();
  o.tls = "on";
  Job job(2, 3, o, &launcher);
  job.groups[1].reset();
  ASSERT_TRUE(sees(*job.groups[0], Event::Kind::dead, 1));
  Entry entry = job.entry();
  EXPECT_EQ(entry.place.rank, 2);
  entry.place.rank = 1;
  o.connect_timeout_s = 2;
  EXPECT_THAT(error_of([&] { (void)join(entry.place, o); }), HasSubstr("was started again"));
}

TEST(EnterRefused, AJobWithoutFreePlacesSaysSo) {
  Job job(2, 2);
  EXPECT_THAT(error_of([&] { (void)job.entry(); }), HasSubstr("no places for workers that join"));
}

TEST(EnterRefused, AnotherTokenIsNotLetIn) {
  Job job(2, 3);
  LaunchInfo with;
  with.token = "ffeeddccbbaa99887766554433221100";
  JoinOptions o = quick();
  o.connect_timeout_s = 3600;  // it is told sooner
  EXPECT_THAT(error_of([&] { (void)enter(with, {job.seed()}, o); }), HasSubstr("token"));
  EXPECT_THAT(error_of([&] { (void)enter(with, {"nowhere"}, o); }), HasSubstr("host:port"));
  EXPECT_THAT(error_of([&] { (void)enter(with, {}, o); }), HasSubstr("give host:port"));
}

TEST(EnterRefused, WhoComesBeforeTheWorkersHaveMetWaits) {
  const int port = free_port();
  std::vector<std::unique_ptr<Group>> groups(2);
  const auto member = [&](int r) {
    LaunchInfo info = place(r, 2, port);
    info.places = 3;
    groups[static_cast<std::size_t>(r)] = join(info, quick());
  };
  std::thread zero([&] { member(0); });
  Entry entry;
  std::atomic<bool> found{false};
  std::thread third([&] {
    LaunchInfo with;
    with.token = kToken;
    entry = enter(with, {"127.0.0.1:" + std::to_string(port)}, quick());
    found = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(found);
  member(1);
  third.join();
  zero.join();
  EXPECT_EQ(join(entry.place, quick())->rank(), 2);
}

}  // namespace
}  // namespace gossamer::dist::testing
