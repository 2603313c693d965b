// Every layout of ImageNet in miniature: the same pictures, read in place, have the same classes,
// labels and bytes. Made pictures, and the photos where they are.
#include "data/formats.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/photos.h"

namespace gossamer::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Eight pictures of four classes. The kit's ids are not in the order of the wnids, as in the real
// one.
const std::vector<KitClass> kKit{
    {1, "n02119789"}, {2, "n02100735"}, {3, "n01440764"}, {4, "n03000684"}, {1001, "n00001740", 2}};
// sorted: the labels
const std::vector<std::string> kClasses{"n01440764", "n02100735", "n02119789", "n03000684"};
// what the eight pictures show
const std::vector<int> kIds{3, 1, 4, 2, 2, 3, 1, 4};

std::string wnid_of(int picture) {
  return kKit[static_cast<std::size_t>(kIds[static_cast<std::size_t>(picture)] - 1)].wnid;
}
int label_of(int picture) {
  return static_cast<int>(std::ranges::find(kClasses, wnid_of(picture)) - kClasses.begin());
}
std::string val_name(int picture) {
  return "ILSVRC2012_val_0000000" + std::to_string(picture + 1) + ".JPEG";
}

class Layouts : public testing::TestWithParam<bool> {  // true: with photos
 protected:
  void SetUp() override {
    if (GetParam() && !std::filesystem::exists(photos()))
      GTEST_SKIP()
          << photos()
          << " is not on this machine; set GOSSAMER_TEST_DATA to a folder with photos/photos.tar";
    std::vector<Sample> taken;
    if (GetParam()) taken = samples_of(*open({photos().string()}));
    for (int i = 0; i < 8; ++i)
      jpegs_.push_back(GetParam() ? taken[static_cast<std::size_t>(40 * i)].bytes
                                  : text_of(encode_jpeg(pattern(40 + i, 30), {})));
  }

  std::string jpeg(int i) const { return jpegs_[static_cast<std::size_t>(i)]; }
  void write_val(const std::string& in) const {
    for (int i = 0; i < 8; ++i) folder_.write(in + "/" + val_name(i), to_bytes(jpeg(i)));
  }
  std::string truth() const {
    std::string text;
    for (const int id : kIds) text += std::to_string(id) + "\n";
    return text;
  }
  void write_kit(const std::string& in, bool compressed) const {
    folder_.write(in + "/ILSVRC2012_validation_ground_truth.txt", to_bytes(truth()));
    folder_.write(in + "/meta.mat", to_bytes(make_meta_mat(kKit, compressed)));
  }
  // The pictures in the order 0 … 7, or class by class.
  void expect_all(const Dataset& set, bool by_class = false) const {
    EXPECT_EQ(set.classes(), kClasses);
    ASSERT_EQ(set.size(), 8);
    std::vector<Sample> wanted;
    std::vector<int> order{0, 1, 2, 3, 4, 5, 6, 7};
    if (by_class) std::ranges::stable_sort(order, {}, label_of);
    for (const int i : order) wanted.push_back({wnid_of(i), jpeg(i)});
    const std::vector<Sample> found = samples_of(set);
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(found[i].class_name, wanted[i].class_name)
          << i << " " << set.name(static_cast<i64>(i));
      EXPECT_TRUE(found[i].bytes == wanted[i].bytes) << i;
      EXPECT_EQ(set.label(static_cast<i64>(i)), label_of(order[i]));
    }
  }

  TempFolder folder_;
  std::vector<std::string> jpegs_;
};
INSTANTIATE_TEST_SUITE_P(Pictures, Layouts, testing::Bool(),
                         [](const auto& given) { return given.param ? "Photos" : "Made"; });

TEST_P(Layouts, ClassFolders) {
  for (int i = 0; i < 8; ++i)
    folder_.write("train/" + wnid_of(i) + "/" + wnid_of(i) + "_" + std::to_string(i) + ".JPEG",
                  to_bytes(jpeg(i)));
  expect_all(*open({folder_ / "train"}), true);
}

TEST_P(Layouts, FlatValWithTheUnpackedKit) {
  write_val("val");
  write_kit("ILSVRC2012_devkit_t12/data", false);
  expect_all(*open({folder_ / "val"}));
  EXPECT_EQ(open({folder_ / "val"})->name(1), val_name(1));
}

TEST_P(Layouts, FlatValWithACompressedMetaMatInIt) {
  write_val("val");
  write_kit("val", true);
  expect_all(*open({folder_ / "val"}));
}

TEST_P(Layouts, FlatValWithTheKitAsDownloaded) {
  write_val("val");
  folder_.write(
      "ILSVRC2012_devkit_t12.tar.gz",
      to_bytes(gzip(
          tar_member("ILSVRC2012_devkit_t12/data/meta.mat", make_meta_mat(kKit, true)) +
          tar_member("ILSVRC2012_devkit_t12/data/ILSVRC2012_validation_ground_truth.txt", truth()) +
          tar_end())));
  expect_all(*open({folder_ / "val"}));
}

TEST_P(Layouts, FlatValWithTheMapOfLaterKits) {
  write_val("val");
  std::string map;
  for (int i = 0; i < 4; ++i)
    map += kKit[static_cast<std::size_t>(i)].wnid + " " +
           std::to_string(kKit[static_cast<std::size_t>(i)].id) + " some_name\n";
  folder_.write("devkit/data/map_clsloc.txt", to_bytes(map));
  folder_.write("devkit/data/ILSVRC2015_clsloc_validation_ground_truth.txt", to_bytes(truth()));
  expect_all(*open({folder_ / "val"}));
}

TEST_P(Layouts, FlatValWithKagglesTable) {
  write_val("ILSVRC/Data/CLS-LOC/val");
  folder_.write("ILSVRC/Data/CLS-LOC/train/" + kClasses[0] + "/a.JPEG", to_bytes(jpeg(0)));
  std::string table = "ImageId,PredictionString\r\n", names;
  for (const int i : {5, 2, 0, 1, 7, 6, 3, 4})
    table += val_name(i).substr(0, 23) + "," + wnid_of(i) + " 85 1 499 272 \r\n";
  for (const std::string& wnid : kClasses) names += wnid + " some words, others\n";
  folder_.write("LOC_val_solution.csv", to_bytes(table));
  folder_.write("LOC_synset_mapping.txt", to_bytes(names));
  expect_all(*open({folder_ / "ILSVRC/Data/CLS-LOC/val"}));
  EXPECT_THAT(error_of([&] { open({folder_.str()}); }),
              AllOf(HasSubstr("E-DATA-04"), HasSubstr("ILSVRC/Data/CLS-LOC/train or ")));
  // the folder that Kaggle's archive makes
  expect_all(*open({folder_.str()}, Part::val));
  EXPECT_EQ(open({folder_.str()}, Part::train)->size(), 1);
}

TEST_P(Layouts, FlatValWithListsOfOthers) {
  write_val("a/val");
  write_val("b/val");
  std::string labels, caffe, names;
  for (int i = 0; i < 8; ++i) {
    labels += wnid_of(i) + "\n";
    caffe += val_name(i) + " " + std::to_string(label_of(i)) + "\n";
  }
  for (const std::string& wnid : kClasses) names += wnid + " words\n";
  folder_.write("a/imagenet_2012_validation_synset_labels.txt", to_bytes(labels));
  folder_.write("b/val.txt", to_bytes(caffe));
  folder_.write("b/synset_words.txt", to_bytes(names));
  expect_all(*open({folder_ / "a/val"}));
  expect_all(*open({folder_ / "b/val"}));
}

TEST_P(Layouts, TheOfficialTars) {
  std::string train, val;
  for (const std::string& wnid : kClasses) {
    std::string inner;
    for (int i = 0; i < 8; ++i)
      if (wnid_of(i) == wnid)
        inner += tar_member(wnid + "_" + std::to_string(i) + ".JPEG", jpeg(i));
    train += tar_member(wnid + ".tar", inner + tar_end());
  }
  for (int i = 0; i < 8; ++i) val += tar_member(val_name(i), jpeg(i));
  folder_.write("ILSVRC2012_img_train.tar", to_bytes(train + tar_end()));
  folder_.write("ILSVRC2012_img_train_t3.tar", to_bytes("another task; never opened"));
  folder_.write("ILSVRC2012_img_val.tar", to_bytes(val + tar_end()));
  write_kit("ILSVRC2012_devkit_t12/data", true);
  expect_all(*open({folder_ / "ILSVRC2012_img_train.tar"}), true);
  expect_all(*open({folder_ / "ILSVRC2012_img_val.tar"}));
  // one folder with all: each part finds its own
  expect_all(*open({folder_.str()}, Part::train), true);
  expect_all(*open({folder_.str()}, Part::val));
  check_same_classes(*open({folder_.str()}, Part::train), *open({folder_.str()}, Part::val));
}

TEST_P(Layouts, WebDatasetShards) {
  for (const std::string kind : {"cls", "json", "txt", "words"}) {
    std::string shard[2];
    for (int i = 0; i < 8; ++i) {
      // folders speak louder than .json and .txt
      const std::string key = (kind == "cls" ? "sub/00" : "00") + std::to_string(i),
                        number = std::to_string(label_of(i));
      const std::string label =
          kind == "cls"    ? tar_member(key + ".cls", number)
          : kind == "json" ? tar_member(key + ".json", "{\"width\": 40, \"label\": " + number + "}")
          : kind == "txt"  ? tar_member(key + ".txt", number + "\n")
                           : tar_member(key + ".cls", wnid_of(i));
      shard[i / 4] += i % 2 ? tar_member(key + ".jpg", jpeg(i)) + label
                            : label + tar_member(key + ".jpg", jpeg(i));
    }
    folder_.write(kind + "/in-train-000000.tar", to_bytes(shard[0] + tar_end()));
    folder_.write(kind + "/in-train-000001.tar", to_bytes(shard[1] + tar_end()));
    if (kind != "words") {
      const auto numbered = open({folder_ / kind});
      EXPECT_THAT(numbered->classes(), ElementsAre("0000", "0001", "0002", "0003"));
      for (int i = 0; i < 8; ++i) EXPECT_EQ(numbered->label(i), label_of(i));
      std::string names;
      for (const std::string& wnid : kClasses) names += wnid + "\n";
      folder_.write(kind + "/synsets.txt", to_bytes(names));
    }
    expect_all(*open({folder_ / kind}));
    expect_all(*open({folder_ / (kind + "/in-train-{000000..000001}.tar")}));
  }
}

TEST_P(Layouts, TfRecordShards) {
  for (const bool synset : {true, false}) {
    const std::string name = synset ? "with" : "without";
    std::string shard[2];
    for (int i = 0; i < 8; ++i) {
      std::string f = feature("image/height", 30) + feature("image/class/label", label_of(i) + 1) +
                      feature("image/encoded", jpeg(i)) + feature("image/filename", val_name(i));
      if (synset) f += feature("image/class/synset", wnid_of(i));
      shard[i / 4] += record(example(f));
    }
    folder_.write(name + "/validation-00000-of-00002", to_bytes(shard[0]));
    folder_.write(name + "/validation-00001-of-00002", to_bytes(shard[1]));
    folder_.write(name + "/train-00000-of-00001", to_bytes(shard[0]));
    if (!synset)
      folder_.write(name + "/imagenet_lsvrc_2015_synsets.txt",
                    to_bytes(kClasses[0] + "\n" + kClasses[1] + "\n" + kClasses[2] + "\n" +
                             kClasses[3] + "\n"));
    expect_all(*open({folder_ / name}, Part::val));
    EXPECT_EQ(open({folder_ / name})->size(), 4);
    EXPECT_EQ(open({folder_ / name}, Part::val)->name(2), val_name(2));
  }
}

TEST(TfRecord, LabelsFromZeroStayWhenAZeroOccurs) {
  const TempFolder folder;
  folder.write(
      "a.tfrecord",
      to_bytes(record(example(feature("image/class/label", 0) + feature("image/encoded", "x")))));
  folder.write(
      "b.tfrecord",
      to_bytes(record(example(feature("image/class/label", 2) + feature("image/encoded", "y")))));
  const auto both = open({folder.str()}), other = open({folder / "b.tfrecord"});
  EXPECT_EQ(both->label(1), 2);
  EXPECT_EQ(other->label(0), 1);  // from 1 on
  folder.write("c.tfrecord",
               to_bytes(record(example(feature("label", 2) + feature("image", "z")))));
  EXPECT_EQ(open({folder / "c.tfrecord"})->label(0), 2);  // this key counts from 0
}

std::string refusal(const std::string& path, Part part = Part::any) {
  return error_of([&] { open({path}, part); });
}

TEST(WebDataset, ClassesThatOneShardLacksKeepTheirNumbers) {
  const TempFolder folder;
  folder.write("0.tar", to_bytes(tar_member("a.jpg", "x") + tar_member("a.cls", "7") + tar_end()));
  folder.write("1.tar",
               to_bytes(tar_member("b.jpg", "y") + tar_member("b.cls", "003") + tar_end()));
  for (const auto& set : {open({folder.str()}), open({folder / "0.tar", folder / "1.tar"}),
                          open({folder / "{0,1}.tar"})}) {
    EXPECT_EQ(set->classes().size(), 8u);
    EXPECT_EQ(set->label(0), 7);
    EXPECT_EQ(set->label(1), 3);
  }
}

std::string labelled(int label) {
  return record(example(feature("image/class/label", label) + feature("image/encoded", "x")));
}

TEST(TfRecord, TrainingAndValidationMustCountAlike) {
  const TempFolder folder;
  const std::string train = folder.write("train.tfrecord", to_bytes(labelled(0) + labelled(1) +
                                                                    labelled(2) + labelled(3))),
                    val = folder.write("val.tfrecord",
                                       to_bytes(labelled(1) + labelled(2) + labelled(3)));
  folder.write("classes.txt", to_bytes("ant\nbee\ncat\ndog\n"));
  EXPECT_THAT(error_of([&] { check_same_classes(*open({train}), *open({val})); }),
              AllOf(HasSubstr("E-DATA-03"), HasSubstr("occurs in train, but not in val"),
                    HasSubstr("label_base to 0")));
  const auto told = open({val}, Part::val, LabelBase::zero);
  check_same_classes(*open({train}, Part::train, LabelBase::zero), *told);
  EXPECT_EQ(told->classes()[static_cast<std::size_t>(told->label(0))], "bee");
  EXPECT_THAT(error_of([&] { open({train}, Part::train, LabelBase::one); }),
              AllOf(HasSubstr("train.tfrecord: a label 0 occurs"), HasSubstr("label_base")));
}

TEST(TfRecord, AGuessIsSaid) {
  const TempFolder folder;
  const std::string path = folder.write("a.tfrecord", to_bytes(labelled(1) + labelled(3)));
  const auto said =
      ElementsAre(AllOf(HasSubstr(path), HasSubstr("count from 1"), HasSubstr("label_base to 0")));
  EXPECT_THAT(open({path})->notes(), said);
  EXPECT_TRUE(open({path}, Part::any, LabelBase::one)->notes().empty());
  folder.write("classes.txt", to_bytes("ant\nbee\ncat\ndog\n"));
  EXPECT_THAT(open({path})->notes(), said);
  folder.write("classes.txt", to_bytes("ant\nbee\ncat\n"));  // 3 of 3: no guess
  EXPECT_TRUE(open({path})->notes().empty());
}

TEST(WebDataset, AKeyEndsAtTheFirstDotAndWhatFollowsIsTheKind) {
  const TempFolder folder;
  const auto shard = [&](const std::string& members) {
    return folder.write("a.tar", to_bytes(members + tar_end()));
  };
  for (const std::string in : {"", "sub/"}) {
    const auto depth = samples_of(
        *open({shard(tar_member(in + "a.depth.png", "depth") + tar_member(in + "a.JPG", "picture") +
                     tar_member(in + "a.cls", "3") + tar_member(in + "a.caption.txt", "9"))}));
    ASSERT_EQ(depth.size(), 1u) << in;
    EXPECT_EQ(depth[0], (Sample{"0003", "picture"})) << in;
    std::string dotted;
    for (const std::string n : {"1", "2", "3", "4"})
      dotted += tar_member(in + "img." + n + ".jpg", "picture " + n) +
                tar_member(in + "img." + n + ".cls", n);
    EXPECT_THAT(refusal(shard(dotted)), AllOf(HasSubstr("img.1.jpg"), HasSubstr("first dot")))
        << in;
  }
}

TEST(WebDataset, TwoOfAKindUnderOneKeyAreRefused) {
  const TempFolder folder;
  const auto shard = [&](const std::string& members) {
    return folder.write("a.tar", to_bytes(members + tar_end()));
  };
  const std::string good = tar_member("a.jpg", "x") + tar_member("a.cls", "1");
  EXPECT_THAT(refusal(shard(good + tar_member("a.png", "y"))),
              AllOf(HasSubstr("E-DATA-04"), HasSubstr("a.tar: "), HasSubstr("a.jpg and a.png"),
                    HasSubstr("Rename")));
  EXPECT_THAT(refusal(shard(good + tar_member("a.cls", "2"))), HasSubstr("a.cls and a.cls"));
}

TEST(ClassTars, AWnidOutsideNamesTheClass) {
  const TempFolder folder;
  for (int c = 0; c < 3; ++c) {
    const std::string& wnid = kClasses[static_cast<std::size_t>(c)];
    folder.write("flat/" + wnid + ".tar",
                 to_bytes(tar_member("0.JPEG", "a") + tar_member("1.JPEG", "b") +
                          tar_member("notes.txt", "c") + tar_end()));
    folder.write("deep/" + wnid + ".tar", to_bytes(tar_member("images/0.JPEG", "a") +
                                                   tar_member("images/1.JPEG", "b") + tar_end()));
  }
  std::string outer;
  for (int c = 0; c < 3; ++c)
    outer +=
        tar_member(kClasses[static_cast<std::size_t>(c)] + ".tar",
                   tar_member("images/0.JPEG", "a") + tar_member("images/1.JPEG", "b") + tar_end());
  folder.write("whole/train.tar", to_bytes(outer + tar_end()));
  // speaks of other pictures
  folder.write("val/LOC_val_solution.csv",
               to_bytes("ImageId,PredictionString\n0,n02100735 1 1 2 2\n"));
  for (const char* kind : {"flat", "deep", "whole"}) {
    const auto set = open({folder / kind});
    EXPECT_THAT(set->classes(), ElementsAre(kClasses[0], kClasses[1], kClasses[2])) << kind;
    ASSERT_EQ(set->size(), 6) << kind;
    EXPECT_EQ(set->label(5), 2) << kind;
  }
}

TEST(TfRecord, LabelsFromOneStayWhenNamedPartsJoin) {
  const TempFolder folder;
  const std::string records =
      folder.write("a.tfrecord", to_bytes(labelled(1) + labelled(2) + labelled(3)));
  folder.write("classes.txt", to_bytes("ant\nbee\ncat\ndog\n"));
  const std::string words =
      folder.write("w.tar", to_bytes(tar_member("dog/0.jpg", "x") + tar_end()));
  const auto names = [](const Dataset& set) {
    std::vector<std::string> all;
    for (const Sample& sample : samples_of(set)) all.push_back(sample.class_name);
    return all;
  };
  EXPECT_THAT(names(*open({records})), ElementsAre("ant", "bee", "cat"));
  EXPECT_THAT(names(*open({records, words})), ElementsAre("ant", "bee", "cat", "dog"));
  EXPECT_THAT(names(*open({words, records})), ElementsAre("dog", "ant", "bee", "cat"));
  const std::string zero = folder.write(
      "0.tar", to_bytes(tar_member("a.jpg", "x") + tar_member("a.cls", "0") + tar_end()));
  // another container's zero says nothing
  EXPECT_THAT(names(*open({records, zero})), ElementsAre("ant", "bee", "cat", "ant"));
}

TEST(Layout, AnUnknownOneGetsOneSentence) {
  const TempFolder folder;
  folder.write("in/val/ILSVRC2012_val_00000001.JPEG", {});
  EXPECT_THAT(refusal(folder / "in/train"),
              AllOf(HasSubstr("no such file or folder"), HasSubstr("Found beside it: val/. ")));
  for (const char* name : {"more/train.log", "more/a.png", "more/shapes.tar", "more/.x.tar"})
    folder.write(name, {});
  EXPECT_THAT(refusal(folder / "more/train"), HasSubstr("Found beside it: shapes.tar. "));
  EXPECT_THAT(refusal(folder / "in/val"),
              AllOf(HasSubstr("is flat: 1 images"), HasSubstr("ILSVRC2012_devkit_t12.tar.gz"),
                    HasSubstr("no files need moving")));
  folder.write("in/ILSVRC2012_validation_ground_truth.txt", to_bytes("490\n"));
  EXPECT_THAT(refusal(folder / "in/val"),
              AllOf(HasSubstr("neither meta.mat nor map_clsloc.txt"), HasSubstr("own order")));
  folder.write("in/meta.mat", to_bytes(make_meta_mat(kKit, true)));
  EXPECT_THAT(refusal(folder / "in/val"),
              HasSubstr("line 1 says 490, which is no class of the development kit"));
  folder.write("in/ILSVRC2012_validation_ground_truth.txt", to_bytes("1\n"));
  EXPECT_EQ(open({folder / "in/val"})->size(), 1);
  folder.write("in/val/ILSVRC2012_val_00000002.JPEG", {});
  EXPECT_THAT(refusal(folder / "in/val"),
              HasSubstr("ILSVRC2012_val_00000002.JPEG: not one of the images"));
  folder.write("mixed/0.tar", to_bytes(tar_member("a.jpg", "x") + tar_member("a.cls", "7") +
                                       tar_member("b.jpg", "x") + tar_end()));
  EXPECT_THAT(
      refusal(folder / "mixed"),
      AllOf(HasSubstr("1 of 2 images have no label, the first: b.jpg"), HasSubstr("KEY.cls")));
  folder.write("big/0.tar",
               to_bytes(tar_member("a.jpg", "x") + tar_member("a.cls", "999999999") + tar_end()));
  EXPECT_THAT(refusal(folder / "big"), HasSubstr("label 999999999"));
  folder.write("two/0.tar",
               to_bytes(tar_member("a.jpg", "x") + tar_member("a.cls", "1") + tar_end()));
  folder.write("two/1.tar", to_bytes(tar_member("cat/a.jpg", "x") + tar_end()));
  EXPECT_THAT(refusal(folder / "two"),
              AllOf(HasSubstr("its classes are numbers"), HasSubstr("are names"),
                    HasSubstr("synset_words.txt")));
  EXPECT_THAT(refusal(folder / "{9..1}.tar"), HasSubstr("from the smaller to the larger"));
  folder.write("half/x-00000-of-00002.pack", to_bytes("GSPACK"));
  EXPECT_THAT(refusal(folder / "half"),
              AllOf(HasSubstr("1 of 2 packed shards"), HasSubstr("Pack the same set again")));
}

}  // namespace
}  // namespace gossamer::data
