// IDX files: MNIST's pictures and labels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/formats.h"
#include "data/helpers.h"
#include "gossamer/data/dataset/find.h"
#include "gossamer/data/formats/index_file.h"

namespace gossamer::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string big(std::uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
  return out;
}

// The value of pixel p of picture i is 7 i + p.
std::string pictures(int count, int width = 6, int height = 4) {
  std::string file = big(0x803) + big(static_cast<std::uint32_t>(count)) +
                     big(static_cast<std::uint32_t>(height)) +
                     big(static_cast<std::uint32_t>(width));
  for (int i = 0; i < count; ++i)
    for (int p = 0; p < width * height; ++p) file += static_cast<char>(7 * i + p);
  return file;
}

std::string labels(const std::string& values) {
  return big(0x801) + big(static_cast<std::uint32_t>(values.size())) + values;
}

struct Mnist {
  TempFolder folder;
  Mnist() {
    folder.write("train-images-idx3-ubyte", to_bytes(pictures(4)));
    folder.write("train-labels-idx1-ubyte", to_bytes(labels({3, 0, 9, 3})));
    folder.write("t10k-images-idx3-ubyte", to_bytes(pictures(2)));
    folder.write("t10k-labels-idx1-ubyte", to_bytes(labels({9, 1})));
  }
};

TEST(Idx, PicturesAndTheirLabelsAreRead) {
  const Mnist mnist;
  const auto train = open({mnist.folder.str()}, Part::train);
  ASSERT_EQ(train->size(), 4);
  EXPECT_EQ(train->classes().size(), 10u);
  EXPECT_EQ(train->classes()[9], "0009");
  EXPECT_EQ(train->label(2), 9);
  EXPECT_EQ(train->name(2), "train-images-idx3-ubyte#2");
  EXPECT_EQ(train->raw().width, 6);
  EXPECT_EQ(train->raw().height, 4);
  Bytes buffer;
  const auto pixels = train->bytes(2, buffer);
  ASSERT_EQ(pixels.size(), 72u);
  for (int p = 0; p < 24; ++p)
    for (int c = 0; c < 3; ++c)
      EXPECT_EQ(std::to_integer<int>(pixels[static_cast<std::size_t>(3 * p + c)]), 14 + p);
  EXPECT_EQ(open({mnist.folder.str()})->size(), 4);
  const auto val = open({mnist.folder.str()}, Part::val);
  EXPECT_EQ(val->size(), 2);
  EXPECT_EQ(val->label(0), 9);
  check_same_classes(*train, *val);
}

TEST(Idx, NamesBesideThemAreTheClasses) {
  const Mnist mnist;
  mnist.folder.write("classes.txt", to_bytes("t\nu\ns\nr\nq\np\no\nn\nm\nl\n"));
  const auto set = open({mnist.folder.str()}, Part::train);
  EXPECT_EQ(set->classes()[0], "l");
  EXPECT_EQ(set->classes()[static_cast<std::size_t>(set->label(0))], "r");
}

TEST(Idx, TheOldNamesAreKnown) {
  const TempFolder folder;
  folder.write("train-images.idx3-ubyte", to_bytes(pictures(2)));
  folder.write("train-labels.idx1-ubyte", to_bytes(labels({1, 0})));
  EXPECT_EQ(open({folder.str()})->label(0), 1);
}

TEST(Idx, StoredIndexSaysTheSame) {
  const Mnist mnist;
  const std::string path = mnist.folder / "train-images-idx3-ubyte";
  store_index(read_container({path, false}));
  ASSERT_TRUE(load_index(path));
  const auto set = open({path});
  EXPECT_EQ(set->label(2), 9);
  Bytes buffer;
  EXPECT_EQ(set->bytes(3, buffer)[0], std::byte{21});
}

TEST(Idx, SaysWhatIsWrong) {
  const TempFolder folder;
  const std::string name = "train-images-idx3-ubyte", beside = "train-labels-idx1-ubyte";
  const auto refusal = [&](const std::string& images, const std::string& numbers) {
    folder.write(beside, to_bytes(numbers));
    return error_of([&] { open({folder.write(name, to_bytes(images))}); });
  };
  const std::string good = pictures(2), two = labels({1, 0});
  EXPECT_EQ(refusal(good, two), "no error");
  EXPECT_THAT(refusal(good.substr(0, 40), two),
              AllOf(StartsWith("E-DATA-05"), HasSubstr(name + ": holds 24 bytes"),
                    HasSubstr("2 pictures of 6 x 4"), HasSubstr("complete?")));
  EXPECT_THAT(refusal(good + "x", two), HasSubstr("holds 49 bytes"));
  EXPECT_THAT(refusal(good.substr(0, 15), two), HasSubstr("15 bytes are no IDX file"));
  EXPECT_THAT(refusal(good, two.substr(0, 9)),
              AllOf(HasSubstr(beside + ": holds 1 bytes"), HasSubstr("2 labels")));
  EXPECT_THAT(refusal(good, two.substr(0, 5)), HasSubstr(beside + ": 5 bytes are no IDX file"));
  EXPECT_THAT(refusal(good, labels({1, 0, 2})),
              HasSubstr(beside + ": holds 3 labels, and " + folder.str()));
  EXPECT_THAT(refusal(good, good), HasSubstr("no IDX file of labels: it begins with 2051"));
  EXPECT_THAT(refusal(two + std::string(8, ' '), two), HasSubstr("no IDX file of pictures"));
  EXPECT_THAT(refusal(big(0x803) + big(~0u) + big(~0u) + big(~0u), two), HasSubstr("complete?"));
  EXPECT_THAT(refusal(big(0x803) + big(0) + big(0) + big(0), two), HasSubstr("complete?"));
  EXPECT_THAT(refusal(pictures(0), labels("")), HasSubstr("holds no images"));
  std::filesystem::remove(folder / beside);
  EXPECT_THAT(error_of([&] { open({folder / name}); }),
              AllOf(StartsWith("E-DATA-02"), HasSubstr("missing: " + (folder / beside))));
  EXPECT_THAT(error_of([&] { open({folder.write("other", to_bytes(good))}); }),
              AllOf(StartsWith("E-DATA-02"), HasSubstr("NAME-labels-idx1-ubyte")));
  EXPECT_THAT(error_of([&] { open({folder.write(name + ".gz", to_bytes(gzip(good)))}); }),
              AllOf(StartsWith("E-DATA-04"), HasSubstr("compressed; unpack it first: IDX files")));
}

TEST(Idx, PicturesCutLaterAreDamaged) {
  const Mnist mnist;
  const std::string path = mnist.folder / "train-images-idx3-ubyte";
  const auto set = open({path});
  std::filesystem::resize_file(path, 50);
  Bytes buffer;
  set->bytes(0, buffer);
  EXPECT_THAT(error_of([&] { set->bytes(1, buffer); }),
              AllOf(StartsWith("train-images-idx3-ubyte#1: "), HasSubstr("ends at byte 50")));
}

}  // namespace
}  // namespace gossamer::data
