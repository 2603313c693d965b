// Who is which worker: the launcher's word, the key of the first meeting, and a worker with the
// token that says it is another one, or that another one has been replaced.
#include "gossamer/dist/net/grant.h"

#include <atomic>
#include <optional>
#include <thread>

#include <unistd.h>

#include "dist/net/harness.h"
#include "dist/over.h"
#include "gossamer/dist/net/dial.h"
#include "gossamer/dist/net/greeting.h"
#include "support/error_of.h"

namespace gossamer::dist::testing {
namespace {

TEST(Grant, IsTheLaunchersAndNobodyElses) {
  const KeyPair launcher = new_key_pair(), other = new_key_pair(), own = new_key_pair();
  const Grant g = sign(launcher, 2, 1, own.key);
  EXPECT_TRUE(genuine(g, launcher.key));
  EXPECT_FALSE(genuine(g, other.key));
  EXPECT_FALSE(genuine(sign(other, 2, 1, own.key), launcher.key));
  for (int what = 0; what < 4; ++what) {
    Grant changed = g;
    if (what == 0) changed.rank = 1;
    if (what == 1) changed.generation = 2;
    if (what == 2) changed.key = other.key;
    if (what == 3) changed.signature[7] ^= 1;
    EXPECT_FALSE(genuine(changed, launcher.key)) << what;
  }
}

TEST(Grant, ComesBackFromItsBytesAndNothingElseDoes) {
  const KeyPair launcher = new_key_pair();
  const Grant g = sign(launcher, 7, 300, new_key_pair().key);
  const std::vector<std::uint8_t> bytes = encode(g);
  ASSERT_EQ(bytes.size(), kGrantBytes);
  const auto back = decode_grant(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->rank, 7u);
  EXPECT_EQ(back->generation, 300u);
  EXPECT_TRUE(genuine(*back, launcher.key));
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(decode_grant(std::span(bytes).first(n)));
  const std::string text = new_identity(launcher, 7, 300);
  const Identity made = identity(text);
  EXPECT_EQ(made.launcher, launcher.key);
  EXPECT_EQ(made.grant.rank, 7u);
  EXPECT_EQ(made.grant.key, made.own.key);
  EXPECT_EQ(text.find("gossamer"), std::string::npos);
  for (std::string wrong : {std::string(), std::string("zz"), text.substr(2), text + "00"})
    EXPECT_NE(error_of([&] { (void)identity(wrong); }).find("GOSSAMER_GRANT"), std::string::npos);
  std::string changed = text;
  changed[140] = changed[140] == '0' ? '1' : '0';
  EXPECT_NE(error_of([&] { (void)identity(changed); }).find("GOSSAMER_GRANT"), std::string::npos);
}

TEST(Grant, IsShownByTheCertificate) {
  const KeyPair launcher = new_key_pair();
  const Identity own = identity(new_identity(launcher, 2, 0));
  asio::io_context io;
  asio::ip::tcp::acceptor listens(io, {asio::ip::address_v4::loopback(), 0});
  asio::ip::tcp::socket near(io), far(io);
  near.connect(listens.local_endpoint());
  listens.accept(far);
  const Tls with(own.own, own.grant), without;
  const auto a = std::make_shared<Connection>(std::move(near), &with),
             b = std::make_shared<Connection>(std::move(far), &without);
  int shaken = 0;
  const auto count = [&](const std::string& error) {
    EXPECT_EQ(error, "");
    ++shaken;
  };
  a->handshake(Side::caller, count);
  b->handshake(Side::door, count);
  while (shaken < 2) ASSERT_GT(io.run_one(), 0u);
  EXPECT_FALSE(a->grant());
  ASSERT_TRUE(b->grant());
  EXPECT_EQ(b->grant()->rank, 2u);
  const Credentials credentials{.tls = std::make_shared<const Tls>(), .launcher = launcher.key};
  EXPECT_TRUE(credentials.may_be(2, *b));
  EXPECT_FALSE(credentials.may_be(1, *b)) << "the grant is for worker 2";
  EXPECT_FALSE(credentials.may_be(2, *a)) << "no grant";
  const Credentials others{.tls = credentials.tls, .launcher = new_key_pair().key};
  EXPECT_FALSE(others.may_be(2, *b)) << "of another launcher";
}

// ---- a worker that has the token, and turns on the others

JoinOptions encrypted() {
  JoinOptions o = quick();
  o.tls = "on";
  o.dead_after_s = 4;
  return o;
}

// He calls the doors of workers as he likes.
class Turncoat {
 public:
  explicit Turncoat(const std::optional<Identity>& shown) {
    own_.token = wire::make_token(kToken);
    own_.tls = shown ? std::make_shared<const Tls>(shown->own, shown->grant)
                     : std::make_shared<const Tls>();
  }
  Answer call(int port, std::uint32_t door, std::uint32_t as, wire::Purpose purpose) {
    wire::Frame hello;
    hello.kind = wire::Kind::hello;
    hello.rank = as;
    hello.world = 3;
    hello.purpose = purpose;
    hello.life = 99;
    hello.port = 1;
    std::optional<Answer> answer;
    const auto dial = Dial::start(
        io_, {asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(port)}, door, {}, own_,
        hello, std::chrono::seconds(20), [&](const Answer& a) { answer = a; });
    io_.restart();
    while (!answer && io_.run_one() > 0) {
    }
    return answer.value_or(Answer{});
  }
  // "Another process has your place."
  void says_replaced(const std::shared_ptr<Connection>& link, std::uint32_t as,
                     const wire::Bytes& proof) {
    wire::Frame f;
    f.kind = wire::Kind::replaced;
    f.rank = as;
    link->write(f, proof);
    bool closed = false;  // the other side ends this connection, and nothing else
    std::function<void()> read = [&] {
      link->read([&](const std::string& error, const wire::Frame&, const wire::Bytes&) {
        closed = !error.empty();
        if (!closed) read();
      });
    };
    read();
    io_.restart();
    while (!closed && io_.run_one() > 0) {
    }
  }

 private:
  asio::io_context io_;
  Credentials own_;
};

// Workers 0 and 1 go on while a third, which has left, comes back as a turncoat.
class Betrayed : public ::testing::Test {
 protected:
  void run(bool launched, const std::function<void(const std::vector<int>& ports)>& attack) {
    std::vector<int> ports(3);
    std::vector<LaunchInfo> places;
    for (int r = 0; r < 3; ++r) {
      const int door = listener(&ports[static_cast<std::size_t>(r)]);
      places.push_back(place(r, 3, ports[0]));
      places.back().listener = door;
      if (launched) places.back().grant = new_identity(launcher, static_cast<std::uint32_t>(r), 0);
    }
    std::atomic<int> ready{0};
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    for (int r = 0; r < 2; ++r)
      threads.emplace_back([&, r] {
        EXPECT_EQ(error_of([&] {
                    const auto g = process_group(places[static_cast<std::size_t>(r)], encrypted());
                    check(g->control().next(Seconds(30)).kind == Event::Kind::dead,
                          "worker 2 has not left");
                    ++ready;
                    while (!over) (void)g->control().next(Seconds(0.02));
                    g->rebuild({0, 1}, 1);
                    std::vector<float> v(100, 1);
                    g->collectives().all_reduce_sum(gossamer::over(v));
                    EXPECT_EQ(v[99], 2);
                    g->collectives().barrier();
                  }),
                  "no error")
            << r;
      });
    std::thread third([&] { (void)process_group(places[2], encrypted()); });  // and leaves
    third.join();
    while (ready < 2) std::this_thread::yield();
    attack(ports);
    over = true;
    for (std::thread& t : threads) t.join();
  }

  const KeyPair launcher = new_key_pair();
};

TEST_F(Betrayed, NobodyTakesThePlaceOfALivingWorker) {
  run(false, [](const std::vector<int>& ports) {
    Turncoat t(std::nullopt);
    for (const auto purpose : {wire::Purpose::rejoin, wire::Purpose::back}) {
      const Answer a = t.call(ports[0], 0, 1, purpose);
      EXPECT_EQ(a.kind, Answer::Kind::frame) << a.error;
      EXPECT_NE(a.frame.kind, wire::Kind::welcome);
    }
  });
}

TEST_F(Betrayed, OfALauncherOnlyItsOwnWordStartsAWorkerAgain) {
  run(true, [this](const std::vector<int>& ports) {
    const Identity first = identity(new_identity(launcher, 2, 0)),
                   again = identity(new_identity(launcher, 2, 1));
    const auto kind_of = [&](const std::optional<Identity>& shown, std::uint32_t as) {
      Turncoat t(shown);
      const Answer a = t.call(ports[0], 0, as, wire::Purpose::rejoin);
      return a.kind == Answer::Kind::frame ? a.frame.kind : wire::Kind::leaving;
    };
    EXPECT_EQ(kind_of(std::nullopt, 2), wire::Kind::leaving) << "no grant: not even an answer";
    EXPECT_EQ(kind_of(again, 1), wire::Kind::leaving) << "a grant for another place";
    EXPECT_EQ(kind_of(first, 2), wire::Kind::reject) << "a second process of the first grant";
    EXPECT_EQ(kind_of(again, 2), wire::Kind::welcome);
  });
}

TEST_F(Betrayed, NobodyIsReplacedByTheWordOfAnotherWorker) {
  for (const bool launched : {false, true})
    run(launched, [&](const std::vector<int>& ports) {
      std::optional<Identity> shown;
      if (launched) shown = identity(new_identity(launcher, 2, 1));
      Turncoat t(shown);
      for (const std::uint32_t victim : {0u, 1u}) {
        const Answer a = t.call(ports[victim], victim, 2, wire::Purpose::rejoin);
        ASSERT_EQ(a.frame.kind, wire::Kind::welcome) << a.error;
        // His own grant, one of another launcher, words.
        const Grant forged = sign(new_key_pair(), victim, 5, new_key_pair().key);
        t.says_replaced(
            a.link, 2,
            victim == 0 ? wire::to_bytes("start again") : encode(shown ? shown->grant : forged));
      }
    });
}

}  // namespace
}  // namespace gossamer::dist::testing
