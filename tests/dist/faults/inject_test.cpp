// Faults on purpose: the grammar, the deadlines that notice them, and the disturbed links.
#include <algorithm>

#include <gmock/gmock.h>

#include "dist/over.h"
#include "dist/workers.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/faults/injector.h"
#include "gossamer/dist/gossip/deadline.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {

using Kind = Injection::Kind;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Inject, TheIssuesExampleIsUnderstood) {
  const auto all = parse_injections(
      "kill:rank=2@step=300,stop:rank=1:5s,slow:rank=1:x3,drop:edge=0-1:p=0.1,delay:edge=0-1:50ms,"
      "partition:0,1|2,3:10s");
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[0].kind, Kind::kill);
  EXPECT_EQ(all[0].rank, 2);
  EXPECT_EQ(all[0].at_step, 300);
  EXPECT_EQ(all[1].kind, Kind::stop);
  EXPECT_EQ(all[1].seconds, 5);
  EXPECT_EQ(all[2].kind, Kind::slow);
  EXPECT_EQ(all[2].factor, 3);
  EXPECT_EQ(all[3].kind, Kind::drop);
  EXPECT_EQ(all[3].probability, .1);
  EXPECT_EQ(all[4].kind, Kind::delay);
  EXPECT_DOUBLE_EQ(all[4].seconds, .05);
  EXPECT_EQ(all[5].kind, Kind::partition);
  EXPECT_EQ(all[5].seconds, 10);
  ASSERT_EQ(all[5].sides.size(), 2u);
  EXPECT_THAT(all[5].sides[0], ElementsAre(0, 1));
  EXPECT_THAT(all[5].sides[1], ElementsAre(2, 3));
}

TEST(Inject, APartitionsCommasDoNotEndTheItem) {
  const auto all =
      parse_injections("partition:0|1,2|3,4,5:500ms@t=2.5s,kill:rank=0@t=1 , restart:rank=0@t=4");
  ASSERT_EQ(all.size(), 3u);
  ASSERT_EQ(all[0].sides.size(), 3u);
  EXPECT_THAT(all[0].sides[2], ElementsAre(3, 4, 5));
  EXPECT_EQ(all[0].at_s, 2.5);
  EXPECT_TRUE(all[0].between(0, 1));
  EXPECT_TRUE(all[0].between(5, 2));
  EXPECT_FALSE(all[0].between(1, 2));
  EXPECT_FALSE(all[0].between(1, 6));
  EXPECT_EQ(all[2].kind, Kind::restart);
  EXPECT_TRUE(parse_injections("").empty());
}

TEST(Inject, TextOfAnItemParsesToTheSameItem) {
  for (const std::string text :
       {"kill:rank=2@step=300", "stop:rank=1:5s@t=0.25", "slow:rank=1:x2.5",
        "drop:edge=0-1:p=0.1@step=7", "delay:edge=3-11:0.05s", "partition:0,1|2,3|4:10s@t=3",
        "restart:rank=2@t=40", "attack:rank=3:alie", "attack:rank=0:sign-flip@step=7"}) {
    const auto parsed = parse_injections(text);
    ASSERT_EQ(parsed.size(), 1u) << text;
    EXPECT_EQ(to_text(parsed[0]), text);
  }
  EXPECT_EQ(to_text(parse_injections("attack:3:dissensus").at(0)), "attack:rank=3:dissensus");
  EXPECT_EQ(to_text(parse_injections("delay:edge=9-3:50ms").at(0)), "delay:edge=3-9:0.05s");
}

TEST(Inject, ErrorsNameThePlaceAndWhatIsExpected) {
  const auto says = [](const std::string& text, const std::string& place, const std::string& why) {
    try {
      parse_injections(text);
      ADD_FAILURE() << "\"" << text << "\" was accepted";
    } catch (const ConfigError& e) {
      EXPECT_THAT(e.what(), testing::AllOf(HasSubstr(place), HasSubstr(why))) << text;
    }
  };
  says("kil:rank=2", "character 1 (\"kil:rank=2\")", "known are kill, stop");
  says("kill:rank=2,slow:rank=1:3", "character 24 (\":3\")", "\":x\" is expected");
  says("kill:rnk=2", "character 6", "\"rank=\" is expected");
  says("stop:rank=1:5", "character 14 (the end)", "unit is missing");
  says("stop:rank=1", "character 12", "a time like 5s");
  says("drop:edge=0-1:p=1.5", "character 17", "out of range");
  says("drop:edge=1-1:p=.5", "character 11", "two different workers");
  says("partition:0,1:10s", "character 11", "two sides");
  says("partition:0,1|1,2:10s", "character 15", "two sides");
  says("partition:0,1|:10s", "character 15", "number of a worker");
  says("kill:rank=2@when=3", "character 13", "step=N or t=SECONDS");
  says("kill:rank=2@step=3,", "character 20 (the end)", "after the comma");
  says("kill:rank=2 slow:rank=1:x2", "character 13", "\",\" is expected");
  says("attack:3:lies", "character 10 (\"lies\")", "known attacks are dissensus, sign-flip");
  says("attack:3:label-flip@t=3", "character 1", "give label-flip no time");
  says("kill:rank=-1", "character 11", "no number of a worker");
  says("restart:rank=2@step=3", "character 1", "t=SECONDS");
  says("slow:rank=1:x0.5", "character 14", "out of range; wanted is a factor of 1 or more");
  says("slow:rank=1:xnan", "character 14", "out of range");
  says("delay:edge=0-1:infs", "character 16", "out of range");
  EXPECT_THROW(validate(parse_injections("partition:0,1|2,9:10s"), 4), ConfigError);
  EXPECT_THROW(validate(parse_injections("drop:edge=0-4:p=0"), 4), ConfigError);
  EXPECT_NO_THROW(validate(parse_injections("drop:edge=0-3:p=0,kill:rank=3"), 4));
}

// --- deadlines

TEST(Deadline, IsTheUpperBoundUntilEnoughWasSeen) {
  AdaptiveDeadline d(.1, 20);
  for (int i = 0; i < 4; ++i) d.took(.01);
  EXPECT_EQ(d.limit(), 20);
  d.took(.01);
  EXPECT_LT(d.limit(), 1);
}

TEST(Deadline, IsTheMedianAndManyDeviations) {
  AdaptiveDeadline d(.001, 100, 0, 3);
  // median 3, deviations 2 0 1 3 1: MAD 1
  for (const double s : {1.0, 3.0, 2.0, 6.0, 4.0}) d.took(s);
  EXPECT_NEAR(d.limit(), 3 + 3 * 1.4826, 1e-12);
}

TEST(Deadline, AFewDisturbedTransfersDoNotMoveIt) {
  AdaptiveDeadline calm(.001, 100), disturbed(.001, 100);
  for (int i = 0; i < 30; ++i) {
    const double s = .02 + .001 * (i % 5);
    calm.took(s);
    disturbed.took(i % 6 == 0 ? 19 : s);
  }
  EXPECT_LT(disturbed.limit(), 2 * calm.limit());
}

TEST(Deadline, MayBeginLow) {
  AdaptiveDeadline d(.2, 2, .2);
  EXPECT_EQ(d.limit(), .2);
  d.missed();
  EXPECT_EQ(d.limit(), .4);
}

TEST(Deadline, StaysInItsBounds) {
  AdaptiveDeadline d(.5, 2);
  for (int i = 0; i < 10; ++i) d.took(1e-4);
  EXPECT_EQ(d.limit(), .5);
  for (int i = 0; i < 40; ++i) d.took(10);
  EXPECT_EQ(d.limit(), 2);
  EXPECT_THROW(AdaptiveDeadline(0, 1), ConfigError);
  EXPECT_THROW(AdaptiveDeadline(2, 1), ConfigError);
}

TEST(Deadline, ALinkThatHasBecomeSlowIsGivenMoreTimeUntilATransferComesThrough) {
  AdaptiveDeadline d(.001, 20);
  for (int i = 0; i < 40; ++i) d.took(.02);
  const double before = d.limit();
  int misses = 0;
  while (d.limit() < 1) {
    d.missed();
    ASSERT_LT(++misses, 10);
  }
  EXPECT_GE(d.limit(), 4 * before);
  d.took(1);
  EXPECT_EQ(d.limit(), before);  // one was slow …
  for (int i = 0; i < 33; ++i) d.took(1);
  EXPECT_GT(d.limit(), 1);  // … now all are
}

// --- the injector

TEST(Injector, KillsAndStopsAtTheirSteps) {
  std::vector<std::string> said;
  int killed = 0;
  double stopped = 0;
  Injector injector(parse_injections("kill:rank=1@step=7,stop:rank=1:5s@step=3,kill:rank=0@step=1"),
                    1,
                    {[&] { ++killed; }, [&](double s) { stopped += s; },
                     [&](const std::string& what) { said.push_back(what); }});
  injector.before_step(9);  // not started: nothing happens
  EXPECT_TRUE(said.empty());
  injector.start();
  for (i64 step = 0; step < 10; ++step) {
    injector.before_step(step);
    EXPECT_EQ(stopped, step < 3 ? 0 : 5);
    EXPECT_EQ(killed, step < 7 ? 0 : 1);
    injector.after_step();
  }
  EXPECT_THAT(said, ElementsAre("stop:rank=1:5s@step=3", "kill:rank=1@step=7"));
}

TEST(Injector, ATimedKillHappensBesideTheTraining) {
  std::atomic<bool> killed = false;
  Injector injector(parse_injections("kill:rank=0@t=0.05"), 0, {[&] { killed = true; }, {}, {}});
  injector.start();
  for (int i = 0; i < 2000 && !killed; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(killed);
}

TEST(Injector, SlowStretchesTheWorkersOwnTimeOnly) {
  Injector injector(parse_injections("slow:rank=0:x3@step=2"), 0, {});
  injector.start();
  double slept[4];
  for (i64 step = 0; step < 4; ++step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the gradient
    const double began = wall_seconds();
    injector.before_step(step);
    slept[step] = wall_seconds() - began;
    std::this_thread::sleep_for(std::chrono::milliseconds(60));  // the others
    injector.after_step();
  }
  EXPECT_GE(slept[2], .04);
  EXPECT_GE(slept[3], .04);
  EXPECT_LT(std::min(slept[0], slept[1]), slept[2]);
}

TEST(Injector, AStoppedRunDoesNotWaitForASlowWorker) {
  Injector injector(parse_injections("slow:rank=0:x1e6"), 0, {});
  injector.start();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // 5,000 s to sleep
  int asked = 0;
  injector.before_step(0, [&] { return ++asked == 3; });
  EXPECT_EQ(asked, 3);
}

TEST(Injector, AWorkerThatWasStartedAgainIsNotKilledAgain) {
  int killed = 0;
  Injector injector(
      parse_injections("kill:rank=0@step=1,delay:edge=0-1:1s,drop:edge=0-1:p=0.5@t=3"), 0,
      {[&] { ++killed; }, {}, {}}, true);
  injector.start();
  for (i64 step = 0; step < 3; ++step) injector.before_step(step);
  EXPECT_EQ(killed, 0);
  EXPECT_EQ(injector.delay(1), 1);
}

// --- disturbed links

Message numbered(std::uint32_t nonce, MessageType type = MessageType::avail) {
  return {.type = type, .epoch = 0, .nonce = nonce};
}

// Everything that comes within `s` seconds, in order; messages as their nonces, deaths as 1000,
// joined as 2000, exchanges as 3000 + ok.
std::vector<int> events(Group& group, double s) {
  std::vector<int> out;
  for (const double until = wall_seconds() + s; wall_seconds() < until;) {
    const Event e = group.control().next(Seconds(until - wall_seconds()));
    if (e.kind == Event::Kind::message) out.push_back(static_cast<int>(e.message.nonce));
    if (e.kind == Event::Kind::dead) out.push_back(1000);
    if (e.kind == Event::Kind::joined) out.push_back(2000);
    if (e.kind == Event::Kind::exchanged) out.push_back(3000 + e.ok);
  }
  return out;
}

std::vector<int> first_events(Group& group, std::size_t count) {
  std::vector<int> out;
  for (const double until = wall_seconds() + 30; out.size() < count && wall_seconds() < until;)
    for (const int e : events(group, .01)) out.push_back(e);
  return out;
}

// All up to the event `last`.
std::vector<int> events_until(Group& group, int last) {
  std::vector<int> out;
  for (const double until = wall_seconds() + 30;
       (out.empty() || out.back() != last) && wall_seconds() < until;)
    for (const int e : first_events(group, 1)) out.push_back(e);
  return out;
}

// Two workers of a cluster whose links are disturbed.
struct Pair {
  explicit Pair(const std::string& faults, double dead_after = .1)
      : Pair(faults, faults, dead_after) {}
  Pair(const std::string& at_first, const std::string& at_second, double dead_after)
      : cluster(2),
        first(parse_injections(at_first), 0, {}),
        second(parse_injections(at_second), 1, {}),
        a(disturbed(cluster.group(0), first, 3, Seconds(dead_after))),
        b(disturbed(cluster.group(1), second, 3, Seconds(dead_after))) {
    first.start();
    second.start();
  }
  LocalCluster cluster;
  Injector first, second;
  std::unique_ptr<Group> a, b;
};

TEST(Disturbed, WithoutFaultsEverythingPasses) {
  Pair p("slow:rank=0:x2");
  for (std::uint32_t i = 1; i <= 3; ++i) p.a->control().send(1, numbered(i));
  EXPECT_THAT(first_events(*p.b, 3), ElementsAre(1, 2, 3));
  std::vector<float> x = {1, 2}, y = {3, 4}, at_a(2), at_b(2);
  p.a->payload().exchange(1, 7, over(x), over(at_a), {}, Seconds(5));
  p.b->payload().exchange(0, 7, over(y), over(at_b), {}, Seconds(5));
  EXPECT_THAT(first_events(*p.a, 1), ElementsAre(3001));
  EXPECT_THAT(at_a, ElementsAre(3, 4));
}

TEST(Disturbed, DropLosesItsShareOfPairingMessagesAndNothingElse) {
  Pair p("drop:edge=0-1:p=0.25");
  for (std::uint32_t i = 1; i <= 400; ++i) p.a->control().send(1, numbered(i));
  for (std::uint32_t i = 501; i <= 510; ++i)
    p.a->control().send(1, numbered(i, MessageType::stopped));
  const std::vector<int> came = events_until(*p.b, 510);
  EXPECT_TRUE(std::ranges::is_sorted(came));
  EXPECT_EQ(std::ranges::count_if(came, [](int n) { return n > 500; }), 10);
  const auto passed = std::ranges::count_if(came, [](int n) { return n <= 400; });
  EXPECT_GT(passed, 260);  // 300 expected, standard deviation 8.7
  EXPECT_LT(passed, 340);
}

TEST(Disturbed, ALostExchangeFailsOnBothSides) {
  Pair p("drop:edge=0-1:p=0.5");
  std::vector<float> x(2), y(2), at_a(2), at_b(2);
  int failed = 0;
  for (std::uint64_t session = 1; session <= 40; ++session) {
    p.a->payload().exchange(1, session, over(x), over(at_a), {}, Seconds(5));
    p.b->payload().exchange(0, session, over(y), over(at_b), {}, Seconds(5));
    const Event at_first = p.a->control().next(Seconds(5)),
                at_second = p.b->control().next(Seconds(5));
    EXPECT_EQ(at_first.ok, at_second.ok) << session;
    EXPECT_EQ(at_first.kind, Event::Kind::exchanged);
    failed += !at_first.ok;
  }
  EXPECT_GT(failed, 8);
  EXPECT_LT(failed, 32);
}

TEST(Disturbed, DelayIsLateInOrderAndLosesNothing) {
  Pair p("delay:edge=0-1:60ms");
  const double began = wall_seconds();
  for (std::uint32_t i = 1; i <= 5; ++i) p.a->control().send(1, numbered(i));
  const Event first = p.b->control().next(Seconds(5));
  EXPECT_GE(wall_seconds() - began, .06);
  EXPECT_EQ(first.message.nonce, 1u);
  EXPECT_THAT(first_events(*p.b, 4), ElementsAre(2, 3, 4, 5));
}

TEST(Disturbed, APartitionLooksLikeADeathAndAReturn) {
  Pair p("partition:0|1:2s", .1);
  p.a->control().send(1, numbered(1));
  std::vector<float> x(2), at_a(2);
  p.a->payload().exchange(1, 7, over(x), over(at_a), {}, Seconds(5));
  EXPECT_THAT(first_events(*p.a, 2), ElementsAre(3000, 1000));
  EXPECT_FALSE(p.a->control().alive(1));
  EXPECT_THAT(p.a->alive(), ElementsAre(0));
  EXPECT_EQ(p.a->arrivals(1), 1u);
  EXPECT_THAT(first_events(*p.a, 1), ElementsAre(2000));
  EXPECT_THAT(p.a->alive(), ElementsAre(0, 1));
  EXPECT_EQ(p.a->arrivals(1), 2u);
  p.a->control().send(1, numbered(2));
  // who did not listen meanwhile noticed nothing; words of the cut are lost
  EXPECT_THAT(first_events(*p.b, 1), ElementsAre(2));
}

// As TCP would: a cut that ends before the other is given up costs time and nothing else. On which
// side it is noticed makes no difference.
TEST(Disturbed, AShortCutHoldsBackAndLosesNothing) {
  const std::string cut = "partition:0|1:400ms", none;
  for (const auto& [at_first, at_second] : {std::pair(cut, cut), {cut, none}, {none, cut}}) {
    SCOPED_TRACE(at_first + " / " + at_second);
    Pair p(at_first, at_second, 30);
    std::vector<float> x = {1, 2}, y = {3, 4}, at_a(2), at_b(2);
    for (std::uint32_t i = 1; i <= 5; ++i)
      p.a->control().send(1, numbered(i, i == 3 ? MessageType::stopped : MessageType::avail));
    p.a->payload().exchange(1, 7, over(x), over(at_a), {}, Seconds(20));
    p.b->payload().exchange(0, 7, over(y), over(at_b), {}, Seconds(20));
    std::vector<int> of_a;
    std::thread other([&] { of_a = first_events(*p.a, 1); });
    std::vector<int> of_b = first_events(*p.b, 6);
    // the clock that the cut is on
    EXPECT_GE((at_first.empty() ? p.second : p.first).now(), .39);
    other.join();
    EXPECT_THAT(of_a, ElementsAre(3001));
    EXPECT_EQ(std::erase(of_b, 3001), 1u);
    EXPECT_THAT(of_b, ElementsAre(1, 2, 3, 4, 5));
    EXPECT_THAT(at_b, ElementsAre(1, 2));
    p.a->control().send(1, numbered(6));
    EXPECT_THAT(first_events(*p.b, 1), ElementsAre(6));
    EXPECT_EQ(p.a->arrivals(1), 1u);
  }
}

// A worker in a collective does not read, and the others may wait for what it has said.
TEST(Disturbed, WhatACutHeldBackIsSentByAWorkerThatReadsNothing) {
  Pair p("partition:0|1:100ms", "", 30);
  p.a->control().send(1, numbered(1));
  p.a->control().send(1, numbered(2));
  EXPECT_THAT(first_events(*p.b, 2), ElementsAre(1, 2));
  EXPECT_GE(p.first.now(), .09);
}

TEST(Disturbed, AnExchangeWaitsForTheEndOfACutNoLongerThanItsDeadline) {
  Pair p("partition:0|1:60s", 50);
  std::vector<float> x(2), at_a(2);
  p.a->payload().exchange(1, 7, over(x), over(at_a), {}, Seconds(.1));
  EXPECT_THAT(first_events(*p.a, 1), ElementsAre(3000));
  p.a->payload().exchange(1, 8, over(x), over(at_a), {}, Seconds(40));
  p.a->payload().abort(1);
  EXPECT_THAT(first_events(*p.a, 1), ElementsAre(3000));
}

TEST(Disturbed, TheEndOfALateExchangeIsSaidEvenIfTheOtherDiesMeanwhile) {
  Pair p("delay:edge=0-1:300ms");
  p.cluster.group(0).control().post({.kind = Event::Kind::exchanged,
                                     .peer = 1,
                                     .message = {},
                                     .ok = true,
                                     .session = 7,
                                     .why = {}});
  (void)p.a->control().next(Seconds(0));
  p.cluster.kill(1);
  EXPECT_THAT(first_events(*p.a, 2), testing::UnorderedElementsAre(1000, 3001));
}

TEST(Disturbed, ADeathDuringAPartitionIsSaidOnce) {
  Pair p("partition:0|1:2s", .05);
  EXPECT_THAT(first_events(*p.a, 1), ElementsAre(1000));
  p.cluster.kill(1);
  EXPECT_TRUE(events(*p.a, 2.7).empty());
  EXPECT_FALSE(p.a->control().alive(1));
}

}  // namespace
}  // namespace gossamer::dist
