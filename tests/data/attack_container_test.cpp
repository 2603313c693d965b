// Containers made to hurt: sizes and counts that nothing bears out. Each gives samples or an error
// with the file's name, within the limits of limits.h. Large files are holes on the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/formats.h"
#include "data/limits.h"
#include "gossamer/data/dataset/find.h"
#include "gossamer/data/formats/index_file.h"
#include "gossamer/data/formats/packed.h"
#include "gossamer/data/hash.h"

namespace gossamer::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uintmax_t kGiga = std::uintmax_t{1} << 30;

// Opens a file and reads every sample. The first error, or "no error".
std::string attack(const std::string& path) {
  const Limits limits(path);
  return error_of([&] {
    const auto set = open({path});
    Bytes buffer;
    for (i64 i = 0; i < set->size(); ++i) set->bytes(i, buffer);
  });
}

class ContainerAttack : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& content, std::uintmax_t bytes = 0) {
    const std::string path = folder.write(name, to_bytes(content));
    if (bytes > content.size()) std::filesystem::resize_file(path, bytes);
    return path;
  }
  TempFolder folder;
};

std::string octal(std::uint64_t value) {
  char text[13];
  std::snprintf(text, sizeof text, "%011llo", static_cast<unsigned long long>(value));
  return text;
}
// A size in base 256, as GNU tar writes large ones; the first byte says so, and with 0xFF that it
// is negative.
std::string base256(std::uint64_t value, char first = '\x80') {
  std::string text(12, first == '\x80' ? '\0' : '\xFF');
  text[0] = first;
  for (int i = 0; i < 8; ++i)
    text[static_cast<std::size_t>(11 - i)] = static_cast<char>(value >> (8 * i));
  return text;
}
// A header that claims a size without the bytes that belong to it.
std::string header(const std::string& name, char type, const std::string& size) {
  return tar_member(name, "", type, "", size).substr(0, 512);
}
std::string pax(const std::string& key, const std::string& value, const std::string& claimed = "") {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length) ++length;
  return (claimed.empty() ? std::to_string(length) : claimed) + rest;
}

TEST_F(ContainerAttack, TarSizes) {
  const std::string good = tar_member("cat/0.jpg", "good");
  int i = 0;
  for (const std::string& size :
       {octal((1ull << 33) - 1), base256(~0ull), base256(1ull << 62), base256(~0ull - 511),
        base256(0, '\xFF'), base256(~0ull, '\xFF'), std::string("-0000000001\0", 12),
        std::string("99999999999\0", 12)})
    for (const char type : {'0', 'L', 'K', 'x', 'g'}) {
      const std::string path = file("size" + std::to_string(i++) + ".tar",
                                    good + header("cat/1.jpg", type, size) + tar_end());
      EXPECT_THAT(attack(path), AllOf(StartsWith("E-DATA-05 " + path), HasSubstr("byte 1024")));
    }
  // A name, an attribute, a picture of a gigabyte that is there.
  EXPECT_THAT(attack(file("name.tar", good + header("x", 'L', octal(kGiga)), 2 * kGiga)),
              HasSubstr("a name of 1073741824 bytes"));
  EXPECT_THAT(attack(file("pax.tar", good + header("x", 'x', octal(kGiga)), 2 * kGiga)),
              HasSubstr("a name of 1073741824 bytes"));
  EXPECT_THAT(attack(file("picture.tar", good + header("cat/1.jpg", '0', octal(kGiga)), 2 * kGiga)),
              AllOf(HasSubstr("cat/1.jpg"), HasSubstr("are no picture")));
}

TEST_F(ContainerAttack, PaxRecords) {
  const auto with = [&](const std::string& record) {
    return file("pax.tar",
                tar_member("p", record, 'x') + tar_member("cat/1.jpg", "four") + tar_end());
  };
  for (const char* size :
       {"18446744073709551615", "99999999999999999999999999", "1073741824", "5000"})
    EXPECT_THAT(attack(with(pax("size", size))), HasSubstr("pax.tar: ")) << size;
  EXPECT_THAT(attack(with(pax("size", "-1"))), HasSubstr("damaged pax record"));
  for (const char* length : {"0", "1", "999999999", "18446744073709551616", "-5"})
    EXPECT_THAT(attack(with(pax("path", "cat/x.jpg", length))), HasSubstr("damaged pax record"))
        << length;
}

TEST_F(ContainerAttack, ArchivesInsideArchives) {
  std::string nested = tar_member("cat/1.jpg", "deep");
  for (int i = 0; i < 200; ++i) nested = tar_member("n.tar", nested + tar_end());
  EXPECT_THAT(attack(file("nested.tar", nested + tar_end())), HasSubstr("no images"));
  // each with the name of the archive around it
  std::string names;
  for (int i = 0; i < 2000; ++i)
    names += tar_member("././@LongLink", std::string(4000, static_cast<char>('a' + i % 26)) + '\0',
                        'L') +
             tar_member("s", "x");
  EXPECT_THAT(attack(file("names.tar",
                          tar_member("././@LongLink", std::string(3000, 'n') + ".tar" + '\0', 'L') +
                              tar_member("x", names + tar_end()) + tar_end())),
              HasSubstr("names.tar: "));
}

TEST_F(ContainerAttack, TfRecords) {
  const auto claiming = [](std::uint64_t bytes) {
    const std::string length = little(bytes);
    return length + little(slow_masked_crc(length));
  };
  int i = 0;
  for (const std::uint64_t bytes : {~0ull, ~0ull - 12, ~0ull - 16, 1ull << 63, 1ull << 40, 100ull})
    EXPECT_THAT(attack(file(std::to_string(i++) + ".tfrecord", claiming(bytes) + "xxxx")),
                HasSubstr("record 0 at byte 0: cut off"))
        << bytes;
  EXPECT_THAT(attack(file("zeros.tfrecord", claiming(3 * kGiga), 4 * kGiga)),
              HasSubstr("not a tf.train.Example"));
  // Lengths inside that reach to the end of a record of 3 GB.
  const std::string inside = "\x0a" + varint(3 * kGiga - 20) + "\x0a" + varint(3 * kGiga - 40) +
                             "\x0a" + varint(3 * kGiga - 60);
  EXPECT_THAT(attack(file("inside.tfrecord", claiming(3 * kGiga) + inside, 4 * kGiga)),
              HasSubstr("inside.tfrecord: record 0"));
  const std::string image = feature("label", 1), key = message(1, "image");
  const std::string bytes = "\x0a" + varint(kGiga),
                    list = "\x0a" + varint(bytes.size() + kGiga) + bytes,
                    value = "\x12" + varint(list.size() + kGiga) + list;
  const std::string entry = "\x0a" + varint(key.size() + value.size() + kGiga) + key + value;
  // an image of a gigabyte
  const std::string example_ = "\x0a" + varint(image.size() + entry.size() + kGiga) + image + entry;
  EXPECT_THAT(attack(file("image.tfrecord", claiming(example_.size() + kGiga) + example_,
                          example_.size() + kGiga + 16)),
              HasSubstr("are no picture"));
  EXPECT_NE(attack(file("fields.tfrecord", record(example(std::string(8'000'000, '\x0a'))))),
            "no error");
  std::string empty;
  for (int field = 0; field < 4'000'000; ++field) empty += std::string("\x0a\0", 2);
  EXPECT_NE(attack(file("empty.tfrecord", record(example(empty)))), "no error");
}

// Bytes of an index: version and kind, then the four counts.
std::string counts(std::uint64_t samples, std::uint64_t classes, std::uint64_t left_out,
                   std::uint64_t text, std::uint8_t wrapping = 1) {
  return little<std::uint32_t>(1) + std::string{static_cast<char>(wrapping), '\0', '\0', '\0'} +
         little<std::uint64_t>(0) + little(samples) + little(classes) + little(left_out) +
         little(text);
}
std::uint64_t hash(const std::string& text) { return xxh3(std::as_bytes(std::span(text))); }

TEST_F(ContainerAttack, IndexCounts) {
  const std::uint64_t huge[] = {~0ull,      1ull << 63, 1ull << 61, (1ull << 62) + 1,
                                1ull << 32, 1'000'000};
  int i = 0;
  for (const std::uint64_t n : huge)
    for (const std::string& index : {counts(n, 0, 0, 0), counts(0, n, 0, 0), counts(0, 0, n, 0),
                                     counts(0, 0, 0, n), counts(n, n, n, n)}) {
      const Limits limits("index " + std::to_string(n));
      EXPECT_THAT(error_of([&] { decode_index(to_bytes(index), "x.pack", kGiga); }),
                  StartsWith("x.pack: damaged index"));
      // As a packed shard, and beside an archive, with checksums that are right.
      const auto wrapped = [&](const std::string& bytes) {
        std::string head = "GSPACK\r\n" + little<std::uint64_t>(1) + little<std::uint64_t>(64) +
                           little<std::uint64_t>(bytes.size()) + little(hash(bytes)) + little(n) +
                           little<std::uint64_t>(0);
        return head + little(hash(head)) + bytes;
      };
      const std::string path = file("shard" + std::to_string(i++) + ".pack", wrapped(index));
      EXPECT_THAT(attack(path), StartsWith("E-DATA-05 " + path));
    }
}

TEST_F(ContainerAttack, IndexOfEmptyTexts) {
  // 90 MB of texts without a letter: four bytes there, 32 in memory.
  const std::string index = counts(0, 0, 22'000'000, 0) + std::string(88'000'000, '\0');
  const Limits limits("empty texts");
  EXPECT_THAT(error_of([&] { decode_index(to_bytes(index), "x.pack", kGiga); }),
              HasSubstr("22000000 damaged images"));
}

TEST_F(ContainerAttack, AStoredIndexOfTheLargestSize) {
  const std::string tar = file("a.tar", tar_member("cat/1.jpg", "one") + tar_end());
  std::filesystem::resize_file(file("a.tar.gossamer-index", "GSINDEX3"), 8 * kGiga);
  EXPECT_EQ(attack(tar), "no error");  // it is not used
  std::filesystem::resize_file(folder / "a.tar.gossamer-index", kMaxIndexBytes);
  EXPECT_EQ(attack(tar), "no error");
}

TEST_F(ContainerAttack, WhatLiesBesideFlatImages) {
  std::string zeros(60 << 20, '\0');
  uLongf bytes = compressBound(zeros.size());
  std::string small(bytes, '\0');
  compress2(reinterpret_cast<Bytef*>(small.data()), &bytes,
            reinterpret_cast<const Bytef*>(zeros.data()), zeros.size(), 9);
  small.resize(bytes);
  zeros = {};
  const Bytes picture = encode_jpeg(pattern(16, 16));
  folder.write("val/ILSVRC2012_val_00000001.JPEG", picture);
  file("ILSVRC2012_validation_ground_truth.txt", "1\n");
  // A thousand compressed parts of 60 MB each in meta.mat.
  std::string mat = "MATLAB 5.0" + std::string(116, ' ');
  mat[124] = '\0', mat[125] = '\1';
  mat += "IM";
  for (int part = 0; part < 1000; ++part)
    mat += little<std::uint32_t>(15) + little(static_cast<std::uint32_t>(small.size())) + small;
  file("meta.mat", mat);
  EXPECT_THAT(attack(folder / "val"), HasSubstr("meta.mat: "));
  std::filesystem::remove(folder / "meta.mat");
  std::filesystem::remove(folder / "ILSVRC2012_validation_ground_truth.txt");
  std::filesystem::resize_file(file("LOC_val_solution.csv", "ImageId,PredictionString\n"),
                               8 * kGiga);
  EXPECT_THAT(attack(folder / "val"), HasSubstr("such a file has 64 MiB at most"));
}

}  // namespace
}  // namespace gossamer::data
