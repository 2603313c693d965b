// Pairwise exchanges over edges of both kinds: values, re-use, failure and repair of an edge.
#include <algorithm>
#include <numeric>
#include <thread>

#include "dist/net/harness.h"
#include "dist/over.h"

namespace gossamer::dist::testing {
namespace {

std::vector<std::string> none(int n) {
  return std::vector<std::string>(static_cast<std::size_t>(n));
}

Event await(Group& g, Event::Kind kind, double seconds = 15) {
  const double until = now_s() + seconds;
  while (now_s() < until) {
    Event e = g.control().next(Seconds(until - now_s()));
    if (e.kind == kind) return e;
  }
  fail("no event of the kind ", static_cast<int>(kind), " within ", seconds, " s");
}

// Every value names its sender, its place and its session.
float value(int rank, std::size_t i, std::uint64_t session) {
  return static_cast<float>(rank * 1000000 + static_cast<int>(i % 1000) * 1000 +
                            static_cast<int>(session % 1000));
}

void exchange_once(Group& g, int peer, std::uint64_t session, std::size_t n) {
  std::vector<float> send(n), receive(n, -1);
  for (std::size_t i = 0; i < n; ++i) send[i] = value(g.rank(), i, session);
  g.payload().exchange(peer, session, over(send), over(receive), {}, Seconds(15));
  const Event e = await(g, Event::Kind::exchanged);
  if (!e.ok || e.peer != peer) fail("exchange with ", peer, " failed: ", e.why);
  for (std::size_t i = 0; i < n; ++i) {
    if (receive[i] != value(peer, i, session))
      fail("value ", i, " of session ", session, " from ", peer, " is ", receive[i]);
    if (send[i] != value(g.rank(), i, session)) fail("the sent values were changed");
  }
}

// Over memory, over TCP, and over TCP with encryption.
class Exchange : public ::testing::TestWithParam<const char*> {
 protected:
  static std::vector<std::string> with_groups(int n, const std::function<void(Group&)>& body) {
    JoinOptions options = quick();
    options.read_memory = *GetParam() == 'm';
    options.tls = *GetParam() == 'e' ? "on" : "off";
    return on_threads(n, body, options);
  }
};
INSTANTIATE_TEST_SUITE_P(All, Exchange, ::testing::Values("memory", "tcp", "encrypted"),
                         [](const auto& kind) { return kind.param; });

TEST_P(Exchange, BothSidesGetWhatTheOtherSent) {
  EXPECT_EQ(with_groups(2,
                        [](Group& g) {
                          std::uint64_t session = 0x100000001ull;
                          for (std::size_t n : {std::size_t{1}, std::size_t{17}, std::size_t{4096},
                                                std::size_t{2500000}, std::size_t{5}}) {
                            exchange_once(g, 1 - g.rank(), session++, n);
                          }
                          g.collectives().barrier();
                        }),
            none(2));
}

TEST_P(Exchange, ARingOfThreeTakesTurns) {
  EXPECT_EQ(with_groups(3,
                        [](Group& g) {
                          for (int round = 0; round < 30; ++round) {
                            const int out = round % 3, a = (out + 1) % 3, b = (out + 2) % 3;
                            if (g.rank() != out)
                              exchange_once(g, g.rank() == a ? b : a,
                                            static_cast<std::uint64_t>(round), 20000);
                          }
                          g.collectives().barrier();
                        }),
            none(3));
}

TEST_P(Exchange, MeetsWhenOneSideComesLater) {
  EXPECT_EQ(with_groups(2,
                        [](Group& g) {
                          for (int late = 0; late < 2; ++late) {
                            if (g.rank() == late)
                              std::this_thread::sleep_for(std::chrono::milliseconds(150));
                            exchange_once(g, 1 - g.rank(), static_cast<std::uint64_t>(late), 10000);
                          }
                          g.collectives().barrier();
                        }),
            none(2));
}

TEST_P(Exchange, AnAbortEndsItAtOnceAndTheEdgeHeals) {
  EXPECT_EQ(with_groups(2,
                        [](Group& g) {
                          const int peer = 1 - g.rank();
                          exchange_once(g, peer, 1, 1000);
                          g.collectives().barrier();
                          std::vector<float> send(100000, 1), receive(100000);
                          if (g.rank() == 0) {  // rank 1 does not come to session 2
                            const double start = now_s();
                            g.payload().exchange(peer, 2, over(send), over(receive), {},
                                                 Seconds(15));
                            std::this_thread::sleep_for(std::chrono::milliseconds(100));
                            g.payload().abort(peer);
                            const Event e = await(g, Event::Kind::exchanged);
                            if (e.ok) fail("an aborted exchange says that it is whole");
                            if (now_s() - start > 5) fail("the abort took ", now_s() - start, " s");
                            g.control().send(peer, {});
                          } else {
                            // As in the pairing: the next exchange is arranged over the control
                            // link, behind the notice of the failure.
                            (void)await(g, Event::Kind::message);
                          }
                          g.collectives().barrier();
                          exchange_once(g, peer, 3, 1000);
                          exchange_once(g, peer, 4, 1000);
                          g.collectives().barrier();
                        }),
            none(2));
}

TEST_P(Exchange, AFailureOnOneSideEndsTheOtherSideToo) {
  EXPECT_EQ(with_groups(
                2,
                [](Group& g) {
                  const int peer = 1 - g.rank();
                  exchange_once(g, peer, 1, 1000);
                  std::vector<float> send(1000, 1), receive(1000), more(2000, 1),
                      more_received(2000);
                  const double start = now_s();
                  // They disagree about the length; rank 0 loses patience first.
                  if (g.rank() == 0)
                    g.payload().exchange(peer, 2, over(send), over(receive), {}, Seconds(0.5));
                  else
                    g.payload().exchange(peer, 2, over(more), over(more_received), {}, Seconds(60));
                  const Event e = await(g, Event::Kind::exchanged);
                  if (e.ok) fail("exchange of different lengths says that it is whole");
                  if (now_s() - start > 10) fail("took ", now_s() - start, " s");
                  exchange_once(g, peer, 3, 1000);
                  g.collectives().barrier();
                }),
            none(2));
}

// Who gives up may overwrite its tensor at once. The other side then has all of the old values, or
// an exchange that failed.
TEST_P(Exchange, WhatIsGivenUpIsNeverHalfOld) {
  EXPECT_EQ(with_groups(2,
                        [](Group& g) {
                          const int peer = 1 - g.rank();
                          std::vector<float> values(3000000);
                          for (std::uint64_t trial = 1; trial <= 60; ++trial) {
                            const auto fresh = static_cast<float>(trial);
                            std::ranges::fill(values, g.rank() == 0 ? fresh : -1);
                            g.collectives().barrier();
                            if (g.rank() == 0) {
                              g.payload().exchange(peer, trial, over(values), {}, {}, Seconds(15));
                              std::this_thread::sleep_for(std::chrono::microseconds(40 * trial));
                              g.payload().abort(peer);
                              if (!await(g, Event::Kind::exchanged).ok)
                                std::ranges::fill(values, -2);
                              g.control().send(peer, {});  // behind the notice of the failure
                            } else {
                              g.payload().exchange(peer, trial, {}, over(values), {}, Seconds(15));
                              bool told = false, ended = false, ok = false;
                              while (!told || !ended) {
                                const Event e = g.control().next(Seconds(15));
                                if (e.kind == Event::Kind::none) fail("no end of trial ", trial);
                                told = told || e.kind == Event::Kind::message;
                                if (e.kind != Event::Kind::exchanged) continue;
                                ended = true, ok = e.ok;
                              }
                              for (const float v : values)
                                if (ok && v != fresh) fail("got ", v, " in exchange ", fresh);
                            }
                          }
                          g.collectives().barrier();
                        }),
            none(2));
}

TEST_P(Exchange, InTheOrderAskedForAndOnlyWithRanksThatExist) {
  EXPECT_EQ(
      with_groups(
          2,
          [](Group& g) {
            std::vector<float> a(10), b(10);
            EXPECT_THROW(g.payload().exchange(7, 1, over(a), over(b), {}, Seconds(1)), DistError);
            EXPECT_THROW(g.payload().exchange(g.rank(), 1, over(a), over(b), {}, Seconds(1)),
                         Error);
            EXPECT_THROW(g.payload().exchange(1 - g.rank(), 1, {}, {}, {}, Seconds(1)), DistError);
            std::vector<float> d(9, 1), e(9);
            g.payload().exchange(1 - g.rank(), 1, over(a), over(b), {}, Seconds(10));
            g.payload().exchange(1 - g.rank(), 2, over(d), over(e), {}, Seconds(10));
            for (const std::uint64_t session : {1u, 2u}) {
              const Event end = await(g, Event::Kind::exchanged);
              if (!end.ok || end.session != session) fail("session ", end.session, ": ", end.why);
            }
            EXPECT_EQ(e, d);
            g.collectives().barrier();
          }),
      none(2));
}

TEST_P(Exchange, APeerThatLeavesEndsIt) {
  EXPECT_EQ(with_groups(2,
                        [](Group& g) {
                          if (g.rank() == 1) return;
                          std::vector<float> send(100000, 1), receive(100000);
                          const double start = now_s();
                          g.payload().exchange(1, 1, over(send), over(receive), {}, Seconds(60));
                          if (await(g, Event::Kind::exchanged).ok) fail("ok");
                          if (now_s() - start > 10) fail("took ", now_s() - start, " s");
                        }),
            none(2));
}

TEST_P(Exchange, GroupsEndWhileAnExchangeIsPending) {
  EXPECT_EQ(with_groups(2,
                        [](Group& g) {
                          // outlive the group
                          static thread_local std::vector<float> send(100000, 1), receive(100000);
                          if (g.rank() == 0)
                            g.payload().exchange(1, 1, over(send), over(receive), {}, Seconds(60));
                        }),
            none(2));
}

}  // namespace
}  // namespace gossamer::dist::testing
