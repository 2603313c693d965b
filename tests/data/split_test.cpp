// Validation data that no path names: a part of each class, or what lies beside the training data.
#include "gossamer/data/split.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/formats.h"

namespace gossamer::data {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SplitTest : public testing::Test {
 protected:
  void pictures(const std::string& in, int count) {
    for (int i = 0; i < count; ++i)
      folder.write(in + "/" + std::to_string(100 + i) + ".jpg", to_bytes("x"));
  }
  void shard(const std::string& name) {
    folder.write(name, to_bytes(tar_member("cat/" + name + ".jpg", name) + tar_end()));
  }
  TempFolder folder;
};

TEST_F(SplitTest, TakesTheSameShareOfEachClass) {
  for (const auto& [name, count] : {std::pair{"a", 30}, {"b", 17}, {"c", 2}, {"d", 1}})
    pictures(std::string("set/") + name, count);
  const auto set = open({folder / "set"});
  std::vector<std::vector<i64>> drawn;
  for (const std::uint64_t seed : {1, 1, 2}) {
    const Split split = stratified_split(*set, .2, seed);
    std::vector<int> of_class(4), seen(50);
    for (const i64 i : split.val) ++of_class.at(static_cast<std::size_t>(set->label(i)));
    EXPECT_THAT(of_class, ElementsAre(6, 3, 1, 0));
    for (const auto& part : {split.train, split.val}) {
      EXPECT_TRUE(std::ranges::is_sorted(part));
      for (const i64 i : part) ++seen.at(static_cast<std::size_t>(i));
    }
    EXPECT_EQ(seen, std::vector<int>(50, 1));
    drawn.push_back(split.val);
  }
  EXPECT_EQ(drawn[0], drawn[1]);
  EXPECT_NE(drawn[0], drawn[2]);
  // one of each class always trains
  const Split most = stratified_split(*set, .99, 1);
  EXPECT_EQ(most.train.size(), 4u);
}

TEST_F(SplitTest, FindsValidationDataInTheFolderOrBesideIt) {
  for (const char* name : {"my/train/a", "my/val/a", "flat/a", "alone/train/a"}) pictures(name, 1);
  EXPECT_THAT(validation_beside({folder / "my"}), ElementsAre(folder / "my"));
  for (const std::string path : {"my/train", "my/train/", "flat/../my/train"})
    EXPECT_THAT(validation_beside({folder / path}), ElementsAre(folder / "my")) << path;
  EXPECT_THAT(validation_beside({folder / "flat"}), IsEmpty());
  EXPECT_THAT(validation_beside({folder / "alone/train"}), IsEmpty());
  // what validates is not taken for training data
  EXPECT_THAT(validation_beside({folder / "my/val"}), IsEmpty());
  EXPECT_THAT(validation_beside({folder / "my", folder / "my/val"}), IsEmpty());
  EXPECT_NE(error_of([&] { validation_beside({folder / "nowhere"}); }), "");
  for (const char* name : {"shards/train-0.tar", "shards/val-0.tar"}) shard(name);
  EXPECT_THAT(validation_beside({folder / "shards"}), ElementsAre(folder / "shards"));
  EXPECT_THAT(validation_beside({folder / "shards/train-0.tar"}), ElementsAre(folder / "shards"));
}

TEST_F(SplitTest, KnowsThePartsOfAPath) {
  for (const char* name : {"my/train/a", "my/val/a", "flat/a"}) pictures(name, 1);
  for (const char* name : {"shards/train-0.tar", "shards/val-0.tar", "one/val-0.tar"}) shard(name);
  for (const std::string path : {"my", "shards"})
    EXPECT_THAT(parts_in({folder / path}), ElementsAre(Part::train, Part::val)) << path;
  for (const std::string path : {"my/train", "flat", "one", "nowhere"})
    EXPECT_THAT(parts_in({folder / path}), ElementsAre(Part::any)) << path;
  EXPECT_THAT(parts_in({folder / "my/train", folder / "my/val"}), ElementsAre(Part::any));
}

}  // namespace
}  // namespace gossamer::data
