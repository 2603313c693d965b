// The proof of the token: published values of HMAC-SHA-256, and that no proof is good for anything
// but its own connection.
#include "gossamer/dist/net/greeting.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace gossamer::dist {
namespace {

using greeting::kHelloBytes;
using greeting::Nonce;

TEST(Hmac, GivesThePublishedValues) {
  // RFC 4231, test cases 1 and 2.
  const auto bytes = [](const std::string& text) { return wire::to_bytes(text); };
  const auto hexadecimal = [](const Code& code) {
    std::string text;
    for (const std::uint8_t b : code)
      for (const int digit : {b >> 4, b & 15}) text += "0123456789abcdef"[digit];
    return text;
  };
  EXPECT_EQ(hexadecimal(hmac(wire::Bytes(20, 0x0b), bytes("Hi There"))),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hexadecimal(hmac(bytes("Jefe"), bytes("what do ya want for nothing?"))),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
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
  const Code answer = greeting::answer(token, challenge, own, kDoor);
  EXPECT_FALSE(greeting::same(answer, std::span(bytes).last(sizeof(Code))));
  EXPECT_NE(answer, greeting::answer(token, own, challenge, kDoor)) << "a reflected challenge";
  EXPECT_NE(greeting::connection_id(token, challenge, own),
            greeting::connection_id(token, own, challenge));
  EXPECT_NE(greeting::fresh(), greeting::fresh());
}

}  // namespace
}  // namespace gossamer::dist
