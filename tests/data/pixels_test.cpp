// Raw pixels: however they lie in a file, samples are u8 [height, width, 3].
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/data/dataset/find.h"
#include "gossamer/data/dataset/indexed_set.h"
#include "gossamer/data/formats/index_file.h"

namespace gossamer::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint32_t kWidth = 5, kHeight = 3;

int value(std::uint32_t x, std::uint32_t y, std::uint32_t c) {
  return static_cast<int>(50 * c + 10 * y + x);
}

// Two pictures behind four bytes, the second brighter by one.
Bytes file_of(const PixelLayout& p) {
  Bytes file(4 + 2 * p.bytes());
  for (std::uint32_t i = 0; i < 2; ++i)
    for (std::uint32_t y = 0; y < p.height; ++y)
      for (std::uint32_t x = 0; x < p.width; ++x)
        for (std::uint32_t c = p.channel ? 3 : 1; c-- > 0;)
          file[4 + i * p.bytes() + x * p.right + y * p.down + c * p.channel] =
              static_cast<std::byte>(value(x, y, c) + static_cast<int>(i));
  return file;
}

Index index_of(const std::string& path, const PixelLayout& p) {
  IndexBuilder builder(path, p);
  builder.add("first", "b", 4);
  builder.add("second", "a", 4 + p.bytes());
  return builder.finish();
}

TEST(Pixels, MayLieInAnyOrder) {
  const TempFolder folder;
  for (const PixelLayout& layout :
       {PixelLayout{kWidth, kHeight, 1, kWidth, 0},                     // gray
        PixelLayout{kWidth, kHeight, 1, kWidth, kWidth * kHeight},      // planes
        PixelLayout{kWidth, kHeight, 3, 3 * kWidth, 1},                 // pixel by pixel
        PixelLayout{kWidth, kHeight, kHeight, 1, kWidth * kHeight}}) {  // planes by columns: STL-10
    const std::string path = folder.write("pixels", file_of(layout));
    const Index index = index_of(path, layout);
    const Index stored = decode_index(encode_index(index), path, 4 + 2 * layout.bytes());
    for (const Index& each : {index, stored}) {
      const auto set = open_indices({each});
      EXPECT_EQ(set->raw().width, static_cast<int>(kWidth));
      EXPECT_EQ(set->raw().height, static_cast<int>(kHeight));
      Bytes buffer;
      const auto pixels = set->bytes(1, buffer);
      ASSERT_EQ(pixels.size(), kWidth * kHeight * 3);
      for (std::uint32_t y = 0; y < kHeight; ++y)
        for (std::uint32_t x = 0; x < kWidth; ++x)
          for (std::uint32_t c = 0; c < 3; ++c)
            EXPECT_EQ(std::to_integer<int>(pixels[(y * kWidth + x) * 3 + c]),
                      value(x, y, layout.channel ? c : 0) + 1);
    }
  }
}

TEST(Pixels, OfTwoSizesAreNotJoined) {
  const TempFolder folder;
  const PixelLayout wide{kWidth, kHeight, 1, kWidth, 0}, high{kHeight, kWidth, 1, kHeight, 0};
  const std::string a = folder.write("a", file_of(wide)), b = folder.write("b", file_of(high));
  EXPECT_THAT(error_of([&] {
                open_indices({index_of(a, wide), index_of(b, high)});
              }),
              AllOf(HasSubstr("raw pixels of 5 x 3 (" + a + ") and raw pixels of 3 x 5 (" + b),
                    HasSubstr("can't be joined")));
}

TEST(Pixels, LayoutsOfNoPictureAreRefused) {
  const auto refusal = [](const PixelLayout& layout) {
    return error_of([&] { IndexBuilder("x", layout); });
  };
  EXPECT_EQ(refusal({32, 32, 1, 32, 1024}), "no error");
  EXPECT_THAT(refusal({}), HasSubstr("x: pictures of 0 x 0 raw pixels"));
  EXPECT_THAT(refusal({5, 40'000, 1, 5, 0}), HasSubstr("pictures of 5 x 40000 raw pixels"));
  EXPECT_THAT(refusal({1000, 1000, 0, 0, 0}), HasSubstr("1000 raw pixels in 1 bytes"));
  EXPECT_THAT(refusal({1000, 1000, ~0u, ~0u, ~0u}), HasSubstr("the limit is 64 MiB"));
  Index lies = index_of("x", {kWidth, kHeight, 1, kWidth, 0});
  lies.layout.down = 0;
  EXPECT_THAT(error_of([&] { decode_index(encode_index(lies), "x", 1000); }),
              HasSubstr("raw pixels in 5 bytes"));
  lies = index_of("x", {kWidth, kHeight, 1, kWidth, 0});
  lies.bytes[1] = 14;
  EXPECT_THAT(error_of([&] { decode_index(encode_index(lies), "x", 1000); }),
              HasSubstr("sample 1 has 14 bytes"));
}

// A stored index from before pixels had a layout is read as none.
TEST(Pixels, IndexWithoutALayoutIsMadeAgain) {
  const Index index = index_of("x", {32, 32, 1, 32, 1024});
  Bytes old = encode_index(index);
  old[6] = std::byte{0};
  old.erase(old.begin() + 48, old.begin() + 68);
  EXPECT_THAT(error_of([&] { decode_index(old, "x", 10'000); }), HasSubstr("its kind"));
}

}  // namespace
}  // namespace gossamer::data
