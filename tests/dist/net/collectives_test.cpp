// Collectives and messages between process groups over loopback (threads of this process, each with
// its own sockets).
#include <algorithm>
#include <mutex>
#include <numeric>
#include <thread>

#include "dist/net/harness.h"
#include "dist/over.h"
#include "support/error_of.h"

namespace gossamer::dist::testing {
namespace {

std::vector<std::string> none(int n) {
  return std::vector<std::string>(static_cast<std::size_t>(n));
}

TEST(Collectives, SumsOfIntegersAreExact) {
  EXPECT_EQ(on_threads(4,
                       [](Group& g) {
                         for (std::size_t n : {std::size_t{1}, std::size_t{3}, std::size_t{1000},
                                               std::size_t{777777}}) {
                           std::vector<float> f(n);
                           std::vector<double> d(n);
                           for (std::size_t i = 0; i < n; ++i) {
                             f[i] = static_cast<float>(static_cast<int>(i % 1000) + g.rank());
                             d[i] = 1e12 * g.rank() + static_cast<double>(i);
                           }
                           g.collectives().all_reduce_sum(over(f));
                           g.collectives().all_reduce_sum(std::span<double>(d));
                           for (std::size_t i = 0; i < n; ++i) {
                             if (f[i] != static_cast<float>(4 * static_cast<int>(i % 1000) + 6))
                               fail("float sum wrong at ", i, ": ", f[i]);
                             if (d[i] != 6e12 + 4.0 * static_cast<double>(i))
                               fail("double sum wrong at ", i, ": ", d[i]);
                           }
                         }
                       }),
            none(4));
}

TEST(Collectives, BroadcastComesFromTheRootAndBarrierWaits) {
  std::atomic<int> arrived{0};
  EXPECT_EQ(
      on_threads(3,
                 [&](Group& g) {
                   for (int root = 0; root < 3; ++root) {
                     std::vector<float> v(5000, static_cast<float>(g.rank() + 10));
                     g.collectives().broadcast(over(v), root);
                     if (v.front() != 10.f + static_cast<float>(root) || v.back() != v.front())
                       fail("broadcast gave ", v.back());
                   }
                   ++arrived;
                   g.collectives().barrier();
                   if (arrived != 3)
                     fail("the barrier let a worker through when ", arrived.load(), " had come");
                 }),
      none(3));
}

TEST(Collectives, GoOnWithTheLivingAfterRebuild) {
  EXPECT_EQ(on_threads(4,
                       [](Group& g) {
                         if (g.rank() == 2) return;  // leaves
                         while (g.control().next(Seconds(10)).kind != Event::Kind::dead) {
                         }
                         if (g.alive() != std::vector<int>{0, 1, 3}) fail("alive is wrong");
                         g.rebuild(g.alive(), 1);
                         std::vector<float> v{1, static_cast<float>(g.rank())};
                         g.collectives().all_reduce_sum(over(v));
                         if (g.collectives().members() != 3 || v[0] != 3 || v[1] != 4)
                           fail("sum of three is ", v[0], " ", v[1]);
                         std::vector<float> b{static_cast<float>(g.rank())};
                         g.collectives().broadcast(over(b), 3);
                         if (b[0] != 3) fail("broadcast from rank 3 gave ", b[0]);
                         g.collectives().barrier();
                       }),
            none(4));
}

TEST(Collectives, WaitLongerWhereTheyAreAskedTo) {
  JoinOptions o = quick();
  o.collective_timeout_s = 4;
  EXPECT_EQ(on_threads(
                2,
                [](Group& g) {
                  if (g.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(6));
                  std::vector<double> v{1};
                  g.collectives().all_reduce_sum(v, Seconds(60));
                  if (v[0] != 2) fail("the sum is ", v[0]);
                },
                o),
            none(2));
}

TEST(Collectives, AnInterruptEndsWhatIsUnderWayOnAllUntilTheyRebuild) {
  std::atomic<int> joined{0}, told{0};
  EXPECT_EQ(on_threads(3,
                       [&](Group& g) {
                         ++joined;
                         std::thread interrupter;
                         if (g.rank() == 0) {
                           // Whoever still joins would be told, too.
                           while (joined < 3) std::this_thread::yield();
                           interrupter = std::thread([&] { g.collectives().interrupt(); });
                         }
                         std::vector<float> v(10, 1);
                         if (g.rank() < 2)
                           EXPECT_THROW(g.collectives().all_reduce_sum(over(v)), DistError);
                         if (interrupter.joinable()) interrupter.join();
                         EXPECT_THROW(g.collectives().barrier(), DistError);
                         g.rebuild({0, 1, 2}, 0);
                         g.collectives().barrier();
                         ++told;
                       }),
            none(3));
  EXPECT_EQ(told, 3);
}

TEST(Collectives, OneWhoDoesNotComeIsNamed) {
  JoinOptions o = quick();
  o.collective_timeout_s = 3;
  std::atomic<int> told{0};
  on_threads(
      3,
      [&](Group& g) {
        if (g.rank() == 1) {
          while (told < 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
          return;
        }
        std::vector<float> v(10, 1);
        try {
          g.collectives().all_reduce_sum(over(v));
        } catch (const DistError& e) {
          EXPECT_STREQ(e.what(),
                       "all_reduce among workers 0, 1, 2 failed: it took too long (limit 3 s, "
                       "collective_timeout_s); worker 1 did not come to this operation");
        }
        ++told;
        const std::string broken = error_of([&] { g.collectives().barrier(); });
        EXPECT_EQ(broken.find("barrier: the workers can't do this together now (all_reduce"), 0u)
            << broken;
        while (told < 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      },
      o);
  EXPECT_EQ(told, 2);
}

TEST(ControlLink, MessagesArriveWholeAndInOrder) {
  EXPECT_EQ(on_threads(3,
                       [](Group& g) {
                         for (unsigned i = 0; i < 500; ++i) {
                           for (int to = 0; to < 3; ++to) {
                             if (to == g.rank()) continue;
                             Message m;
                             m.type = MessageType::propose;
                             m.epoch = i;
                             m.nonce = static_cast<unsigned>(g.rank());
                             m.progress = i / 7.0;
                             g.control().send(to, m);
                           }
                         }
                         std::vector<unsigned> expected(3, 0);
                         for (int i = 0; i < 1000; ++i) {
                           const Event e = g.control().next(Seconds(10));
                           if (e.kind != Event::Kind::message) fail("message ", i, " did not come");
                           const auto from = static_cast<std::size_t>(e.peer);
                           if (e.message.nonce != from || e.message.epoch != expected[from]++ ||
                               e.message.progress != e.message.epoch / 7.0) {
                             fail("message ", i, " from ", from, " is not the one that was sent");
                           }
                         }
                         if (g.control().next(Seconds(0.05)).kind != Event::Kind::none)
                           fail("more came than was sent");
                         g.collectives().barrier();
                       }),
            none(3));
}

TEST(ControlLink, OwnEventsWakeTheConsumer) {
  EXPECT_EQ(on_threads(2,
                       [](Group& g) {
                         Event e;
                         e.kind = Event::Kind::woken;
                         g.control().post(e);
                         if (g.control().next(Seconds(5)).kind != Event::Kind::woken)
                           fail("not woken");
                         g.collectives().barrier();
                       }),
            none(2));
}

TEST(ControlLink, ACleanLeaverIsNotACrash) {
  EXPECT_EQ(on_threads(3,
                       [](Group& g) {
                         if (g.rank() == 1) return;
                         const Event e = g.control().next(Seconds(10));
                         if (e.kind != Event::Kind::dead || e.peer != 1 || e.why != "left")
                           fail("got '", e.why, "' of ", e.peer);
                         if (g.control().alive(1)) fail("it is alive");
                         g.control().send(1, {});  // dropped
                         // the first of us must not leave before the other has seen rank 1 go
                         g.rebuild({0, 2}, 1);
                         g.collectives().barrier();
                       }),
            none(3));
}

}  // namespace
}  // namespace gossamer::dist::testing
