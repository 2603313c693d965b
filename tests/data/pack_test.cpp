// Packed shards, stored indices, the check of a whole set; and containers that lie about
// themselves.
#include "gossamer/data/pack.h"

#include <thread>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>
#include <utime.h>

#include "data/formats.h"
#include "gossamer/core/random.h"
#include "gossamer/data/check.h"
#include "gossamer/data/codec/picture_facts.h"
#include "gossamer/data/dataset/find.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/index_file.h"
#include "gossamer/data/formats/packed.h"
#include "gossamer/data/hash.h"

namespace gossamer::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

constexpr auto go_on = [](i64) { return true; };

std::string file_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Twenty pictures in two classes, one of them damaged, one CMYK, one a PNG named JPEG, one large.
void make_set(const TempFolder& folder, const std::string& in) {
  for (int i = 0; i < 20; ++i) {
    Bytes bytes = encode_jpeg(i == 7 ? pattern(700, 300) : pattern(40 + i, 36), {});
    if (i == 3) bytes.resize(bytes.size() / 2);
    if (i == 4) bytes = raw_jpeg(40, 36, JCS_CMYK, 4, std::vector<std::uint8_t>(40 * 36 * 4, 90));
    if (i == 5) bytes = make_png(pattern(40, 36));
    folder.write(in + "/" + (i % 2 ? "dog" : "cat") + "/" + std::to_string(100 + i) + ".jpg",
                 bytes);
  }
}

TEST(Pack, KeepsNamesLabelsAndClassesAndShrinksWhatIsLarge) {
  const TempFolder folder;
  make_set(folder, "set");
  const auto set = open({folder / "set"});
  const PackReport report =
      pack(*set, folder / "out", {.max_side = 350, .threads = 3, .shard_images = 8}, go_on);
  EXPECT_EQ(report.images, 19);
  EXPECT_EQ(report.shards, 3);
  EXPECT_THAT(report.left_out, ElementsAre(HasSubstr("dog/103.jpg")));
  const auto packed = open({folder / "out"});
  EXPECT_EQ(packed->classes(), set->classes());
  ASSERT_EQ(packed->size(), 19);
  i64 from = 0;
  for (i64 i = 0; i < packed->size(); ++i, ++from) {
    if (set->name(from) == "dog/103.jpg") ++from;
    EXPECT_EQ(packed->name(i), set->name(from));
    EXPECT_EQ(packed->label(i), set->label(from));
    Bytes buffer;
    const Image image = decode(packed->bytes(i, buffer), packed->name(i));
    if (packed->name(i) == "dog/107.jpg") {
      EXPECT_EQ(image.width, 350);
      EXPECT_EQ(image.height, 150);
    }
  }
  EXPECT_TRUE(check_pictures(*packed, 2, go_on).damaged.empty());
}

TEST(Pack, PicturesThatBecomeJpegAreCalledSoAndCounted) {
  const TempFolder folder;
  folder.write("set/cat/1.PNG", make_png(pattern(40, 36)));
  folder.write("set/cat/2.jpg", encode_jpeg(pattern(40, 36)));
  const auto set = open({folder / "set"});
  for (int call = 0; call < 2; ++call)  // the second keeps the shard
    EXPECT_EQ(pack(*set, folder / "out", {}, go_on).reencoded, 1) << call;
  const auto packed = open({folder / "out"});
  EXPECT_EQ(packed->name(0), "cat/1.PNG.jpg");
  EXPECT_EQ(packed->name(1), "cat/2.jpg");
  EXPECT_TRUE(check_pictures(*packed, 2, go_on).odd.empty());
  EXPECT_EQ(pack(*set, folder / "copies", {.copy = true}, go_on).reencoded, 0);
  EXPECT_EQ(open({folder / "copies"})->name(0), "cat/1.PNG");
}

TEST(Pack, CopiesTheSameBytes) {
  const TempFolder folder;
  make_set(folder, "set");
  std::filesystem::remove(folder / "set/dog/103.jpg");
  const auto set = open({folder / "set"});
  pack(*set, folder / "out", {.copy = true}, go_on);
  EXPECT_EQ(samples_of(*open({folder / "out"})), samples_of(*set));
}

TEST(Pack, WritesTheSameShardsWhateverTheThreadsAndTheStops) {
  const TempFolder folder;
  make_set(folder, "set");
  const auto set = open({folder / "set"});
  const PackReport one = pack(*set, folder / "a/out", {.threads = 1, .shard_images = 6}, go_on);
  // Stopped after the first shard, then again: it goes on.
  const PackReport stopped = pack(*set, folder / "b/out", {.threads = 3, .shard_images = 6},
                                  [](i64 done) { return done <= 6; });
  EXPECT_FALSE(stopped.whole);
  EXPECT_THAT(error_of([&] { open({folder / "b/out"}); }), HasSubstr("of 4 packed shards"));
  const PackReport rest = pack(*set, folder / "b/out", {.threads = 2, .shard_images = 6}, go_on);
  EXPECT_TRUE(rest.whole);
  EXPECT_GE(rest.kept_shards, 1);
  EXPECT_EQ(rest.images, one.images);
  EXPECT_EQ(rest.left_out, one.left_out);
  int shards = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "a/out")) {
    EXPECT_TRUE(file_text(entry.path()) ==
                file_text(folder / "b/out/" + entry.path().filename().string()))
        << entry.path();
    ++shards;
  }
  EXPECT_EQ(shards, 4);
  EXPECT_THAT(error_of<ConfigError>(
                  [&] { pack(*set, folder / "b/out", {.quality = 80, .shard_images = 6}, go_on); }),
              HasSubstr("with other options"));
  EXPECT_THAT(
      error_of<ConfigError>([&] { pack(*set, folder / "b/out", {.shard_images = 7}, go_on); }),
      HasSubstr("cut otherwise"));
  EXPECT_THAT(error_of([&] { pack(*set, folder / "c", {.strict = true}, go_on); }),
              HasSubstr("dog/103.jpg"));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "c"));  // nothing half done is left
}

TEST(Pack, PicturesThatHaveChangedSinceAreNoticed) {
  const TempFolder folder;
  make_set(folder, "set");
  pack(*open({folder / "set"}), folder / "out", {.shard_images = 6}, go_on);
  EXPECT_EQ(pack(*open({folder / "set"}), folder / "out", {.shard_images = 6}, go_on).kept_shards,
            4);
  // same name, class and length
  Bytes other = encode_jpeg(pattern(40, 36), {});
  other[other.size() / 2] ^= std::byte{1};
  folder.write("set/cat/100.jpg", other);
  EXPECT_THAT(error_of<ConfigError>([&] {
                pack(*open({folder / "set"}), folder / "out", {.shard_images = 6}, go_on);
              }),
              AllOf(HasSubstr("out-00000-of-00004.pack"), HasSubstr("have changed since")));
}

TEST(Pack, OneProcessWritesAShardAndTakesOverWhatAKilledOneLeft) {
  const TempFolder folder;
  make_set(folder, "set");
  const auto set = open({folder / "set"});
  const std::string left =
      folder.write("out/out-00000-of-00001.pack.tmp", to_bytes(std::string(1 << 20, 'x')));
  {
    const int fd = ::open(left.c_str(), O_RDWR);
    ASSERT_EQ(::flock(fd, LOCK_EX), 0);
    EXPECT_THAT(error_of<IoError>([&] { pack(*set, folder / "out", {}, go_on); }),
                HasSubstr("another process is writing this shard"));
    ::close(fd);
  }
  EXPECT_EQ(pack(*set, folder / "out", {}, go_on).images, 19);
  EXPECT_FALSE(std::filesystem::exists(left));
}

// One that opens the file just before another puts it in place must not empty the finished shard.
TEST(PackWriter, SeveralAtTheSameShardNeverSpoilIt) {
  const TempFolder folder;
  const std::string path = folder / "x.pack";
  const auto write = [&](bool finish) {
    PackWriter writer(path, {"cat"}, 1);
    writer.add("cat/1.jpg", 0, std::vector<std::byte>(100));
    if (finish) writer.close(2);
  };
  write(true);
  std::vector<std::string> wrong(3);
  {
    std::vector<std::jthread> writers;
    for (std::string& mine : wrong)
      writers.emplace_back([&] {
        for (int i = 0; i < 1000 && mine.empty(); ++i) {
          try {
            write(i % 5 > 0);  // or it is given up
          } catch (const IoError& error) {
            if (std::string_view(error.what()).find("another process") == std::string_view::npos)
              mine = error.what();
          }
          try {
            const File file(path);
            FileReader reader(file);
            if (index_packed(reader, path).size() != 1) mine = "a shard without its picture";
          } catch (const DataError& error) {
            mine = error.what();
          }
        }
      });
  }
  EXPECT_THAT(wrong, testing::Each(testing::IsEmpty()));
  EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
}

TEST(Pack, ADamagedShardIsMadeAgain) {
  const TempFolder folder;
  make_set(folder, "set");
  const auto set = open({folder / "set"});
  pack(*set, folder / "out", {.shard_images = 10}, go_on);
  const std::string path = folder / "out/out-00001-of-00002.pack", good = file_text(path);
  std::string bad = good;
  bad[200] ^= 1;
  folder.write("out/out-00001-of-00002.pack", to_bytes(bad));
  EXPECT_THAT(error_of([&] { samples_of(*open({folder / "out"})); }),
              HasSubstr("its checksum is wrong"));
  EXPECT_EQ(pack(*set, folder / "out", {.shard_images = 10}, go_on).kept_shards, 1);
  EXPECT_TRUE(file_text(path) == good);
}

TEST(Pack, AnyFlippedOrMissingByteIsNoticed) {
  const TempFolder folder;
  folder.write("set/cat/1.jpg", encode_jpeg(pattern(16, 16), {}));
  folder.write("set/dog/2.jpg", encode_jpeg(pattern(17, 16), {}));
  pack(*open({folder / "set"}), folder / "out", {.copy = true}, go_on);
  const std::string good = file_text(folder / "out/out-00000-of-00001.pack");
  const std::vector<Sample> wanted = samples_of(*open({folder / "out"}));
  const auto same_or_refused = [&](const std::string& bytes) {
    const std::string path = folder.write("x.pack", to_bytes(bytes));
    try {
      return samples_of(*open({path})) == wanted;
    } catch (const DataError&) {
      return true;
    }
  };
  for (std::size_t at = 0; at < good.size(); at += 3) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x41);
    ASSERT_TRUE(same_or_refused(bad)) << at;
    ASSERT_TRUE(same_or_refused(good.substr(0, at))) << at;
  }
}

TEST(StoredIndex, IsUsedWhileTheArchiveIsTheSame) {
  const TempFolder folder;
  const std::string path = folder.write(
      "a.tar",
      to_bytes(tar_member("cat/1.jpg", "first") + tar_member("dog/2.jpg", "second") + tar_end()));
  const std::vector<Sample> wanted = samples_of(*open({path}));
  Index index = read_container({path, false});
  // so that one sees which was used
  index.classes = {"ant", "bee"};
  EXPECT_GT(store_index(index), 0u);
  EXPECT_THAT(open({path})->classes(), ElementsAre("ant", "bee"));
  EXPECT_EQ(samples_of(*open({path}))[1].bytes, "second");
  // Damaged anywhere: not used.
  const std::string stored = path + kIndexEnding, good = file_text(stored);
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    folder.write("a.tar.gossamer-index", to_bytes(bad));
    ASSERT_EQ(samples_of(*open({path})), wanted) << at;
  }
  folder.write("a.tar.gossamer-index", to_bytes(good));
  EXPECT_THAT(open({path})->classes(), ElementsAre("ant", "bee"));
  utimbuf long_ago{1000, 1000};
  utime(path.c_str(), &long_ago);  // changed since
  EXPECT_EQ(samples_of(*open({path})), wanted);
}

TEST(StoredIndex, LyingOnesAreRefused) {
  const TempFolder folder;
  const std::string path =
      folder.write("a.tar", to_bytes(tar_member("cat/1.jpg", "first") + tar_end()));
  const Index good = read_container({path, false});
  const auto refusal = [&](auto change) {
    Index index = good;
    change(index);
    return error_of([&] { decode_index(encode_index(index), "x", 2048); });
  };
  EXPECT_EQ(refusal([](Index&) {}), "no error");
  EXPECT_THAT(refusal([](Index& i) { i.offset[0] = 2048; }), HasSubstr("lies outside the file"));
  EXPECT_THAT(refusal([](Index& i) { i.offset[0] = ~0ull; }), HasSubstr("lies outside the file"));
  EXPECT_THAT(refusal([](Index& i) { i.bytes[0] = ~0u; }), HasSubstr("lies outside the file"));
  EXPECT_THAT(refusal([](Index& i) { i.label[0] = 1; }), HasSubstr("label 1 of 1 classes"));
  EXPECT_THAT(refusal([](Index& i) { i.label[0] = -1; }), HasSubstr("label -1"));
  EXPECT_THAT(refusal([](Index& i) { i.names.add("more"); }), HasSubstr("damaged index"));
  EXPECT_THAT(refusal([](Index& i) { i.classes = {"b", "a"}; }), HasSubstr("not sorted"));
  EXPECT_THAT(refusal([](Index& i) { i.wrapping = Wrapping::file; }), HasSubstr("its kind"));
  EXPECT_THAT(refusal([](Index& i) { i.naming = Naming::numbers; }), HasSubstr("is no number"));
  // They are printed.
  Index damaged = good;
  damaged.left_out = {"cat/2.jpg: \x1b[31mred"};
  EXPECT_EQ(decode_index(encode_index(damaged), "x", 2048).left_out,
            (std::vector<std::string>{"cat/2.jpg: \\x1b[31mred"}));
}

TEST(Names, ComeBackWhateverTheyAre) {
  Names names;
  std::vector<std::string> wanted{
      "", "", "a", std::string(300, 'x'), std::string(300, 'x') + "y", std::string(70'000, 'z'),
      "b"};
  for (int i = 0; i < 100; ++i)
    wanted.push_back("n01440764/n01440764_" + std::to_string(i * 37) + ".JPEG");
  for (const std::string& name : wanted) names.add(name);
  Index index;
  index.wrapping = Wrapping::plain;
  index.classes = {"a"};
  index.label.assign(wanted.size(), 0);
  index.offset.assign(wanted.size(), 0);
  index.bytes.assign(wanted.size(), 0);
  index.names = names;
  const Names again = decode_index(encode_index(index), "x", 0).names;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(names.at(static_cast<i64>(i)), wanted[i]);
    EXPECT_EQ(again.at(static_cast<i64>(i)), wanted[i]);
  }
  std::vector<std::string> all;
  again.each([&](i64 i, const std::string& name) {
    EXPECT_EQ(i, static_cast<i64>(all.size()));
    all.push_back(name);
  });
  EXPECT_EQ(all, wanted);
}

TEST(Names, AreReadBackThoughTogetherTheyAreLong) {
  constexpr int kNames = 800'000;
  const std::string folder(250, 'x');
  Index index;
  index.wrapping = Wrapping::plain;
  index.classes = {"a"};
  index.label.assign(kNames, 0);
  index.offset.assign(kNames, 0);
  index.bytes.assign(kNames, 0);
  for (int i = 0; i < kNames; ++i) index.names.add(folder + std::to_string(1'000'000 + i));
  const Names names = decode_index(encode_index(index), "x", 0).names;
  EXPECT_EQ(names.at(kNames - 1), folder + "1799999");
  EXPECT_LT(names.bytes(), std::size_t{32} << 20);  // of 206 MB of text
}

TEST(Index, TakesFewBytesAnImage) {
  IndexBuilder builder("ILSVRC2012_img_train.tar", Wrapping::plain);
  Rng rng(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::string wnid = "n0" + std::to_string(1'440'764 + i / 1281 * 7'919);
    builder.add(wnid + "/" + wnid + "_" + std::to_string(rng.below(30'000)) + ".JPEG", wnid,
                static_cast<std::uint64_t>(i) * 110'000, 110'000);
  }
  const Index index = builder.finish();
  const double bytes =
      static_cast<double>(index.names.bytes() + index.label.capacity() * 4 +
                          index.offset.capacity() * 8 + index.bytes.capacity() * 4) /
      100'000;
  RecordProperty("bytes_an_image", std::to_string(bytes));
  EXPECT_LT(bytes, 32);
}

TEST(TfRecord, LyingOnesAreRefusedAndDamagedOnesNamed) {
  const TempFolder folder;
  const std::string good = record(example(feature("label", 1) + feature("image", "the image")));
  const auto refusal = [&](const std::string& bytes) {
    const std::string path = folder.write("x.tfrecord", to_bytes(bytes));
    return error_of([&] { samples_of(*open({path})); });
  };
  EXPECT_EQ(refusal(good), "no error");
  EXPECT_THAT(refusal(""), HasSubstr("empty"));
  EXPECT_THAT(refusal(good.substr(0, good.size() - 1)), HasSubstr("record 0 at byte 0: cut off"));
  EXPECT_THAT(refusal(good + good.substr(0, 7)), HasSubstr("record 1"));
  std::string bad = good;
  bad[0] ^= 1;
  EXPECT_THAT(refusal(bad), HasSubstr("the checksum of its length is wrong"));
  EXPECT_THAT(refusal(gzip(good)), AllOf(HasSubstr("E-DATA-04"), HasSubstr("is compressed")));
  EXPECT_THAT(refusal("\x78\x9C" + good), HasSubstr("is compressed"));
  bad = good;
  bad[good.size() - 6] ^= 1;  // in the image
  EXPECT_THAT(refusal(good + bad), HasSubstr("damaged record: its checksum is wrong"));
  EXPECT_THAT(refusal(bad), HasSubstr("all 1 records are damaged"));
  const std::string huge = little(~std::uint64_t{0} - 8);
  EXPECT_THAT(refusal(huge + little(slow_masked_crc(huge)) + std::string(40, 'x')),
              HasSubstr("cut off: it needs 18446744073709551607 bytes"));
  EXPECT_THAT(refusal(record("no Example at all")), HasSubstr("not a tf.train.Example"));
  EXPECT_THAT(refusal(record(example(feature("image", "x")))), HasSubstr("holds no label"));
  EXPECT_THAT(refusal(record(example(feature("label", 1)))), HasSubstr("holds no image"));
  EXPECT_THAT(refusal(record(example(feature("label", i64{1} << 40) + feature("image", "x")))),
              HasSubstr("label 1099511627776"));
  // a length beyond the record
  EXPECT_THAT(refusal(record("\x0a\xff\xff\xff\xff\x0fxx")), HasSubstr("not a tf.train.Example"));
}

TEST(Hash, Crc32cIsCastagnolis) {
  const auto crc = [](std::string_view text) { return crc32c(std::as_bytes(std::span(text))); };
  EXPECT_EQ(crc("123456789"), 0xe3069283u);
  EXPECT_EQ(crc(""), 0u);
  EXPECT_EQ(crc(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(crc(std::string(32, '\xff')), 0x62a8ab43u);
  const std::string longer(1003, 'q');
  EXPECT_EQ(masked(crc32c(std::as_bytes(std::span(longer)))), slow_masked_crc(longer));
}

TEST(Check, ListsDamagedAndOddPictures) {
  const TempFolder folder;
  make_set(folder, "set");
  folder.write("set/cat/zero.jpg", {});
  const CheckReport report = check_pictures(*open({folder / "set"}), 3, go_on);
  EXPECT_EQ(report.images, 21);
  EXPECT_THAT(report.damaged, ElementsAre(HasSubstr("cat/zero.jpg"), HasSubstr("dog/103.jpg")));
  EXPECT_THAT(report.odd.at("CMYK"), ElementsAre("cat/104.jpg"));
  EXPECT_THAT(report.odd.at("PNG named JPEG"), ElementsAre("dog/105.jpg"));
  EXPECT_THAT(oddities({.format = Format::png}, "a.JFIF"), ElementsAre("PNG named JPEG"));
  EXPECT_THAT(report.odd, SizeIs(2));
  EXPECT_EQ(report.most_side, 700);
  EXPECT_EQ(report.least_side, 36);
}

}  // namespace
}  // namespace gossamer::data
