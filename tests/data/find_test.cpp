// Which files of a folder make up a data set: those of a part, all of them, none of another kind;
// and that nothing is left out without a word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/formats.h"

namespace gossamer::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class Find : public testing::Test {
 protected:
  void shard(const std::string& name) {
    folder.write(name, to_bytes(tar_member("cat/" + name + ".jpg", name) + tar_end()));
  }
  // the shards
  std::vector<std::string> taken(const std::string& path, Part part = Part::any) {
    std::vector<std::string> names;
    for (const Sample& sample : samples_of(*open({path}, part))) names.push_back(sample.bytes);
    return names;
  }
  std::string refusal(const std::string& path, Part part = Part::any) {
    return error_of([&] { open({path}, part); });
  }
  TempFolder folder;
};

TEST_F(Find, TrainingNeverTakesWhatIsNamedForEvaluation) {
  for (const char* name : {"shards-0000.tar", "val-0000.tar"}) shard(name);
  for (const Part part : {Part::any, Part::train})
    EXPECT_THAT(taken(folder.str(), part), ElementsAre("shards-0000.tar"));
  EXPECT_THAT(taken(folder.str(), Part::val), ElementsAre("val-0000.tar"));
}

TEST_F(Find, TrainingTakesShardsWithoutAPart) {
  for (const char* name : {"train-0.tar", "more-0.tar", "test-0.tar"}) shard(name);
  for (const Part part : {Part::any, Part::train})
    EXPECT_THAT(taken(folder.str(), part), ElementsAre("more-0.tar", "train-0.tar"));
  EXPECT_THAT(taken(folder.str(), Part::val), ElementsAre("test-0.tar"));
  shard("val-0.tar");
  EXPECT_THAT(taken(folder.str(), Part::val), ElementsAre("val-0.tar"));
  EXPECT_THAT(taken(folder.str()), ElementsAre("more-0.tar", "train-0.tar"));
}

TEST_F(Find, EvaluationNeverTakesWhatIsNamedForTraining) {
  shard("train-0.tar");
  const auto refused = AllOf(StartsWith("E-DATA-04"), HasSubstr(folder.str()),
                             HasSubstr("train-0.tar"), HasSubstr("those to validate with"));
  EXPECT_THAT(refusal(folder.str(), Part::val), refused);
  EXPECT_THAT(taken(folder.str(), Part::train), ElementsAre("train-0.tar"));
  // named by the user
  EXPECT_THAT(taken(folder / "train-0.tar", Part::val), ElementsAre("train-0.tar"));
  shard("more-0.tar");
  EXPECT_THAT(refusal(folder.str(), Part::val), refused);
}

TEST_F(Find, TrainingOnEvaluationShardsAloneMustBeMeant) {
  shard("val-0.tar");
  EXPECT_THAT(taken(folder.str()), ElementsAre("val-0.tar"));
  EXPECT_THAT(
      refusal(folder.str(), Part::train),
      AllOf(StartsWith("E-DATA-04"), HasSubstr("val-0.tar"), HasSubstr("those to train with")));
  EXPECT_THAT(taken(folder / "val-0.tar", Part::train), ElementsAre("val-0.tar"));
}

TEST_F(Find, ShardsOfNoPartAreAnyones) {
  shard("a.tar");
  for (const Part part : {Part::any, Part::train, Part::val})
    EXPECT_THAT(taken(folder.str(), part), ElementsAre("a.tar"));
}

TEST_F(Find, MissingShardsOfEveryKindAreNoticed) {
  const std::string one = record(example(feature("label", 1) + feature("image", "x")));
  for (const std::string ending : {"", ".tfrecord"}) {
    const std::string in = "records" + ending;
    for (const std::string number : {"0", "2"})
      folder.write(in + "/train-0000" + number + "-of-00004" + ending, to_bytes(one));
    EXPECT_THAT(refusal(folder / in),
                AllOf(StartsWith("E-DATA-05"), HasSubstr(folder / in), HasSubstr("2 of 4 shards"),
                      HasSubstr("train-…-of-00004")));
    for (const std::string number : {"1", "3"})
      folder.write(in + "/train-0000" + number + "-of-00004" + ending, to_bytes(one));
    EXPECT_EQ(open({folder / in})->size(), 4);
  }
  folder.write("tars/x-0-of-2.tar", to_bytes(tar_member("cat/0.jpg", "x") + tar_end()));
  EXPECT_THAT(refusal(folder / "tars"), HasSubstr("1 of 2 shards"));
}

TEST_F(Find, ClassFoldersBesideShardsAreAmbiguous) {
  for (const char* name : {"cat/0.jpg", "dog/0.jpg"}) folder.write(name, to_bytes("x"));
  EXPECT_EQ(open({folder.str()})->size(), 2);
  shard("extra.tar");
  EXPECT_THAT(refusal(folder.str()),
              AllOf(StartsWith("E-DATA-04"), HasSubstr(folder.str()), HasSubstr("extra.tar"),
                    HasSubstr("cat/"), HasSubstr("Move")));
  EXPECT_THAT(taken(folder / "extra.tar"), ElementsAre("extra.tar"));
}

TEST_F(Find, PicturesAnywhereBelowBesideShardsAreAmbiguous) {
  for (const char* name : {"in/set/train/cat/0.jpg", "in/set/train/dog/0.jpg"})
    folder.write(name, to_bytes("x"));
  shard("in/backup.tar");
  for (const Part part : {Part::any, Part::train, Part::val})
    EXPECT_THAT(refusal(folder / "in", part),
                AllOf(StartsWith("E-DATA-04"), HasSubstr("backup.tar"), HasSubstr("set/")));
  std::filesystem::remove_all(folder / "in/set");
  // a link to a folder above is no way to pictures
  folder.write("in/kit/readme.txt", to_bytes("no class"));
  std::filesystem::create_directory_symlink("..", folder / "in/kit/loop");
  EXPECT_THAT(taken(folder / "in"), ElementsAre("in/backup.tar"));
  folder.write("cifar/data_batch_1.bin", Bytes(3073));
  EXPECT_EQ(open({folder / "cifar"})->size(), 1);
  folder.write("cifar/cat/0.jpg", to_bytes("x"));
  EXPECT_THAT(refusal(folder / "cifar"),
              AllOf(StartsWith("E-DATA-04"), HasSubstr("data_batch_1.bin"), HasSubstr("cat/")));
}

TEST_F(Find, ShardsOfTwoKindsAreAmbiguous) {
  shard("a.tar");
  folder.write("kit/readme.txt", to_bytes("no class"));
  EXPECT_THAT(taken(folder.str()), ElementsAre("a.tar"));
  folder.write("b.tfrecord",
               to_bytes(record(example(feature("label", 1) + feature("image", "x")))));
  EXPECT_THAT(refusal(folder.str()),
              AllOf(StartsWith("E-DATA-04"), HasSubstr("a.tar"), HasSubstr("b.tfrecord")));
}

TEST_F(Find, FoldersBelowAClassBelongToIt) {
  for (const char* name : {"cat/b.jfif", "cat/more/5.jpg", "cat/more/1.jpg", "cat/a/z.jpg",
                           "cat/.cache/no.jpg", "dog/deep/er/0.jpg"})
    folder.write(name, to_bytes(name));
  std::filesystem::create_directory_symlink("..", folder / "cat/more/loop");
  EXPECT_THAT(taken(folder.str()), ElementsAre("cat/b.jfif", "cat/a/z.jpg", "cat/more/1.jpg",
                                               "cat/more/5.jpg", "dog/deep/er/0.jpg"));
  EXPECT_THAT(open({folder.str()})->classes(), ElementsAre("cat", "dog"));
}

TEST_F(Find, SaysWhatItLeavesOut) {
  for (const char* name :
       {"train/cat/a.jpg", "train/cat/b.webp", "train/cat/c", "train/dog/d.jpg",
        "train/dog/deep/e.tiff", "train/dog/f.heic", "train/loose.jpg", "train/readme.md"})
    folder.write(name, to_bytes(name));
  EXPECT_THAT(
      open({folder / "train"})->notes(),
      ElementsAre(AllOf(StartsWith(folder / "train: "),
                        HasSubstr("1 pictures lie in no class folder"), HasSubstr("(loose.jpg)")),
                  AllOf(StartsWith(folder / "train: "), HasSubstr("4 files in class folders"),
                        HasSubstr("(cat/b.webp, cat/c, dog/f.heic, …)"))));
  for (const char* name : {"in/val-0.tar", "in/rest-0.tar"}) shard(name);
  EXPECT_THAT(open({folder / "in"}, Part::train)->notes(),
              ElementsAre(AllOf(HasSubstr("1 shards of another part"), HasSubstr("(val-0.tar)"))));
  EXPECT_THAT(open({folder / "in/rest-0.tar"})->notes(), IsEmpty());
}

// Were every picture below a folder of a class folder, the folders could as well be parts or data
// sets.
TEST_F(Find, ALevelTooHighIsNotTakenForClasses) {
  for (const char* name : {"in/train/cat/0.jpg", "in/train/dog/0.jpg"})
    folder.write(name, to_bytes("x"));
  for (const Part part : {Part::any, Part::train, Part::val})
    EXPECT_THAT(refusal(folder / "in", part), HasSubstr("e.g. " + (folder / "in/train")));
  for (const char* name : {"tiny/n01443537/images/0.JPEG", "tiny/n01629819/images/0.JPEG"})
    folder.write(name, to_bytes("x"));
  EXPECT_THAT(open({folder / "tiny"})->classes(), ElementsAre("n01443537", "n01629819"));
}

}  // namespace
}  // namespace gossamer::data
