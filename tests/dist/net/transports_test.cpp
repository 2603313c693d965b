// What every transport promises: threads of one process (LocalCluster), and process groups that
// read each other's memory or go over loopback.
#include <algorithm>
#include <map>
#include <thread>

#include <gmock/gmock.h>

#include "dist/net/harness.h"
#include "dist/over.h"
#include "gossamer/dist/local/local_cluster.h"

namespace gossamer::dist::testing {
namespace {

enum class Kind { local, memory, tcp, encrypted };

class Transports : public ::testing::TestWithParam<Kind> {
 protected:
  // Runs `body` as each of n workers; what they threw, "" where nothing.
  static std::vector<std::string> run(int n, const std::function<void(Group&)>& body) {
    if (processes()) {
      JoinOptions options = quick();
      options.read_memory = GetParam() == Kind::memory;
      options.tls = GetParam() == Kind::encrypted ? "on" : "off";
      return on_threads(n, body, options);
    }
    LocalCluster cluster(n);
    std::vector<std::string> errors(static_cast<std::size_t>(n));
    std::vector<std::thread> threads;
    for (int r = 0; r < n; ++r)
      threads.emplace_back([&, r] {
        try {
          body(cluster.group(r));
        } catch (const std::exception& e) {
          errors[static_cast<std::size_t>(r)] = e.what();
        }
      });
    for (auto& t : threads) t.join();
    return errors;
  }
  static bool processes() { return GetParam() != Kind::local; }
  static std::vector<std::string> none(int n) {
    return std::vector<std::string>(static_cast<std::size_t>(n));
  }
};
INSTANTIATE_TEST_SUITE_P(All, Transports,
                         ::testing::Values(Kind::local, Kind::memory, Kind::tcp, Kind::encrypted),
                         [](const auto& kind) {
                           return kind.param == Kind::local    ? "local"
                                  : kind.param == Kind::memory ? "memory"
                                  : kind.param == Kind::tcp    ? "tcp"
                                                               : "encrypted";
                         });

Event next_exchanged(Group& g, double seconds = 15) {
  const double until = now_s() + seconds;
  while (now_s() < until) {
    Event e = g.control().next(Seconds(until - now_s()));
    if (e.kind == Event::Kind::exchanged) return e;
  }
  fail("no exchange ended within ", seconds, " s");
}

TEST_P(Transports, ExchangesWithAllOthersRunAtOnceAndEachIsNamedByItsSession) {
  EXPECT_EQ(run(4,
                [](Group& g) {
                  constexpr std::size_t kLength = 30000;
                  for (std::uint64_t round = 1; round <= 20; ++round) {
                    std::vector<float> send(
                        kLength, static_cast<float>(g.rank() + 10 * static_cast<int>(round)));
                    std::map<int, std::vector<float>> receive;
                    // all are started before any is waited for, in an order of one's own
                    for (int k = 1; k < 4; ++k) {
                      const int peer = (g.rank() + k) % 4;
                      receive[peer].assign(kLength, -1);
                      g.payload().exchange(peer,
                                           round << 8 | static_cast<unsigned>(g.rank() + peer),
                                           over(send), over(receive[peer]), {}, Seconds(15));
                    }
                    std::map<int, int> ended;
                    for (int k = 1; k < 4; ++k) {
                      const Event e = next_exchanged(g);
                      if (!e.ok) fail("exchange with ", e.peer, ": ", e.why);
                      if (e.session != (round << 8 | static_cast<unsigned>(g.rank() + e.peer)))
                        fail("session ", e.session, " of ", e.peer);
                      if (ended[e.peer]++ != 0) fail("two ends of one exchange");
                      for (const float v : receive[e.peer])
                        if (v != static_cast<float>(e.peer + 10 * static_cast<int>(round)))
                          fail("got ", v, " from ", e.peer);
                    }
                  }
                  g.collectives().barrier();
                }),
            none(4));
}

TEST_P(Transports, AllGatherAndAllToAllKeepTheOrderOfRanks) {
  const auto errors = run(3, [](Group& g) {
    if (g.rank() == 1) return;
    g.rebuild({0, 2}, 0);
    Collectives& all = g.collectives();
    const auto rank = static_cast<float>(g.rank());
    const Tensor own = Tensor::full({2}, rank), gathered = Tensor::empty({2, 2});
    for (int again = 0; again < 2; ++again) {
      all.all_gather(own, gathered);
      EXPECT_THAT(gathered.span<float>(), ::testing::ElementsAre(0, 0, 2, 2));
    }
    const Tensor parts = Tensor::full({2, 1}, rank), came = Tensor::empty({2, 1});
    parts.as<float>()[1] += 10;  // for the second member
    all.all_to_all(parts, came);
    const float added = g.rank() == 0 ? 0 : 10;
    EXPECT_THAT(came.span<float>(), ::testing::ElementsAre(0 + added, 2 + added));
    EXPECT_THROW(all.all_gather(own, came), ShapeError);
    all.barrier();
  });
  EXPECT_EQ(errors, none(3));
}

TEST_P(Transports, AnExchangeMayGoOneWay) {
  EXPECT_EQ(run(3,
                [](Group& g) {
                  // round a directed ring, as push-sum does
                  const int to = (g.rank() + 1) % 3, from = (g.rank() + 2) % 3;
                  for (std::uint64_t round = 1; round <= 10; ++round) {
                    std::vector<float> send(777 * round, static_cast<float>(g.rank()) + 0.5f),
                        receive(777 * round, -1);
                    g.payload().exchange(to, round, over(send), {}, {}, Seconds(15));
                    g.payload().exchange(from, round, {}, over(receive), {}, Seconds(15));
                    for (int k = 0; k < 2; ++k)
                      if (const Event e = next_exchanged(g); !e.ok || e.session != round)
                        fail("exchange with ", e.peer, ": ", e.why);
                    for (const float v : receive)
                      if (v != static_cast<float>(from) + 0.5f) fail("got ", v);
                  }
                  g.collectives().barrier();
                }),
            none(3));
}

// The note of the sender's host comes with its tensor, and with it how far the two tensors lie
// apart.
TEST_P(Transports, ANoteAndTheDistanceComeWithTheTensor) {
  EXPECT_EQ(
      run(2,
          [](Group& g) {
            const int peer = 1 - g.rank();
            for (const std::size_t length : {0u, 1u, 17u, 64u}) {
              const std::vector<char> own(length, static_cast<char>('a' + g.rank())),
                  theirs(length, static_cast<char>('a' + peer));
              const Tensor send = Tensor::full({500}, static_cast<float>(3 * g.rank())),
                           receive = Tensor::empty({500});
              g.payload().exchange(peer, 7 + length, send, receive, own, Seconds(15));
              const Event e = next_exchanged(g);
              EXPECT_TRUE(e.ok) << e.why;
              EXPECT_EQ(e.note, theirs);
              EXPECT_EQ(e.squared_distance, 4500);
              const Tensor bytes = Tensor::zeros({9}, DType::u8),
                           came = Tensor::empty({9}, DType::u8);
              bytes.as<std::uint8_t>()[8] = static_cast<std::uint8_t>(200 + g.rank());
              g.payload().exchange(peer, 100 + length, bytes, came, {}, Seconds(15));
              EXPECT_TRUE(next_exchanged(g).ok);
              EXPECT_EQ(came.as<std::uint8_t>()[8], 200 + peer) << "of any type";
            }
            const Tensor one = Tensor::zeros({1});
            const std::vector<char> long_note(kLongestNote + 1);
            EXPECT_THROW(g.payload().exchange(peer, 1, one, one, long_note, Seconds(1)), DistError);
            EXPECT_THROW(g.payload().exchange(peer, 1, {}, one, {"x", 1}, Seconds(1)), DistError)
                << "a note that goes nowhere";
            g.collectives().barrier();
          }),
      none(2));
}

TEST_P(Transports, OneThatFailsLeavesTheOthersAlone) {
  EXPECT_EQ(run(3,
                [](Group& g) {
                  std::vector<float> send(5000, static_cast<float>(g.rank())), a(5000), b(5000);
                  // 2 does not come to 0; 0 and 1 meet meanwhile, again and again.
                  if (g.rank() == 0)
                    g.payload().exchange(2, 99, over(send), over(a), {}, Seconds(15));
                  if (g.rank() < 2)
                    for (std::uint64_t round = 1; round <= 5; ++round) {
                      g.payload().exchange(1 - g.rank(), round, over(send), over(b), {},
                                           Seconds(15));
                      if (const Event e = next_exchanged(g);
                          !e.ok || e.session != round || b[7] != static_cast<float>(1 - g.rank()))
                        fail("round ", round, ": session ", e.session, " ", e.why);
                    }
                  if (g.rank() == 0) {
                    g.payload().exchange(2, 100, over(send), over(b), {}, Seconds(15));
                    g.payload().exchange(2, 101, over(send), over(b), {}, Seconds(15));
                    g.payload().abort(1);  // nothing is under way there
                    // first those that come last, then all
                    for (const auto& [from, ends] :
                         {std::pair(101, std::vector<std::uint64_t>{101}), {0, {99, 100}}}) {
                      g.payload().abort(2, static_cast<std::uint64_t>(from));
                      std::vector<std::uint64_t> ended;
                      if (from == 101 && processes()) continue;  // it has its turn
                      while (ended.size() < ends.size()) {
                        const Event e = next_exchanged(g);
                        if (e.ok || e.peer != 2 || e.why.empty()) fail("not ended: ", e.peer);
                        ended.push_back(e.session);
                      }
                      std::ranges::sort(ended);
                      EXPECT_EQ(ended, ends);
                    }
                    if (processes()) EXPECT_EQ(next_exchanged(g).session, 101u);
                    g.payload().drain(Seconds(10));
                  }
                  g.collectives().barrier();
                }),
            none(3));
}

TEST_P(Transports, SizesThatDoNotMirrorEachOtherFail) {
  EXPECT_EQ(run(2,
                [](Group& g) {
                  std::vector<float> send(100, 1), receive(100);
                  // Rank 0 wants values, rank 1 sends none.
                  if (g.rank() == 0)
                    g.payload().exchange(1, 1, over(send), over(receive), {}, Seconds(0.5));
                  else
                    g.payload().exchange(0, 1, {}, over(receive), {}, Seconds(0.5));
                  if (next_exchanged(g).ok && g.rank() == 0) fail("ok");
                  EXPECT_THROW(g.payload().exchange(1 - g.rank(), 2, {}, {}, {}, Seconds(1)),
                               DistError);
                  g.collectives().barrier();
                }),
            none(2));
}

}  // namespace
}  // namespace gossamer::dist::testing
