// The tar index: what GNU tar, POSIX tar and pax write, and hostile headers.
#include "gossamer/data/formats/tar.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/core/random.h"

namespace gossamer::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::vector<TarEntry> index_of(const std::string& archive) {
  return index_tar(to_bytes(archive), "x.tar");
}
std::string content(const std::string& archive, const TarEntry& entry) {
  return archive.substr(entry.offset, entry.bytes);
}
std::string refusal(const std::string& archive) {
  return error_of([&] { index_of(archive); });
}

std::string pax(const std::string& key, const std::string& value) {
  std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return std::to_string(length) + rest;
}

TEST(Tar, FindsFilesAndSkipsTheRest) {
  const std::string archive = tar_member("cat/", "", '5') + tar_member("./cat/a.jpg", "first") +
                              tar_member("cat/link.jpg", "", '2') +
                              tar_member("cat/b.jpg", std::string(700, 'b'), '\0') + tar_end();
  const auto entries = index_of(archive);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].name, "cat/a.jpg");
  EXPECT_EQ(content(archive, entries[0]), "first");
  EXPECT_EQ(content(archive, entries[1]), std::string(700, 'b'));
}

TEST(Tar, UnderstandsLongNames) {
  const std::string name = "class/" + std::string(180, 'n') + ".jpg",
                    other = "class/" + std::string(300, 'p') + ".jpg";
  const std::string archive =
      tar_member("././@LongLink", name + '\0', 'L') + tar_member("short", "gnu") +
      tar_member("PaxHeader", pax("mtime", "1.5") + pax("path", other), 'x') +
      tar_member("short", "pax") + tar_member("c.jpg", "prefix", '0', "far/away") +
      tar_member("d.jpg", "plain") + tar_end();
  const auto entries = index_of(archive);
  ASSERT_EQ(entries.size(), 4u);
  EXPECT_EQ(entries[0].name, name);
  EXPECT_EQ(entries[1].name, other);
  EXPECT_EQ(entries[2].name, "far/away/c.jpg");
  // what was said of the one before is forgotten
  EXPECT_EQ(entries[3].name, "d.jpg");
  EXPECT_EQ(content(archive, entries[1]), "pax");
}

TEST(Tar, UnderstandsLargeSizes) {
  std::string binary(12, '\0');
  binary[0] = '\x80';
  binary[11] = 5;
  const std::string archive = tar_member("a.jpg", "12345", '0', "", binary) +
                              tar_member("p", pax("size", "3"), 'x') +
                              tar_member("b.jpg", "abc", '0', "", "00000000000") + tar_end();
  const auto entries = index_of(archive);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(content(archive, entries[0]), "12345");
  EXPECT_EQ(content(archive, entries[1]), "abc");
}

TEST(Tar, LooksIntoArchivesInside) {
  const std::string inner =
      tar_member("n01_1.JPEG", "one") + tar_member("n01_2.JPEG", "two") + tar_end();
  const std::string archive =
      tar_member("n01440764.tar", inner) + tar_member("n02/x.JPEG", "three") + tar_end();
  const auto entries = index_of(archive);
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[1].name, "n01440764/n01_2.JPEG");
  EXPECT_EQ(content(archive, entries[1]), "two");
  EXPECT_EQ(content(archive, entries[2]), "three");
}

TEST(Tar, LeavesHiddenFilesOut) {
  const auto entries =
      index_of(tar_member("cat/._a.jpg", "attributes") + tar_member("cat/a.jpg", "x") +
               tar_member("./.b.jpg", "y") + tar_end());
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].name, "cat/a.jpg");
}

std::string hard_link(const std::string& name, const std::string& target) {
  std::string member = tar_member(name, "", '1');
  std::copy(target.begin(), target.end(), member.begin() + 157);
  std::fill_n(member.begin() + 148, 8, ' ');
  unsigned sum = 0;
  for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(member[i]);
  std::snprintf(member.data() + 148, 8, "%06o", sum);
  return member;
}

TEST(Tar, ResolvesHardLinksOrSaysThatItCant) {
  const std::string name = "dog/" + std::string(150, 'n') + ".jpg",
                    first = tar_member("./cat/a.jpg", "first");
  const std::string archive =
      first + hard_link("dog/b.jpg", "./cat/a.jpg") + tar_member("p", pax("path", name), 'x') +
      tar_member("short", "second") + tar_member("././@LongLink", name + '\0', 'K') +
      hard_link("c/c.jpg", "cut") + tar_member("p", pax("linkpath", name), 'x') +
      hard_link("c/d.jpg", "cut") + hard_link("c/notes.txt", "gone") + tar_end();
  const auto entries = index_of(archive);
  ASSERT_EQ(entries.size(), 5u);
  EXPECT_EQ(entries[1].name, "dog/b.jpg");
  EXPECT_EQ(content(archive, entries[1]), "first");
  EXPECT_EQ(content(archive, entries[3]), "second");
  EXPECT_EQ(content(archive, entries[4]), "second");
  EXPECT_THAT(refusal(first + hard_link("dog/b.jpg", "cat/gone.jpg")),
              AllOf(HasSubstr("'dog/b.jpg' is a hard link to 'cat/gone.jpg'"),
                    HasSubstr("--hard-dereference")));
}

// What shows them makes them printable.
TEST(Tar, KeepsTheBytesOfNames) {
  EXPECT_EQ(index_of(tar_member("cat/\x1b[2J\n.jpg", "x") + tar_end())[0].name,
            "cat/\x1b[2J\n.jpg");
  EXPECT_EQ(index_of(tar_member("p", pax("path", "cat/\a.jpg"), 'x') + tar_member("s", "x") +
                     tar_end())[0]
                .name,
            "cat/\a.jpg");
}

TEST(Tar, RefusesSparseFilesOfEveryKind) {
  EXPECT_THAT(refusal(tar_member("cat/a.jpg", "x", 'S')),
              AllOf(HasSubstr("'cat/a.jpg' is stored sparse"), HasSubstr("--sparse")));
  const std::string described = pax("GNU.sparse.major", "1") + pax("GNU.sparse.minor", "0") +
                                pax("GNU.sparse.name", "cat/a.jpg") +
                                // what GNU tar --format=posix --sparse writes
                                pax("GNU.sparse.realsize", "1000");
  EXPECT_THAT(refusal(tar_member("p", described, 'x') +
                      tar_member("cat/GNUSparseFile.20537/a.jpg", "1\n0\n1000\n")),
              AllOf(HasSubstr("'cat/a.jpg' is stored sparse"), HasSubstr("--sparse")));
}

TEST(Tar, RefusesASecondArchiveBehindTheEnd) {
  const std::string a = tar_member("cat/a.jpg", "x") + tar_end(),
                    b = tar_member("cat/b.jpg", "y") + tar_end();
  EXPECT_THAT(refusal(a + std::string(8192, '\0') + b),
              AllOf(HasSubstr("x.tar: unreadable tar at byte 10240: another archive follows"),
                    HasSubstr("tar --concatenate")));
  EXPECT_EQ(index_of(a + std::string(8192, '\0')).size(), 1u);
  // what a tape held before is no archive
  EXPECT_EQ(index_of(a + std::string(700, 'q')).size(), 1u);
  EXPECT_THAT(refusal(tar_member("n.tar", a + b) + tar_end()), HasSubstr("at byte 2560"));
}

TEST(Tar, TakesNoContentOfLinksAndFolders) {
  for (const char type : {'1', '2', '3', '4', '5', '6'}) {
    const std::string other = type == '1' ? tar_member("cat/notes", "", type, "", "00000001750")
                                          : tar_member("cat/", "", type, "", "00000001750");
    const auto entries = index_of(tar_member("cat/a.jpg", "first") + other +
                                  tar_member("cat/b.jpg", "second") + tar_end());
    ASSERT_EQ(entries.size(), 2u) << type;
    EXPECT_EQ(entries[1].name, "cat/b.jpg");
  }
}

// GNU tar, POSIX tar, Python and Go write two zero blocks; one is enough.
TEST(Tar, IsCutOffWithoutItsEndMark) {
  const std::string two = tar_member("a/b.jpg", "x") + tar_member("a/c.jpg", "y");
  EXPECT_EQ(index_of(two + tar_end()).size(), 2u);
  EXPECT_EQ(index_of(two + std::string(512, '\0')).size(), 2u);
  for (const std::size_t length : {two.size(), two.size() - 100, two.size() / 2})
    EXPECT_THAT(refusal(two.substr(0, length)),
                AllOf(HasSubstr("x.tar: unreadable tar at byte " + std::to_string(length)),
                      HasSubstr("no end mark"), HasSubstr("head -c 1024 /dev/zero >> x.tar")));
  EXPECT_EQ(index_of(two.substr(0, two.size() - 100) + std::string(1024, '\0')).size(), 2u);
  EXPECT_THAT(refusal(tar_member("n.tar", two) + tar_end()),
              AllOf(HasSubstr("no end mark"), HasSubstr("pack it again.")));
}

TEST(Tar, NamesTheArchiveAndThePlaceOfDamage) {
  const std::string good =
      tar_member("a/b.jpg", std::string(2000, 'x')) + tar_member("a/c.jpg", "y") + tar_end();
  EXPECT_THAT(refusal(good.substr(0, 1500)),
              AllOf(HasSubstr("x.tar: unreadable tar at byte 0"),
                    HasSubstr("'a/b.jpg' needs 2000 bytes, 988 are left")));
  std::string flipped = good;
  flipped[2560 + 3] ^= 1;
  EXPECT_THAT(refusal(flipped), AllOf(HasSubstr("byte 2560"), HasSubstr("damaged header")));
  EXPECT_THAT(refusal(std::string(4096, 'q')), HasSubstr("not a tar archive"));
  EXPECT_THAT(refusal("short"), HasSubstr("only 5 bytes"));
  EXPECT_THAT(refusal(""), HasSubstr("empty"));
  EXPECT_THAT(refusal("\x1F\x8B" + std::string(600, 'z')), HasSubstr("compressed"));
  EXPECT_THAT(refusal(good.substr(0, 2560 + 100)), HasSubstr("cut off inside a header"));
}

TEST(Tar, RefusesHostileNumbers) {
  EXPECT_THAT(refusal(tar_member("a.jpg", "x", '0', "", "77777777777")),
              HasSubstr("needs 8589934591 bytes"));
  EXPECT_THAT(refusal(tar_member("a.jpg", "x", '0', "",
                                 "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")),
              HasSubstr("size of a file is unreadable"));
  std::string huge(12, '\xff');
  huge[0] = '\x80';
  EXPECT_THAT(refusal(tar_member("a.jpg", "x", '0', "", huge)),
              HasSubstr("size of a file is unreadable"));
  // 2^64 - 1: must not wrap around
  huge = std::string("\x80\0\0\0", 4) + std::string(8, '\xff');
  EXPECT_THAT(refusal(tar_member("a.jpg", "x", '0', "", huge)), HasSubstr("cut off"));
  EXPECT_THAT(refusal(tar_member("a.jpg", "x", '0', "", "12z45")), HasSubstr("unreadable"));
  for (const char* record : {"99 path=a\n", "-5 path=a\n", "3 p", "99999999999999999999 path=a\n",
                             "12 nothing..\n", "x"})
    EXPECT_THAT(refusal(tar_member("p", record, 'x') + tar_member("a.jpg", "x")),
                HasSubstr("damaged pax record"))
        << record;
  EXPECT_THAT(
      refusal(tar_member("p", pax("size", "999999999999999999"), 'x') + tar_member("a.jpg", "x")),
      HasSubstr("cut off"));
  EXPECT_THAT(refusal(tar_member("p", std::string(70000, 'a'), 'L') + tar_member("a.jpg", "x")),
              HasSubstr("a name of 70000 bytes"));
}

TEST(Tar, KeepsEveryEntryInsideWhateverTheBytesAre) {
  const std::string good = tar_member("././@LongLink", std::string(150, 'n') + '\0', 'L') +
                           tar_member("a", "b") + tar_member("p", pax("path", "q/r.jpg"), 'x') +
                           tar_member("c", std::string(600, 'd')) +
                           tar_member("i.tar", tar_member("k.jpg", "l") + tar_end()) + tar_end();
  Rng rng(2);
  for (int i = 0; i < 3000; ++i) {
    std::string damaged = good;
    const std::size_t at = rng.below(static_cast<std::uint32_t>(good.size()));
    damaged[at] = static_cast<char>(rng.word());
    // The checksum is made right again, else nothing gets past it.
    const std::size_t header = at / 512 * 512;
    for (int k = 0; k < 8; ++k) damaged[header + 148 + k] = ' ';
    unsigned sum = 0;
    for (int k = 0; k < 512; ++k) sum += static_cast<unsigned char>(damaged[header + k]);
    char text[8];
    std::snprintf(text, sizeof text, "%06o", sum);
    std::memcpy(&damaged[header + 148], text, 7);
    if (i % 2) damaged.resize(rng.below(static_cast<std::uint32_t>(damaged.size())));
    try {
      for (const TarEntry& entry : index_of(damaged)) {
        ASSERT_LE(entry.bytes, damaged.size());
        ASSERT_LE(entry.offset, damaged.size() - entry.bytes);
      }
    } catch (const DataError&) {
    }
  }
}

}  // namespace
}  // namespace gossamer::data
