// Control frames: round trips, and bytes that nobody of ours would send.
#include "gossamer/dist/net/wire.h"

#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace gossamer::dist::wire {
namespace {

std::span<const std::uint8_t, kFrameBytes> head(const Bytes& b) {
  return std::span<const std::uint8_t, kFrameBytes>(b.data(), kFrameBytes);
}

Frame sample(Kind kind) {
  Frame f;
  f.kind = kind;
  f.rank = 7;
  if (kind == Kind::hello) f.world = 64, f.port = 65535, f.purpose = Purpose::rejoin;
  if (kind == Kind::hello || kind == Kind::welcome) f.life = 0xabcdef9876543210ull;
  if (kind == Kind::beat) f.clock = {1.5e15, 2.5e15, 3.5e15};
  const bool edge = kind == Kind::edge_reset || kind == Kind::collectives_ended;
  if (kind == Kind::key_value || edge || kind == Kind::beat) f.key = 0x0123456789abcdefull;
  if (edge) f.edge = 0xfedcba9876543210ull;
  if (kind == Kind::message) f.message = {MessageType::decline, 0xfffffffeu, 3, 1e300, -0.0, 0.1};
  return f;
}

TEST(Wire, EveryKindSurvivesTheRoundTrip) {
  for (int k = static_cast<int>(Kind::hello); k <= static_cast<int>(Kind::taken); ++k) {
    const Frame f = sample(static_cast<Kind>(k));
    const Bytes b = encode(f);
    ASSERT_EQ(b.size(), kFrameBytes);
    Frame back;
    ASSERT_EQ(decode(head(b), back), nullptr) << k;
    EXPECT_EQ(back.kind, f.kind);
    EXPECT_EQ(back.rank, f.rank);
    EXPECT_EQ(back.world, f.world);
    EXPECT_EQ(back.port, f.port);
    EXPECT_EQ(back.purpose, f.purpose);
    EXPECT_EQ(back.life, f.life);
    EXPECT_EQ(back.key, f.key);
    EXPECT_EQ(back.edge, f.edge);
    EXPECT_EQ(back.clock.sent, f.clock.sent);
    EXPECT_EQ(back.clock.echo, f.clock.echo);
    EXPECT_EQ(back.clock.heard, f.clock.heard);
    EXPECT_EQ(back.message.type, f.message.type);
    EXPECT_EQ(back.message.epoch, f.message.epoch);
    EXPECT_EQ(back.message.nonce, f.message.nonce);
    EXPECT_EQ(back.message.progress, f.message.progress);
    EXPECT_EQ(back.message.gradients, f.message.gradients);
    EXPECT_EQ(back.message.value, f.message.value);
    EXPECT_EQ(encode(back), b);
  }
}

TEST(Wire, WhatIsSaidAboutAJobSurvivesTheRoundTrip) {
  std::uint32_t started = 0;
  std::string text;
  const Bytes bytes = encode_about(5, "train.batch = 3\n");
  ASSERT_EQ(decode_about(bytes, started, text), nullptr);
  EXPECT_EQ(started, 5u);
  EXPECT_EQ(text, "train.batch = 3\n");
  EXPECT_NE(decode_about(std::span(bytes).first(3), started, text), nullptr);
  for (const std::uint32_t wrong : {0u, kMostRanks + 1})
    EXPECT_NE(decode_about(encode_about(wrong, ""), started, text), nullptr) << wrong;
  EXPECT_EQ(started, 5u) << "a refusal changes nothing";
}

TEST(Wire, TheLayoutIsFixedForOtherMachines) {
  const Bytes b = encode(sample(Kind::message));
  EXPECT_EQ(std::string(b.begin(), b.begin() + 4), "GSMR");
  EXPECT_EQ(b[4], kVersion);
  EXPECT_EQ(b[12], 7);  // little-endian
  EXPECT_EQ(b[16], 0xfe);
  EXPECT_EQ(b[19], 0xff);
  EXPECT_EQ(b[31], 0x7e);  // 1e300
}

TEST(Wire, APayloadFollowsItsFrame) {
  const Bytes text = to_bytes("because");
  const Bytes b = encode(sample(Kind::reject), text);
  ASSERT_EQ(b.size(), kFrameBytes + 7);
  Frame f;
  ASSERT_EQ(decode(head(b), f), nullptr);
  EXPECT_EQ(f.payload_bytes, 7u);
}

TEST(Wire, RefusesWhatNoneOfOursSends) {
  const Bytes good = encode(sample(Kind::message));
  auto with = [&](std::size_t at, std::uint8_t value) {
    Bytes b = good;
    b[at] = value;
    Frame f;
    return decode(head(b), f);
  };
  EXPECT_EQ(with(12, 8), nullptr);   // another rank is fine
  EXPECT_NE(with(0, 'X'), nullptr);  // magic
  EXPECT_NE(with(4, kVersion + 1), nullptr);
  EXPECT_NE(with(5, 0), nullptr);  // kind
  EXPECT_NE(with(5, 200), nullptr);
  EXPECT_NE(with(6, static_cast<int>(MessageType::notice) + 1), nullptr);
  EXPECT_NE(with(7, 1), nullptr);   // unused byte
  EXPECT_NE(with(8, 1), nullptr);   // a message has no payload
  EXPECT_NE(with(14, 1), nullptr);  // rank 65543
  EXPECT_NE(with(63, 1), nullptr);  // unused byte
  for (double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    Frame f = sample(Kind::message), out;
    f.message.progress = bad;
    EXPECT_NE(decode(head(encode(f)), out), nullptr);
  }
  Bytes large = encode(sample(Kind::key_value));
  large[10] = 0xff;  // a payload of 16 MB
  Frame out;
  EXPECT_NE(decode(head(large), out), nullptr);
  EXPECT_EQ(out.rank, 0u) << "a refused frame leaves the output alone";
}

TEST(Wire, RandomBytesAndFlippedBitsNeverPassForSomethingElse) {
  std::mt19937 random(1);
  Frame f;
  for (int i = 0; i < 20000; ++i) {
    Bytes b(kFrameBytes);
    for (auto& x : b) x = static_cast<std::uint8_t>(random());
    if (i % 2 == 0) {  // with a good start, to get further
      const Bytes start = encode(sample(static_cast<Kind>(1 + random() % 11)));
      std::memcpy(b.data(), start.data(), 16 + random() % 48);
    }
    if (decode(head(b), f) == nullptr && f.payload_bytes == 0) {
      EXPECT_EQ(encode(f), b);
    }
  }
}

TEST(Wire, EachTextIsAKeyOfItsOwn) {
  EXPECT_NE(make_token("a"), make_token("b"));
  EXPECT_NE(make_token(""), Token{});
  EXPECT_EQ(make_token("same"), make_token("same"));
}

TEST(Wire, TablesRoundTripAndCutOnesAreRefused) {
  const std::vector<Address> table = {
      {"127.0.0.1", 1}, {"", 0}, {"fe80::1", 65535}, {"10.1.2.3", 29500}};
  const Bytes b = encode_table(table);
  std::vector<Address> back;
  ASSERT_EQ(decode_table(b, back), nullptr);
  ASSERT_EQ(back.size(), table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(back[i].host, table[i].host);
    EXPECT_EQ(back[i].port, table[i].port);
  }
  for (std::size_t n = 0; n < b.size(); ++n) {
    EXPECT_NE(decode_table(std::span(b).first(n), back), nullptr) << n;
  }
  Bytes longer = b;
  longer.push_back(0);
  EXPECT_NE(decode_table(longer, back), nullptr);
  Bytes many = b;
  many[2] = 0xff;  // 16 million entries
  EXPECT_NE(decode_table(many, back), nullptr);
  EXPECT_NE(decode_table(encode_table({{"evil; rm", 1}}), back), nullptr);
}

TEST(Wire, WordsOfAPeerAreMadePrintable) {
  const std::string nasty = std::string("ok\x1b[2J\n\0x", 8) + std::string(2000, 'a');
  const std::string text = printable(to_bytes(nasty));
  EXPECT_EQ(text.substr(0, 21), "ok\\x1b[2J\\x0a\\x00aaaa");
  EXPECT_LT(text.size(), 520u);
}

}  // namespace
}  // namespace gossamer::dist::wire
