// The proof of the token: published values of SipHash, and that no proof is good for anything but
// its own connection.
#include "gossamer/dist/net/greeting.h"

#include <gtest/gtest.h>

namespace gossamer::dist {
namespace {

using greeting::kHelloBytes;
using greeting::Nonce;

TEST(SipHash, GivesThePublishedValues) {
  // vectors_sip128 of the reference implementation (github.com/veorq/SipHash): key 00 01 … 0f,
  // message 00 01 …
  SipKey key;
  for (std::uint8_t i = 0; i < 16; ++i) key[i] = i;
  EXPECT_EQ(siphash(key, {}), (SipCode{0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6,
                                       0x72, 0x14, 0xc7, 0x55, 0x02, 0x93}));
  const std::uint8_t zero[1] = {0};
  EXPECT_EQ(siphash(key, zero), (SipCode{0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76,
                                         0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45}));
}

TEST(SipHash, EveryBitOfKeyMessageAndLengthMatters) {
  SipKey key{};
  std::vector<std::uint8_t> message(19, 7);
  const SipCode before = siphash(key, message);
  for (std::size_t i = 0; i < 16; ++i) {
    SipKey other = key;
    other[i] ^= 0x10;
    EXPECT_NE(siphash(other, message), before);
  }
  for (std::size_t i = 0; i < message.size(); ++i) {
    auto other = message;
    other[i] ^= 0x01;
    EXPECT_NE(siphash(key, other), before);
  }
  message.push_back(0);
  EXPECT_NE(siphash(key, message), before);
}

constexpr std::uint32_t kDoor = 1;

struct Greeting : ::testing::Test {
  Greeting() {
    frame.kind = wire::Kind::hello;
    frame.rank = 3;
    frame.world = 4;
    frame.life = 99;
    bytes = greeting::hello(token, challenge, frame, own, kDoor);
  }
  std::span<const std::uint8_t, kHelloBytes> span() const {
    return std::span<const std::uint8_t, kHelloBytes>(bytes.data(), kHelloBytes);
  }
  const wire::Token token = wire::make_token("secret");
  const Nonce challenge = greeting::fresh(), own = greeting::fresh();
  wire::Frame frame;
  wire::Bytes bytes;
};

TEST_F(Greeting, ProvesTheTokenForThisChallengeAndThisHelloOnly) {
  ASSERT_EQ(bytes.size(), kHelloBytes);
  EXPECT_TRUE(greeting::proves(token, challenge, span(), kDoor));
  EXPECT_EQ(greeting::nonce_of(span()), own);
  EXPECT_FALSE(greeting::proves(wire::make_token("Secret"), challenge, span(), kDoor));
  EXPECT_FALSE(greeting::proves(token, greeting::fresh(), span(), kDoor))
      << "heard before, said again";
  for (std::size_t i = 0; i < kHelloBytes; ++i) {
    bytes[i] ^= 0x40;
    EXPECT_FALSE(greeting::proves(token, challenge, span(), kDoor)) << "byte " << i;
    bytes[i] ^= 0x40;
  }
}

TEST_F(Greeting, IsGoodForTheWorkerThatIsCalledOnly) {
  EXPECT_FALSE(greeting::proves(token, challenge, span(), 2)) << "relayed to another door";
  EXPECT_NE(greeting::answer(token, challenge, own, 2),
            greeting::answer(token, challenge, own, kDoor));
  bytes = greeting::hello(token, challenge, frame, own, greeting::kAnyone);
  EXPECT_TRUE(greeting::proves(token, challenge, span(), 2));
}

TEST_F(Greeting, TheTokenNeverTravels) {
  EXPECT_EQ(std::search(bytes.begin(), bytes.end(), token.begin(), token.end()), bytes.end());
}

TEST_F(Greeting, ACodeOfOneSideIsNoneOfTheOther) {
  const SipCode answer = greeting::answer(token, challenge, own, kDoor);
  EXPECT_FALSE(greeting::same(answer, std::span(bytes).last(16)));
  EXPECT_NE(answer, greeting::answer(token, own, challenge, kDoor)) << "a reflected challenge";
  EXPECT_NE(greeting::connection_id(token, challenge, own),
            greeting::connection_id(token, own, challenge));
  EXPECT_NE(greeting::fresh(), greeting::fresh());
}

}  // namespace
}  // namespace gossamer::dist
