// Connections among the members of a Gloo context, and what strangers and resets do to them.
#ifdef GOSSAMER_HAS_GLOO
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <gloo/transport/unbound_buffer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/dist/net/gloo_context.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

StopSignal::TimePoint within(seconds limit) { return std::chrono::steady_clock::now() + limit; }

std::string error_of(const std::function<void()>& what) {
  try {
    what();
  } catch (const DistError& e) {
    return e.what();
  }
  return "";
}

// Two contexts of this process, 0 and 1.
class TwoContexts : public ::testing::Test {
 protected:
  GlooContext zero{"127.0.0.1", 0, 2, seconds(20)}, one{"127.0.0.1", 1, 2, seconds(20)};

  void connect() {
    std::thread dials([&] { one.connect(0, zero.address(), Side::caller, within(seconds(20))); });
    zero.connect(1, one.address(), Side::door, within(seconds(20)));
    dials.join();
  }

  // A stranger at the door of context 0.
  int stranger() {
    const std::vector<char> address = zero.address();
    sockaddr_in to{};
    std::memcpy(&to, address.data() + (address.size() - sizeof to), sizeof to);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0)
        << std::strerror(errno);
    return fd;
  }
  static void reset(int fd) {
    const linger at_once{1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
  }
};

TEST_F(TwoContexts, MessagesFindTheirSlots) {
  connect();
  std::vector<int> a{1, 2, 3}, b{4, 5}, first(2), second(3);
  const auto send_a = one.createUnboundBuffer(a.data(), sizeof(int) * a.size());
  const auto send_b = one.createUnboundBuffer(b.data(), sizeof(int) * b.size());
  send_b->send(0, 8);
  send_a->send(0, 7);
  send_a->waitSend();
  send_b->waitSend();
  // in another order than they were sent in
  const auto into_second = zero.createUnboundBuffer(second.data(), sizeof(int) * second.size());
  const auto into_first = zero.createUnboundBuffer(first.data(), sizeof(int) * first.size());
  into_second->recv(1, 7);
  into_first->recv(1, 8);
  into_second->waitRecv();
  into_first->waitRecv();
  EXPECT_EQ(second, a);
  EXPECT_EQ(first, b);
}

TEST_F(TwoContexts, ALengthThatIsNotTheSameIsAnError) {
  connect();
  std::vector<int> three(3), two(2);
  const auto from = one.createUnboundBuffer(three.data(), sizeof(int) * three.size());
  from->send(0, 7);
  from->waitSend();
  const auto to = zero.createUnboundBuffer(two.data(), sizeof(int) * two.size());
  to->recv(1, 7);
  EXPECT_EQ(error_of([&] { to->waitRecv(); }), "the other side sends 12 bytes, here 8 are wanted");
}

TEST_F(TwoContexts, WaitsEnd) {
  connect();
  int value = 0;
  const auto never = zero.createUnboundBuffer(&value, sizeof value);
  never->recv(1, 7);
  EXPECT_THROW(never->waitRecv(milliseconds(1)), DistTimeout);
  zero.abort();
  EXPECT_EQ(error_of([&] { never->waitRecv(); }), "ended from outside");
}

TEST_F(TwoContexts, AnAbortEndsAMessageThatMoves) {
  connect();
  std::vector<char> much(64 << 20), copy(much.size());
  std::thread sender([&] {
    const auto from = one.createUnboundBuffer(much.data(), much.size());
    from->send(0, 7);
    EXPECT_NE(error_of([&] { from->waitSend(); }), "");
  });
  {
    const auto to = zero.createUnboundBuffer(copy.data(), copy.size());
    to->recv(1, 7);
    zero.abort();
    EXPECT_EQ(error_of([&] { to->waitRecv(); }), "ended from outside");
  }
  one.abort();
  sender.join();
}

TEST_F(TwoContexts, ABufferThatGoesInTheMiddleOfAMessageEndsTheConnection) {
  connect();
  std::vector<char> much(64 << 20), small(1);
  {
    const auto from = one.createUnboundBuffer(much.data(), much.size());
    from->send(0, 7);
    EXPECT_THROW(from->waitSend(milliseconds(1)), DistTimeout);
  }
  const auto to = zero.createUnboundBuffer(much.data(), much.size());
  to->recv(1, 7);
  EXPECT_THAT(error_of([&] { to->waitRecv(); }), ::testing::HasSubstr("closed by the other side"));
  const auto next = one.createUnboundBuffer(small.data(), small.size());
  next->send(0, 8);
  EXPECT_EQ(error_of([&] { next->waitSend(); }), "the connection is closed");
}

TEST_F(TwoContexts, StrangersAreLeftOut) {
  reset(stranger());  // gone before anybody has taken it
  const int silent = stranger(), wrong = stranger(), longer = stranger();
  const std::vector<char> bytes(4096, '\x7f');
  EXPECT_EQ(send(wrong, bytes.data(), 20, MSG_NOSIGNAL), 20);
  EXPECT_EQ(send(longer, bytes.data(), bytes.size(), MSG_NOSIGNAL), 4096);
  connect();
  int sent = 5, came = 0;
  const auto from = one.createUnboundBuffer(&sent, sizeof sent);
  const auto to = zero.createUnboundBuffer(&came, sizeof came);
  from->send(0, 1);
  from->waitSend();
  to->recv(1, 1);
  to->waitRecv();
  EXPECT_EQ(came, 5);
  for (const int fd : {silent, wrong, longer}) close(fd);
}

TEST_F(TwoContexts, MoreStrangersThanAreKept) {
  std::vector<int> crowd;
  for (int i = 0; i < 100; ++i) crowd.push_back(stranger());
  connect();
  for (const int fd : crowd) close(fd);
}

TEST_F(TwoContexts, NobodyComes) {
  EXPECT_THROW(zero.connect(1, one.address(), Side::door,
                            std::chrono::steady_clock::now() + milliseconds(1)),
               DistTimeout);
  EXPECT_THAT(error_of([&] {
                one.connect(0, {'a', 'b'}, Side::caller, within(seconds(20)));
              }),
              ::testing::HasSubstr("its address has 2 bytes"));
}

// Members that call each other in a ring, each its next one first: nobody waits for ever, with a
// handshake in which both sides must take part, either.
TEST(GlooContext, MembersCallEachOtherInARing) {
  std::vector<std::shared_ptr<const Tls>> tls;
  MemberKeys keys;
  for (int i = 0; i < 3; ++i) {
    tls.push_back(std::make_shared<const Tls>());
    keys.of.push_back(tls.back()->own());
  }
  std::vector<std::unique_ptr<GlooContext>> all;
  for (int i = 0; i < 3; ++i)
    all.push_back(std::make_unique<GlooContext>(
        "127.0.0.1", i, 3, seconds(20), MemberKeys{tls[static_cast<std::size_t>(i)], keys.of}));
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, i] {
      const int next = (i + 1) % 3, last = (i + 2) % 3;
      const auto of = [&](int p) -> GlooContext& { return *all[static_cast<std::size_t>(p)]; };
      errors[static_cast<std::size_t>(i)] = error_of([&] {
        of(i).connect(next, of(next).address(), Side::caller, within(seconds(20)));
        of(i).connect(last, of(last).address(), Side::door, within(seconds(20)));
        int out = i, in = -1;
        const auto to = of(i).createUnboundBuffer(&out, sizeof out);
        const auto from = of(i).createUnboundBuffer(&in, sizeof in);
        to->send(next, 5);
        from->recv(last, 5);
        from->waitRecv();
        to->waitSend();
        check<DistError>(in == last, "the wrong member's number");
      });
    });
  for (auto& t : threads) t.join();
  for (const std::string& e : errors) EXPECT_EQ(e, "");
}

}  // namespace
}  // namespace gossamer::dist
#endif
