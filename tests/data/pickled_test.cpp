// Pickled batches: ImageNet-32 as numpy writes it, CIFAR as Python 2 did, and damaged ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/helpers.h"

namespace gossamer::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::string_literals;

Bytes golden(const std::string& name) {
  std::ifstream in(GOSSAMER_SOURCE_DIR "/tests/golden/" + name, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  return to_bytes(bytes);
}

std::vector<int> labels(const Dataset& set) {
  std::vector<int> out;
  for (i64 i = 0; i < set.size(); ++i) out.push_back(static_cast<int>(set.label(i)));
  return out;
}

// The pixels that tests/golden/pickled_batches.py wrote.
void expect_pixels(const Dataset& set, i64 i, int picture) {
  Bytes buffer;
  const auto bytes = set.bytes(i, buffer);
  ASSERT_EQ(bytes.size(), 3072u);
  for (int p = 0; p < 1024; ++p)
    for (int c = 0; c < 3; ++c)
      ASSERT_EQ(std::to_integer<int>(bytes[static_cast<std::size_t>(p * 3 + c)]),
                (picture * 7 + c * 50 + p % 61) % 256);
}

TEST(Pickled, ImageNet32IsRead) {
  const TempFolder folder;
  folder.write("train_data_batch_1", golden("imagenet32.pickle3"));
  folder.write("train_data_batch_2", golden("imagenet32.pickle4"));
  folder.write("val_data", golden("imagenet32.pickle4"));
  const auto set = open({folder.str()}, Part::train);
  ASSERT_EQ(set->size(), 5);
  EXPECT_EQ(set->classes().size(), 1000u);
  EXPECT_THAT(labels(*set), ElementsAre(999, 0, 332, 1, 0));
  EXPECT_EQ(set->classes()[332], "0333");
  EXPECT_EQ(set->name(3), "train_data_batch_2#0");
  for (i64 i = 0; i < 5; ++i) expect_pixels(*set, i, static_cast<int>(i < 3 ? i : i - 3));
  EXPECT_EQ(open({folder.str()}, Part::val)->size(), 2);
  EXPECT_EQ(set->raw().height, 32);
}

// ImageNet-32 numbers its classes as map_clsloc.txt does, not in the order of their ids.
TEST(Pickled, ClassesAreWordNetIdsIfTheListLiesBesideThem) {
  const TempFolder folder;
  std::string list;
  for (int i = 1; i <= 1000; ++i)
    list += "n" + std::to_string(10002000 - i) + " " + std::to_string(i) + " word\n";
  folder.write("map_clsloc.txt", to_bytes(list));
  folder.write("train_data_batch_1", golden("imagenet32.pickle3"));
  const auto set = open({folder.str()}, Part::train);
  EXPECT_THAT(labels(*set), ElementsAre(0, 999, 667));
  EXPECT_EQ(set->classes()[0], "n10001000");
}

std::string array(const std::string& shape, const std::string& pixels) {
  return "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R(K\1"s + shape +
         "cnumpy\ndtype\nU\2u1K\0K\1\x87R(K\3U\1|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89T"s +
         static_cast<char>(pixels.size()) + static_cast<char>(pixels.size() >> 8) + "\0\0"s +
         pixels + "tb";
}
std::string cifar_batch(const std::string& labels, const std::string& shape = "K\2M\0\x0c\x86"s) {
  std::string pixels;
  for (int i = 0; i < 2; ++i)
    for (int c = 0; c < 3; ++c)
      for (int p = 0; p < 1024; ++p) pixels += static_cast<char>(i * 7 + c * 50 + p % 61);
  return "\x80\2}q\1(U\x0b"
         "batch_labelU\1xU\6labels](" +
         labels + "eU\4data" + array(shape, pixels) +
         "U\x09"
         "filenames](U\3aaaU\3bbbeu.";
}

TEST(Pickled, CifarsPythonVersionIsRead) {
  const TempFolder folder;
  folder.write("data_batch_1", to_bytes(cifar_batch("K\6K\0"s)));
  folder.write("test_batch", to_bytes(cifar_batch("K\1K\x09")));
  const auto set = open({folder.str()}, Part::train);
  EXPECT_EQ(set->classes().size(), 10u);
  EXPECT_THAT(labels(*set), ElementsAre(6, 0));
  expect_pixels(*set, 1, 1);
  EXPECT_THAT(labels(*open({folder.str()}, Part::val)), ElementsAre(1, 9));
}

// A script that reads CIFAR with encoding="bytes" and writes it again.
TEST(Pickled, NamesInABatchMayBeBytes) {
  for (const char* name : {"cifar.pickle4", "cifar.pickle5"}) {
    const TempFolder folder;
    folder.write("data_batch_1", golden(name));
    const auto set = open({folder.str()}, Part::train);
    EXPECT_THAT(labels(*set), ElementsAre(6, 0)) << name;
    expect_pixels(*set, 1, 1);
  }
}

TEST(Pickled, SaysWhatIsWrong) {
  const TempFolder folder;
  const auto refusal = [&](const Bytes& bytes) {
    const std::string path = folder.write("data_batch_1", bytes);
    return error_of([&] { open({path}); });
  };
  Bytes cut = golden("imagenet32.pickle3");
  cut.resize(5000);
  EXPECT_THAT(refusal(cut), AllOf(HasSubstr("data_batch_1"), HasSubstr("cut short")));
  for (const char* name : {"imagenet32.pickle2", "cifar.pickle2"})
    EXPECT_THAT(refusal(golden(name)), AllOf(HasSubstr("stored as text"), HasSubstr("protocol=4")));
  EXPECT_THAT(refusal(to_bytes("\x80\2cposix\nsystem\n(U\2lstR.")),
              AllOf(HasSubstr("it names posix.system"), HasSubstr("is not called")));
  EXPECT_THAT(refusal(to_bytes("\x80\2}.")), HasSubstr("no dict with \"data\""));
  EXPECT_THAT(refusal(to_bytes(cifar_batch("K\6K\x0a"))),
              HasSubstr("the label of picture 1 is no number from 0 to 9"));
  EXPECT_THAT(refusal(to_bytes(cifar_batch("K\6"))), HasSubstr("1 labels for 2 pictures"));
  EXPECT_THAT(refusal(to_bytes(cifar_batch("K\6K\6", "K\3M\0\x0c\x86"s))),
              HasSubstr("6144 bytes are not 3 pictures"));
  EXPECT_THAT(refusal(to_bytes(cifar_batch("K\6K\6", "K\2M\0\x30\x86"s))),
              HasSubstr("no array of N x 3072"));
  EXPECT_THAT(refusal(to_bytes(cifar_batch("K\6K\6", "K\2J\xff\xff\xff\x7f\x86"s))),
              HasSubstr("no array of N x 3072"));
}

}  // namespace
}  // namespace gossamer::data
