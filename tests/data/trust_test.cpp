// What a data set may believe of its disk: reads that fail, records that are damaged, stored
// indices whose ground truth changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/formats.h"
#include "gossamer/data/check.h"
#include "gossamer/data/dataset/find.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/index_file.h"

namespace gossamer::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Linux: a regular file, and reading where nothing is mapped is EIO.
TEST(File, WhatCantBeReadIsDamageAndNamesThePlace) {
  const File file("/proc/self/mem");
  std::byte to[8];
  EXPECT_THAT(
      error_of<DataError>([&] { file.read(16, to); }),
      AllOf(HasSubstr("/proc/self/mem: reading failed at byte 16"), HasSubstr("Input/output")));
}

TEST(File, ASystemThatRefusesIsNoDamage) {
  const File file("/proc/self/mem");
  // EFAULT stands for all that has nothing to do with the file.
  const std::span<std::byte> nowhere(reinterpret_cast<std::byte*>(8), 8);
  const auto here = reinterpret_cast<std::uintptr_t>(&file);
  EXPECT_THAT(error_of<IoError>([&] { file.read(here, nowhere); }),
              HasSubstr("no damage of this file"));
}

class TfRecordDamage : public testing::Test {
 protected:
  static std::string picture(const std::string& synset, const std::string& bytes) {
    return record(example(feature("image/class/synset", synset) + feature("image/encoded", bytes)));
  }
  static std::string flipped(std::string text, const std::string& where) {
    text[text.find(where)] ^= 1;
    return text;
  }
  std::shared_ptr<const Dataset> set_of(const std::string& records) const {
    return open({folder_.write("a.tfrecord", to_bytes(records))});
  }
  TempFolder folder_;
};

TEST_F(TfRecordDamage, ARecordThatCantBeParsedIsLeftOutAndListed) {
  const std::string good = picture("n01440764", "one"),
                    bad = flipped(picture("n02100735", "two"), "image/encoded");
  for (const std::string& all : {good + bad + good, bad + good + good}) {
    const auto set = set_of(all);
    EXPECT_EQ(set->size(), 2);
    EXPECT_THAT(set->classes(), ElementsAre("n01440764"));
    const std::string name = all.starts_with(bad) ? "record 0" : "record 1";
    EXPECT_THAT(check_pictures(*set, 1, [](i64) { return true; }).damaged.back(),
                AllOf(HasSubstr("a.tfrecord: " + name), HasSubstr("checksum")));
  }
  EXPECT_THAT(error_of<DataError>([&] { set_of(bad); }), HasSubstr("all 1 records are damaged"));
}

TEST_F(TfRecordDamage, AFlippedClassMakesNoNewOne) {
  const std::string good = picture("n01440764", "one"),
                    bad = flipped(picture("n01440764", "two"), "n01440764");
  const auto set = set_of(good + bad + good);
  EXPECT_THAT(set->classes(), ElementsAre("n01440764"));
  EXPECT_EQ(set->size(), 2);
  EXPECT_EQ(set->left_out().size(), 1u);
}

TEST_F(TfRecordDamage, WhatIsNoPictureAtAllIsStillRefused) {
  const std::string good = picture("n01440764", "one"),
                    other = record(example(feature("image/class/synset", "n01440764")));
  EXPECT_THAT(error_of<DataError>([&] { set_of(good + other); }),
              HasSubstr("holds no image under the keys"));
}

TEST(StoredIndex, IsNotUsedWhenItsGroundTruthChanged) {
  const TempFolder folder;
  const std::string members = tar_member("ILSVRC2012_val_00000001.JPEG", "x") +
                              tar_member("ILSVRC2012_val_00000002.JPEG", "y");
  const std::string path = folder.write("val.tar", to_bytes(members + tar_end()));
  const auto say = [&](const std::string& first, const std::string& second) {
    folder.write("LOC_val_solution.csv",
                 to_bytes("ImageId,PredictionString\nILSVRC2012_val_00000001," + first +
                          " 1 1 2 2\nILSVRC2012_val_00000002," + second + " 1 1 2 2\n"));
  };
  say("n01440764", "n02100735");
  store_index(read_container({path, false}));
  ASSERT_TRUE(load_index(path).has_value());
  say("n02100735", "n01440764");
  EXPECT_FALSE(load_index(path).has_value());
  EXPECT_EQ(open({path})->label(0), 1);
  // then the index is all that knows
  std::filesystem::remove(folder / "LOC_val_solution.csv");
  ASSERT_TRUE(load_index(path).has_value());
  EXPECT_EQ(open({path})->label(0), 0);
}

TEST(Fingerprint, FollowsNamesLabelsAndNumber) {
  const TempFolder folder;
  const auto of = [&](const std::string& members) {
    return fingerprint(*open({folder.write("a.tar", to_bytes(members + tar_end()))}));
  };
  const std::string a = tar_member("cat/1.jpg", "x"), b = tar_member("dog/2.jpg", "y");
  const std::uint64_t before = of(a + b);
  EXPECT_EQ(of(tar_member("cat/1.jpg", "other bytes") + b), before);
  EXPECT_NE(of(b + a), before);
  EXPECT_NE(of(a + tar_member("cat/2.jpg", "y")), before);
  EXPECT_NE(of(a + tar_member("dog/3.jpg", "y")), before);
  EXPECT_NE(of(a + b + tar_member("dog/3.jpg", "y")), before);
}

}  // namespace
}  // namespace gossamer::data
