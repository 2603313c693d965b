// Encrypted connections, and those who sit on them: what they hear, change, cut or say again, and
// what they pretend to be.
#include "gossamer/dist/net/tls.h"

#include <algorithm>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <deque>
#include <numeric>
#include <random>
#include <set>

#include <openssl/ssl.h>
#include <poll.h>

#include "dist/net/harness.h"
#include "dist/net/wiretap.h"
#include "dist/over.h"
#include "gossamer/dist/net/dial.h"
#include "gossamer/dist/net/door.h"
#include "gossamer/dist/net/greeting.h"
#include "gossamer/dist/net/stream.h"
#include "support/error_of.h"

namespace gossamer::dist::testing {
namespace {

using asio::ip::tcp;

// ---- one connection

std::string random_bytes(std::size_t n, unsigned seed) {
  std::mt19937_64 random(seed);
  std::string bytes(n, '\0');
  for (char& b : bytes) b = static_cast<char>(random());
  return bytes;
}

// Two ends and what is between them: nothing passes but what the test lets through.
class Ends : public ::testing::Test {
 protected:
  struct Wire {
    tcp::socket near, far;  // near: of the Stream
  };
  Wire wire() {
    tcp::acceptor listens(io_, {asio::ip::address_v4::loopback(), 0});
    Wire w{tcp::socket(io_), tcp::socket(io_)};
    w.near.connect(listens.local_endpoint());
    listens.accept(w.far);
    w.near.non_blocking(true);
    w.far.non_blocking(true);
    return w;
  }
  void SetUp() override {
    Wire a = wire(), b = wire();
    at_caller_.emplace(std::move(a.far));
    at_door_.emplace(std::move(b.far));
    caller_.emplace(std::move(a.near), Side::caller, &caller_tls_, 100000);
    door_.emplace(std::move(b.near), Side::door, &door_tls_);
    bool shaken[2] = {};
    for (int i = 0; i < 1000 && !(shaken[0] && shaken[1]); ++i) {
      shaken[0] = caller_->shake_hands();
      shaken[1] = door_->shake_hands();
      carry();
    }
    ASSERT_TRUE(shaken[0] && shaken[1]);
  }
  static std::string take(tcp::socket& from) {
    std::string bytes(1 << 17, '\0');
    asio::error_code error;
    bytes.resize(from.read_some(asio::buffer(bytes), error));
    return bytes;
  }
  static void give(tcp::socket& to, const std::string& bytes) {
    to.non_blocking(false);
    asio::write(to, asio::buffer(bytes));
    to.non_blocking(true);
  }
  // All that is under way.
  std::string carry() {
    const std::string there = take(*at_caller_), back = take(*at_door_);
    give(*at_door_, there);
    give(*at_caller_, back);
    return there + back;
  }
  // What the caller sends for these bytes.
  std::string sealed(const std::string& bytes) {
    const iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    EXPECT_EQ(caller_->write({&part, 1}), bytes.size());
    EXPECT_TRUE(caller_->flush());
    std::string all;  // one record: 5 bytes before, 17 behind (RFC 8446, 5.2)
    while (all.size() < bytes.size() + 22 && wait(at_caller_->native_handle()))
      all += take(*at_caller_);
    return all;
  }
  std::string read_at_door(std::size_t n) {
    std::string got(n, '\0');
    std::size_t come = door_->read(got.data(), n);
    while (come < n && wait(door_->descriptor())) come += door_->read(got.data() + come, n - come);
    got.resize(come);
    return got;
  }
  static bool wait(int descriptor) {
    pollfd one{descriptor, POLLIN, 0};
    return poll(&one, 1, 10000) > 0;
  }

  asio::io_context io_;
  const Tls caller_tls_, door_tls_;
  std::optional<tcp::socket> at_caller_, at_door_;
  std::optional<Stream> caller_, door_;
};

TEST_F(Ends, KnowEachOthersKeys) {
  EXPECT_EQ(caller_->peer(), door_tls_.own());
  EXPECT_EQ(door_->peer(), caller_tls_.own());
  EXPECT_NE(caller_tls_.own(), door_tls_.own());
}

// The caller has a new key after every 100,000 bytes.
TEST_F(Ends, CarryAllBytesInOrderUnderSeveralKeys) {
  const std::string sent = random_bytes(1 << 20, 1);
  std::string got, heard;
  const iovec part{const_cast<char*>(sent.data()), sent.size()};
  std::size_t done = 0;
  for (int i = 0; i < 100000 && got.size() < sent.size(); ++i) {
    const iovec rest{static_cast<char*>(part.iov_base) + done, sent.size() - done};
    if (done < sent.size()) done += caller_->write({&rest, 1});
    (void)caller_->flush();
    heard += carry();
    std::string some(std::min<std::size_t>(5000, sent.size() - got.size()), '\0');
    some.resize(door_->read(some.data(), some.size()));
    got += some;
  }
  EXPECT_TRUE(got == sent);
  for (std::size_t at = 0; at + 64 <= sent.size(); at += 4001)
    EXPECT_EQ(heard.find(sent.substr(at, 64)), std::string::npos);
}

TEST_F(Ends, AnyChangedByteEndsTheConnection) {
  std::string bytes = sealed("a small tensor");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  give(*at_door_, bytes);
  EXPECT_EQ(error_of([&] { EXPECT_EQ(read_at_door(14), ""); }).substr(0, 39),
            "the encryption of the connection failed");
}

TEST_F(Ends, BytesThatAreSaidAgainEndTheConnection) {
  const std::string bytes = sealed("a small tensor");
  give(*at_door_, bytes);
  EXPECT_EQ(read_at_door(14), "a small tensor");
  give(*at_door_, bytes);
  EXPECT_NE(error_of([&] { EXPECT_EQ(read_at_door(14), ""); }), "no error");
}

TEST_F(Ends, BytesInAnotherOrderEndTheConnection) {
  const std::string first = sealed("first"), second = sealed("later");
  give(*at_door_, second + first);
  EXPECT_NE(error_of([&] { EXPECT_EQ(read_at_door(5), ""); }), "no error");
}

TEST_F(Ends, AMessageThatIsCutIsNotWhole) {
  const std::string bytes = sealed("a small tensor");
  give(*at_door_, bytes.substr(0, bytes.size() - 1));
  at_door_->shutdown(tcp::socket::shutdown_send);
  EXPECT_EQ(error_of([&] { EXPECT_EQ(read_at_door(14), ""); }),
            "the connection was closed by the other side");
}

TEST(Tls, SpeaksOneVersionAndOneSuiteAndGivesNoTickets) {
  const Tls tls;
  const Tls::Session session = tls.session();
  SSL* const s = session.get();
  EXPECT_EQ(SSL_get_min_proto_version(s), TLS1_3_VERSION);
  EXPECT_EQ(SSL_get_max_proto_version(s), TLS1_3_VERSION);
  EXPECT_EQ(SSL_get_num_tickets(s), 0u);
  EXPECT_EQ(SSL_get_max_early_data(s), 0u);
  EXPECT_EQ(SSL_get_verify_mode(s), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT);
  const auto* const suites = SSL_get1_supported_ciphers(s);
  ASSERT_EQ(sk_SSL_CIPHER_num(suites), 1);
  EXPECT_STREQ(SSL_CIPHER_get_name(sk_SSL_CIPHER_value(suites, 0)), "TLS_AES_128_GCM_SHA256");
  sk_SSL_CIPHER_free(const_cast<STACK_OF(SSL_CIPHER)*>(suites));
}

// ---- the greeting

constexpr const char* kToken2 = "ffeeddccbbaa99887766554433221100";

class Greeted : public ::testing::Test {
 protected:
  static Credentials credentials(const char* token, bool encrypts = true) {
    return {wire::make_token(token), encrypts ? std::make_shared<const Tls>() : nullptr};
  }
  // A door of worker 3, which welcomes all who prove what it wants.
  std::shared_ptr<Door> door(const Credentials& own) {
    auto made = std::make_shared<Door>(io_, 3, own, [this](const std::string& why) { why_ = why; });
    made->receive(
        [this](const wire::Frame&, const std::shared_ptr<Connection>& link, std::uint64_t id) {
          wire::Frame welcome;
          welcome.kind = wire::Kind::welcome;
          welcome.rank = 3;
          welcome.life = 1;
          link->write(welcome);
          caller_ = link->peer();
          id_ = id;
          ++arrived_;
        });
    made->open({asio::ip::address_v4::loopback(), 0});
    return made;
  }
  Answer call(const tcp::endpoint& where, const Credentials& own) {
    wire::Frame hello;
    hello.kind = wire::Kind::hello;
    hello.rank = 2;
    hello.world = 4;
    hello.life = 7;
    std::optional<Answer> answer;
    const auto dial = Dial::start(io_, where, 3, {}, own, hello, std::chrono::seconds(8),
                                  [&](const Answer& a) { answer = a; });
    io_.restart();
    while (!answer && io_.run_one() > 0) {
    }
    const Answer got = answer.value_or(Answer{});
    if (got.link) got.link->close();
    return got;
  }
  static tcp::endpoint at(const Door& door) {
    return {asio::ip::address_v4::loopback(), door.port()};
  }

  asio::io_context io_;
  std::string why_;
  PublicKey caller_{};
  std::uint64_t id_ = 0;
  int arrived_ = 0;
};

TEST_F(Greeted, ByTokenAndKeys) {
  const Credentials a = credentials(kToken), b = credentials(kToken);
  const auto d = door(a);
  const Answer answer = call(at(*d), b);
  ASSERT_EQ(answer.kind, Answer::Kind::frame) << answer.error;
  EXPECT_EQ(answer.link->peer(), a.tls->own());
  EXPECT_EQ(caller_, b.tls->own());
  EXPECT_EQ(id_, answer.id);
  d->close();
}

TEST_F(Greeted, AForeignCertificateWithoutTheTokenIsNobody) {
  const auto d = door(credentials(kToken2));  // a server with a certificate of its own
  EXPECT_EQ(call(at(*d), credentials(kToken)).kind, Answer::Kind::no_handshake);
  EXPECT_EQ(arrived_, 0);
  EXPECT_EQ(d->refused(), 1);
  d->close();
}

TEST_F(Greeted, OneWhoDoesNotEncryptIsToldSo) {
  const auto d = door(credentials(kToken));
  asio::io_context other;
  tcp::socket plain(other);
  plain.connect(at(*d));
  asio::write(plain, asio::buffer(std::string(200, 'x')));
  io_.restart();
  while (why_.empty() && io_.run_one() > 0) {
  }
  EXPECT_NE(why_.find("it does not encrypt: "), std::string::npos) << why_;
  d->close();
}

// He ends TLS on both sides, and passes on what is in it, byte for byte. With the token or without:
// he needs a code for his own connection, and each end makes one for its own.
class Between {
 public:
  Between(asio::io_context& io, tcp::endpoint door)
      : io_(io), to_(std::move(door)), listens_(io, {asio::ip::address_v4::loopback(), 0}) {
    accept();
  }
  tcp::endpoint where() const { return listens_.local_endpoint(); }
  int passed = 0;  // bytes in the clear, both ways

 private:
  struct Pair {
    std::shared_ptr<Connection> caller, door;
  };
  void accept() {
    listens_.async_accept([this](const asio::error_code& error, tcp::socket socket) {
      if (error) return;
      auto p = std::make_shared<Pair>();
      p->caller = std::make_shared<Connection>(std::move(socket), &tls_);
      tcp::socket there(io_);
      there.connect(to_);
      p->door = std::make_shared<Connection>(std::move(there), &tls_);
      p->caller->handshake(Side::door, [this, p](const std::string& failed) {
        if (!failed.empty()) return;
        p->door->handshake(Side::caller, [this, p](const std::string& refused) {
          if (!refused.empty()) return;
          pass(p, p->caller, p->door);
          pass(p, p->door, p->caller);
        });
      });
      accept();
    });
  }
  void pass(const std::shared_ptr<Pair>& p, const std::shared_ptr<Connection>& from,
            const std::shared_ptr<Connection>& to) {
    from->read_bytes(1, [this, p, from, to](const std::string& error, const wire::Bytes& bytes) {
      if (!error.empty()) return to->close();
      ++passed;
      to->write_bytes(bytes);
      pass(p, from, to);
    });
  }
  asio::io_context& io_;
  const tcp::endpoint to_;
  tcp::acceptor listens_;
  const Tls tls_;
};

TEST_F(Greeted, AManInTheMiddleIsNeitherEnd) {
  const auto d = door(credentials(kToken));
  Between between(io_, at(*d));
  const Answer answer = call(between.where(), credentials(kToken));
  EXPECT_EQ(answer.kind, Answer::Kind::no_handshake);
  EXPECT_GE(between.passed, static_cast<int>(greeting::kHelloBytes)) << "he heard the greeting";
  EXPECT_EQ(arrived_, 0);
  EXPECT_EQ(d->refused(), 1);
  EXPECT_NE(why_.find("wrong token"), std::string::npos) << why_;
  d->close();
}

// ---- groups

JoinOptions encrypted() {
  JoinOptions o = quick();
  o.tls = "on";
  o.read_memory = false;
  return o;
}

Event exchanged(Group& g) {
  const double until = now_s() + 30;
  while (now_s() < until) {
    Event e = g.control().next(Seconds(until - now_s()));
    if (e.kind == Event::Kind::exchanged) return e;
  }
  fail("no exchange ended");
}

std::vector<float> tensor_of(int rank, std::size_t n, unsigned round) {
  std::vector<float> t(n);
  std::mt19937 random(round * 100 + static_cast<unsigned>(rank));
  for (float& v : t) v = static_cast<float>(random() % 100000) / 7;
  return t;
}

constexpr std::size_t kLength = 300000;

// Sums and exchanges, each again until it has gone well on both sides: the right values come, or
// none.
void work(Group& g, unsigned rounds) {
  const int peer = 1 - g.rank();
  const auto own_place = static_cast<std::size_t>(g.rank());
  const double until = now_s() + 90;
  unsigned done = 0, attempts = 0;
  for (;;) try {
      g.rebuild({0, 1}, 1);
      std::vector<double> progress(4, 0);
      progress[own_place] = done;
      progress[2 + own_place] = ++attempts;
      g.collectives().all_reduce_sum(progress);
      const auto round = static_cast<unsigned>(std::min(progress[0], progress[1])) + 1;
      if (round > rounds) return;
      std::vector<float> own = tensor_of(g.rank(), kLength, round),
                         theirs = tensor_of(peer, kLength, round);
      std::vector<float> sum = own, wanted(kLength), receive(kLength, -1);
      for (std::size_t i = 0; i < kLength; ++i) wanted[i] = own[i] + theirs[i];
      g.collectives().all_reduce_sum(over(sum));
      if (sum != wanted) fail("a wrong sum in round ", round);
      const auto session = static_cast<std::uint64_t>(progress[2] + progress[3]);
      g.payload().exchange(peer, session << 8 | round, over(own), over(receive), {}, Seconds(5));
      const Event e = exchanged(g);
      if (e.ok && receive != theirs) fail("wrong values in round ", round);
      if (e.ok) done = std::max(done, round);
    } catch (const DistError& e) {
      if (done == rounds && std::string(e.what()).find("(left)") != std::string::npos) return;
      if (now_s() > until) fail("it does not heal: ", e.what());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

// How often a part of one of the tensors was heard.
int parts_heard(const std::string& heard, unsigned rounds) {
  int found = 0;
  for (unsigned round = 1; round <= rounds; ++round)
    for (const int rank : {0, 1}) {
      const std::vector<float> t = tensor_of(rank, kLength, round);
      const std::string_view bytes(reinterpret_cast<const char*>(t.data()), t.size() * 4);
      for (std::size_t at = 0; at + 64 <= bytes.size(); at += 40000)
        found += heard.find(bytes.substr(at, 64)) != std::string::npos;
    }
  return found;
}

TEST(ManInTheMiddle, HearsTensorsInTheClearButNoneThatAreEncrypted) {
  for (const char* tls : {"off", "on"}) {
    JoinOptions options = encrypted();
    options.tls = tls;
    Wiretap tap;
    const auto errors = on_threads(
        2, [](Group& g) { work(g, 1); }, options);
    EXPECT_EQ(errors, std::vector<std::string>(2));
    EXPECT_GE(tap.connections(), 3) << "control, exchange, sums";
    const std::string heard = tap.heard();
    EXPECT_GE(heard.size(), 2 * kLength * sizeof(float));
    const int parts = parts_heard(heard, 1);
    if (*tls == 'o' && tls[1] == 'n')
      EXPECT_EQ(parts, 0);
    else
      EXPECT_GT(parts, 10);
    EXPECT_EQ(heard.find(kToken), std::string::npos);
  }
}

enum class Harm { change, cut, again, order };

// What he does to the `at`-th piece that goes by on every kind of connection: one by one.
class Harmed : public ::testing::TestWithParam<Harm> {};
std::string name_of(const ::testing::TestParamInfo<Harm>& harm) {
  const char* const names[] = {"change", "cut", "again", "order"};
  return names[static_cast<std::size_t>(harm.param)];
}
INSTANTIATE_TEST_SUITE_P(All, Harmed,
                         ::testing::Values(Harm::change, Harm::cut, Harm::again, Harm::order),
                         name_of);

TEST_P(Harmed, ConnectionsEndAloneAndHealAndTheWorkIsRight) {
  std::map<int, int> pieces;
  std::set<int> harmed;
  std::string kept;
  Wiretap tap([&](int number, bool to_door, std::string& bytes) {
    // Each of the first six connections once, in the middle of its life: control connections carry
    // small pieces, the others large ones.
    if (!to_door || number >= 6 || harmed.contains(number) || ++pieces[number] < 8) return true;
    switch (GetParam()) {
      case Harm::change:
        bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
        break;
      case Harm::cut:
        harmed.insert(number);
        bytes.resize(bytes.size() / 2);
        return false;
      case Harm::again:
        bytes += bytes;
        break;
      case Harm::order:
        if (pieces[number] == 8) {
          kept = bytes;
          bytes.clear();
          return true;
        }
        bytes += kept;
        break;
    }
    harmed.insert(number);
    return true;
  });
  JoinOptions options = encrypted();
  options.collective_timeout_s = 3;
  const auto errors = on_threads(
      2, [](Group& g) { work(g, 4); }, options);
  EXPECT_EQ(errors, std::vector<std::string>(2));
  EXPECT_GE(harmed.size(), 3u);
  EXPECT_EQ(parts_heard(tap.heard(), 4), 0);
}

TEST(ManInTheMiddle, WorkersThatDoNotAgreeOnEncryptionAreTold) {
  const int port = free_port();
  JoinOptions o = quick();
  o.connect_timeout_s = 12;
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      JoinOptions own = o;
      own.tls = r == 0 ? "on" : "off";
      errors[static_cast<std::size_t>(r)] =
          error_of([&] { (void)process_group(place(r, 2, port), own); });
    });
  for (auto& t : threads) t.join();
  EXPECT_NE(errors[0].find("waiting for worker 1"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1].find("and tls the same"), std::string::npos) << errors[1];
}

TEST(Tls, IsOnUnlessAllWorkersAreOnOneMachine) {
  LaunchInfo info = place(0, 2, 1000);
  EXPECT_FALSE(encrypts(info, "auto"));
  EXPECT_TRUE(encrypts(info, "on"));
  info.local = false;
  EXPECT_TRUE(encrypts(info, "auto"));
  EXPECT_FALSE(encrypts(info, "off"));
  EXPECT_NE(error_of([&] { (void)encrypts(info, "yes"); }).find("auto, on, off"),
            std::string::npos);
}

}  // namespace
}  // namespace gossamer::dist::testing
