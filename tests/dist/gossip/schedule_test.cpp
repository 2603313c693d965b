// Exchanges from a list that all work out alone: the seeded schedule and the matching rounds.
// Oracle T24.
#include "gossamer/dist/gossip/schedule.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "dist/gossip/virtual_network.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/gossip/appointments.h"

namespace gossamer::dist {
namespace {

std::vector<bool> none(int n) { return std::vector<bool>(static_cast<std::size_t>(n), false); }

std::vector<ScheduledEvent> events_until(const Graph& g, double T, std::uint64_t seed,
                                         double rate = 1) {
  EventList list(g, none(g.n), rate, seed);
  std::vector<ScheduledEvent> out;
  for (ScheduledEvent e = list.next(); e.t < T; e = list.next()) out.push_back(e);
  return out;
}

TEST(Schedule, T24_AllWorkersDeriveTheSameEvents) {
  const Graph g = make_graph("exponential", 8);
  const auto all = events_until(g, 50, 7);
  std::vector<int> mentions(all.size(), 0);
  for (int i = 0; i < 8; ++i) {
    const auto agenda = make_seeded_agenda(i, 1, 7);
    EXPECT_TRUE(agenda->adopt(g, none(8)));
    for (Appointment a = agenda->next(); a.t < 50; a = agenda->next()) {
      const ScheduledEvent& e = all.at(a.key.number);
      EXPECT_EQ(a.t, e.t);
      EXPECT_TRUE((e.a == i && e.b == a.peer) || (e.b == i && e.a == a.peer));
      ++mentions[a.key.number];
    }
  }
  EXPECT_TRUE(std::ranges::all_of(mentions, [](int m) { return m == 2; }));
  EXPECT_NE(events_until(g, 50, 8).front().t, all.front().t) << "another seed is another list";
}

// Pearson's statistic of Poisson counts is about normal with mean k and variance 2k + k/mean for k
// edges; p > .001 is 3.1 deviations.
TEST(Schedule, T24_CountsOnEdgesArePoisson) {
  for (const char* name : {"ring", "exponential", "star"})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      const Graph g = make_graph(name, 16);
      const double T = 400;
      std::map<std::pair<int, int>, double> counts;
      for (const ScheduledEvent& e : events_until(g, T, seed)) ++counts[{e.a, e.b}];
      double chi2 = 0, variance = 0;
      for (const Edge& e : g.edges) {
        const double expected = e.rate * T, count = counts[{e.a, e.b}];
        chi2 += (count - expected) * (count - expected) / expected;
        variance += 2 + 1 / expected;
      }
      EXPECT_LT(std::abs(chi2 - static_cast<double>(g.edges.size())), 3.3 * std::sqrt(variance))
          << name << " seed " << seed;
    }
}

// Gaps Exp(total rate): of 20,000 gaps, the mean, and Kolmogorov's distance to the distribution (p
// > .001: 1.95/sqrt(N)).
TEST(Schedule, T24_GapsAreExponential) {
  const Graph g = make_graph("ring", 8);
  const auto events = events_until(g, 20000 / 4.0, 3);
  std::vector<double> u;
  for (std::size_t k = 1; k < events.size(); ++k)
    u.push_back(1 - std::exp(-4 * (events[k].t - events[k - 1].t)));
  std::ranges::sort(u);
  double distance = 0;
  for (std::size_t k = 0; k < u.size(); ++k)
    distance = std::max(
        distance, std::abs(u[k] - (static_cast<double>(k) + .5) / static_cast<double>(u.size())));
  EXPECT_LT(distance, 1.95 / std::sqrt(static_cast<double>(u.size())));
}

TEST(Schedule, ADeathStartsAnotherListAndAReturnTheFirstOneAgain) {
  const Graph g = make_graph("ring", 5);
  auto gone = none(5);
  const auto agenda = make_seeded_agenda(1, 1, 7);
  EXPECT_TRUE(agenda->adopt(g, gone));
  const Appointment first = agenda->next();
  EXPECT_FALSE(agenda->adopt(g, gone));
  EXPECT_GT(agenda->next().t, first.t) << "the same list goes on";
  gone[2] = true;
  EXPECT_TRUE(agenda->adopt(heal(g, gone), gone));
  EXPECT_NE(agenda->list(), 0u);
  for (int k = 0; k < 200; ++k) EXPECT_NE(agenda->next().peer, 2);
  gone[2] = false;
  EXPECT_TRUE(agenda->adopt(g, gone));
  EXPECT_EQ(agenda->next().t, first.t);
}

TEST(Rounds, MatchingsMeetOnceARoundAndGraphsWithoutAreRefused) {
  for (const char* name : {"ring", "exponential", "complete", "hypercube"}) {
    std::vector<std::unique_ptr<Agenda>> agendas;
    for (int i = 0; i < 8; ++i) {
      agendas.push_back(make_rounds_agenda(i, 1, make_graph(name, 8)));
      EXPECT_TRUE(agendas.back()->adopt({}, {}));
    }
    for (int k = 0; k < 12; ++k) {
      std::vector<int> partner;
      for (auto& agenda : agendas) {
        const Appointment a = agenda->next();
        EXPECT_EQ(a.t, k + 1);
        EXPECT_EQ(a.key.number, static_cast<std::uint32_t>(k));
        partner.push_back(a.peer);
      }
      for (int i = 0; i < 8; ++i)
        EXPECT_EQ(partner[static_cast<std::size_t>(partner[static_cast<std::size_t>(i)])], i)
            << name << " round " << k;
    }
  }
  EXPECT_THROW(make_rounds_agenda(0, 1, make_graph("star", 4)), ConfigError);
  EXPECT_THROW(make_rounds_agenda(0, 0, make_graph("ring", 4)), ConfigError);
}

VirtualNetwork::Make appointments(const std::string& mode, const Graph& g, double rate = 1) {
  return [=](int self) {
    return std::make_unique<AppointmentPolicy>(
        self, g.n,
        mode == "rounds" ? make_rounds_agenda(self, rate, g) : make_seeded_agenda(self, rate, 7));
  };
}
i64 missed(VirtualNetwork& net) {
  i64 sum = 0;
  for (auto& worker : net.w) sum += static_cast<const AppointmentPolicy&>(*worker.policy).missed();
  return sum;
}
void expect_symmetric(const VirtualNetwork& net) {
  for (std::size_t i = 0; i < net.w.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!net.w[i].dead && !net.w[j].dead) {
        EXPECT_LE(std::abs(net.together[i][j] - net.together[j][i]), 1) << i << "-" << j;
      }
  EXPECT_EQ(net.one_sided(), "");
}

class Appointments : public testing::TestWithParam<const char*> {};

TEST_P(Appointments, AreAllKeptByWorkersOfEqualSpeed) {
  for (const char* name : {"ring", "exponential"}) {
    const Graph g = make_graph(name, 8);
    VirtualNetwork net(g, appointments(GetParam(), g), std::vector<double>(8, .1), .005, 21);
    net.run(200);
    expect_symmetric(net);
    EXPECT_EQ(missed(net), 0);
    std::map<std::pair<int, int>, i64> expected;
    for (const ScheduledEvent& e : events_until(g, 1500, 7)) ++expected[{e.a, e.b}];
    for (int i = 0; i < 8; ++i) {
      const auto gradients = static_cast<double>(net.at(i).clock.count());
      EXPECT_GT(gradients, std::string(GetParam()) == "rounds" ? 1700 : 1200)
          << "training waits for partners, but not much";
      if (std::string(GetParam()) == "rounds") {
        EXPECT_NEAR(static_cast<double>(net.at(i).exchanges), gradients, 2) << "rate 1, exactly";
      } else {
        EXPECT_NEAR(static_cast<double>(net.at(i).exchanges) / gradients, 1, .1);
      }
    }
  }
}

TEST_P(Appointments, AStoppedWorkerIsSkippedOnBothSidesAndComesBackIn) {
  const Graph g = make_graph("ring", 6);
  VirtualNetwork net(g, appointments(GetParam(), g), std::vector<double>(6, .1), .005, 22);
  net.pause(2, 20, 10);
  net.run(31);
  i64 before = net.at(2).exchanges;
  for (const int i : {0, 1, 3, 4, 5}) {
    EXPECT_GT(net.at(i).clock.count(), 200) << "worker " << i << " was held up";
    EXPECT_LT(net.at(i).longest_wait, 1) << "worker " << i;
  }
  EXPECT_GT(missed(net), 0);
  net.run(60);
  expect_symmetric(net);
  EXPECT_GT(net.at(2).exchanges - before, 150) << "it skips to where the others are";
}

TEST_P(Appointments, AMuchSlowerWorkerIsLeftBehindButNotLeftOut) {
  const Graph g = make_graph("ring", 6);
  std::vector<double> speed(6, .1);
  speed[2] = 1;
  VirtualNetwork net(g, appointments(GetParam(), g), speed, .005, 23);
  net.run(100);
  expect_symmetric(net);
  EXPECT_GT(net.at(5).clock.count(), 350);
  EXPECT_GT(net.at(2).exchanges, net.at(2).clock.count() / 4);
}

TEST_P(Appointments, OfTheDeadAreDropped) {
  const Graph g = make_graph("ring", 6);
  VirtualNetwork net(g, appointments(GetParam(), g), std::vector<double>(6, .1), .005, 24);
  net.kill(2, 20), net.kill(4, 25);
  net.run(60);
  const i64 before = net.at(0).exchanges, lone = net.at(3).exchanges;
  net.run(80);
  expect_symmetric(net);
  EXPECT_GT(net.at(0).exchanges - before, 100);
  if (std::string(GetParam()) == "schedule") {
    EXPECT_GT(net.at(3).exchanges - lone, 100) << "the ring has closed around it";
  }
  for (const int i : {0, 1, 3, 5}) EXPECT_GT(net.at(i).clock.count(), 600) << i;
}

// Many small networks with everything at once: jitter beyond the patience, pauses, deaths. Nobody
// is ever alone in an exchange for long, and nobody stops training.
TEST_P(Appointments, SurviveEverythingAtOnce) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Graph g = make_graph(seed % 2 ? "ring" : "exponential", 5 + static_cast<int>(seed % 3));
    if (seed % 2 == 0 && g.n == 6 && std::string(GetParam()) == "rounds") continue;
    Rng random(seed, 5);
    VirtualNetwork net(g, appointments(GetParam(), g, seed % 3 ? 1 : 2.5),
                       std::vector<double>(static_cast<std::size_t>(g.n), .05), .02, seed, .7);
    for (int k = 0; k < 6; ++k)
      net.pause(static_cast<int>(random.below(static_cast<std::uint32_t>(g.n))),
                30 * random.uniform53(), 2 * random.uniform53());
    net.kill(static_cast<int>(random.below(static_cast<std::uint32_t>(g.n))), 15);
    net.run(40);
    EXPECT_EQ(net.one_sided(), "") << "seed " << seed;
    for (auto& worker : net.w) {
      if (worker.dead) continue;
      EXPECT_GT(worker.clock.count(), 100) << "seed " << seed;
      EXPECT_GT(worker.exchanges, 50) << "seed " << seed;
      EXPECT_LT(worker.longest_wait, 2.7) << "seed " << seed;  // a pause of its own included
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Pairing, Appointments, testing::Values("schedule", "rounds"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace gossamer::dist
