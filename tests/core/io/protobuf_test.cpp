// The examples of https://protobuf.dev/programming-guides/encoding, and each kind of number.
#include "gossamer/core/io/protobuf.h"

#include <limits>

#include <gtest/gtest.h>

namespace gossamer::protobuf {
namespace {

std::string bytes(std::initializer_list<int> list) {
  std::string out;
  for (const int byte : list) out += static_cast<char>(byte);
  return out;
}

TEST(Protobuf, FieldsAreTheBytesOfItsPage) {
  EXPECT_EQ(field(1, std::uint64_t{150}), bytes({0x08, 0x96, 0x01}));
  EXPECT_EQ(field(2, "testing"), bytes({0x12, 7}) + "testing");
  EXPECT_EQ(field(3, field(1, std::int64_t{150})), bytes({0x1a, 3, 0x08, 0x96, 0x01}));
  EXPECT_EQ(field(1, std::int64_t{-2}),
            bytes({0x08, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}));
}

TEST(Protobuf, KeysAndNumbersMayHaveManyBytes) {
  EXPECT_EQ(field(20, std::int64_t{7}), bytes({0xa0, 0x01, 7}));
  EXPECT_EQ(field(1, std::uint64_t{0}), bytes({0x08, 0}));
  EXPECT_EQ(field(1, std::numeric_limits<std::int64_t>::max()),
            bytes({0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}));
  EXPECT_EQ(field(2, 1.5f), bytes({0x15, 0, 0, 0xc0, 0x3f}));
  EXPECT_EQ(field(2, -2.0), bytes({0x11, 0, 0, 0, 0, 0, 0, 0, 0xc0}));
  EXPECT_EQ(field(4, std::string(300, 'x')), bytes({0x22, 0xac, 0x02}) + std::string(300, 'x'));
}

}  // namespace
}  // namespace gossamer::protobuf
