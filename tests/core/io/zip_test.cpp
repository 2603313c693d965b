// The zip directory: what is stored is found and checked, all else is refused with its reason.
#include "gossamer/core/io/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/error_of.h"
#include "support/torch_bytes.h"

namespace gossamer {
namespace {

using testing::HasSubstr;

std::string listed(const std::string& bytes) {
  const InputFile file(std::as_bytes(std::span(bytes)), "f.zip");
  std::string out;
  for (const ZipEntry& e : zip_entries(file)) {
    std::string content(e.size, '\0');
    read_zip_entry(file, e, std::as_writable_bytes(std::span(content)));
    out += e.name + "=" + content + ";";
  }
  return out;
}
std::string refusal(const std::string& bytes) {
  return error_of<IoError>([&] { listed(bytes); });
}
// The bytes with `value` at `at` behind the n-th occurrence of a mark.
template <class T>
std::string changed(std::string bytes, const char* mark, std::size_t at, T value) {
  const std::size_t begin = bytes.find(mark);
  EXPECT_NE(begin, bytes.npos);
  return bytes.replace(begin + at, sizeof value, raw(value));
}

const std::vector<ZipParts> kTwo{{"a/x", "hello"}, {"a/y", ""}};

TEST(Zip, EntriesAreListedInBothForms) {
  for (const bool zip64 : {false, true})
    EXPECT_EQ(listed(zip_bytes(kTwo, zip64)), "a/x=hello;a/y=;") << zip64;
  EXPECT_EQ(listed(zip_bytes({})), "");
}

TEST(Zip, ACommentMayFollow) {
  std::string bytes = zip_bytes(kTwo);
  bytes.replace(bytes.size() - 2, 2, raw<std::uint16_t>(4));
  EXPECT_EQ(listed(bytes + "PK\5\6"), "a/x=hello;a/y=;");
}

TEST(Zip, EveryByteThatIsCutOffIsNoticed) {
  for (const bool zip64 : {false, true}) {
    const std::string whole = zip_bytes(kTwo, zip64);
    for (std::size_t n = 0; n < whole.size(); ++n)
      EXPECT_NE(refusal(whole.substr(0, n)), "no error") << n;
  }
}

TEST(Zip, WhatIsNotStoredAsItIsIsRefused) {
  const std::string good = zip_bytes(kTwo);
  EXPECT_THAT(refusal(changed<std::uint16_t>(good, "PK\1\2", 10, 8)),
              HasSubstr("f.zip: \"a/x\" is compressed"));
  EXPECT_THAT(refusal(changed<std::uint16_t>(good, "PK\1\2", 8, 1)),
              HasSubstr("\"a/x\" is encrypted"));
  EXPECT_THAT(refusal(changed<std::uint16_t>(good, "PK\5\6", 4, 1)), HasSubstr("several files"));
}

TEST(Zip, DamageIsRefused) {
  const std::string good = zip_bytes(kTwo);
  EXPECT_THAT(refusal(changed<char>(good, "hello", 1, 'a')),
              HasSubstr("the checksum of \"a/x\" is wrong"));
  EXPECT_THAT(refusal(changed<std::uint32_t>(good, "PK\1\2", 42, 1)),
              HasSubstr("\"a/x\" is not where the zip directory says"));
  EXPECT_THAT(refusal(changed<std::uint16_t>(good, "PK\5\6", 10, 3)),
              HasSubstr("entry 2 of its zip directory is damaged"));
  EXPECT_THAT(refusal(changed<std::uint32_t>(good, "PK\5\6", 16, 1 << 30)),
              HasSubstr("points beyond its end"));
  EXPECT_THAT(refusal(zip_bytes({{"a", ""}, {"a", ""}})), HasSubstr("\"a\" is twice"));
  std::string longer = changed<std::uint32_t>(good, "PK\1\2", 24, 6);
  EXPECT_THAT(refusal(changed<std::uint32_t>(longer, "PK\1\2", 20, 6)),
              HasSubstr("the checksum of \"a/x\" is wrong"));
  std::string overlap = changed<std::uint32_t>(good, "PK\1\2", 24, 60);
  EXPECT_THAT(refusal(changed<std::uint32_t>(overlap, "PK\1\2", 20, 60)),
              HasSubstr("\"a/x\" and \"a/y\" overlap"));
}

}  // namespace
}  // namespace gossamer
