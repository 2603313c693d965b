// Decoding: equal to what was encoded, boxes equal to crops, and every kind of damage an error that
// names the file.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/random.h"

namespace gossamer::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Coding {
  int h, v;
  bool progressive;
};

class DecodeBox : public testing::TestWithParam<Coding> {};

TEST_P(DecodeBox, EqualsCroppingTheWholePicture) {
  const Coding coding = GetParam();
  Rng rng(7, static_cast<std::uint64_t>(coding.h * 100 + coding.v * 10 + coding.progressive));
  for (const ImageSize size :
       {ImageSize{331, 203}, {64, 64}, {200, 37}, {33, 150}, {17, 5}, {1, 1}, {48, 96}}) {
    const Bytes jpeg = encode_jpeg(
        pattern(size.width, size.height),
        {.quality = 80, .h = coding.h, .v = coding.v, .progressive = coding.progressive});
    const Image whole = decode(jpeg, "whole.jpg");
    ASSERT_EQ(whole.width, size.width);
    for (int i = 0; i < 60; ++i) {
      Box box;
      box.x = static_cast<int>(rng.below(static_cast<std::uint32_t>(size.width)));
      box.y = static_cast<int>(rng.below(static_cast<std::uint32_t>(size.height)));
      box.width = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(size.width - box.x)));
      box.height = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(size.height - box.y)));
      ASSERT_EQ(decode_box(jpeg, "box.jpg", box).pixels, crop(whole, box).pixels)
          << size.width << "x" << size.height << ": " << box.width << "x" << box.height << " at "
          << box.x << "," << box.y;
    }
  }
}

// Only as many columns are decoded as chroma needs for its interpolation: no place of an edge among
// the MCUs may show, nor one at the picture's.
TEST_P(DecodeBox, EqualsCroppingAtEveryColumn) {
  const Coding coding = GetParam();
  for (const int columns : {99, 1, 2, 3, 4, 5, 6, 7, 17, 33}) {
    const Bytes jpeg = encode_jpeg(
        pattern(columns, 19),
        {.quality = 80, .h = coding.h, .v = coding.v, .progressive = coding.progressive});
    const Image whole = decode(jpeg, "whole.jpg");
    for (int x = 0; x < columns; ++x)
      for (int width = 1; width <= std::min(33, columns - x); ++width) {
        const Box box{x, 3, width, 13};
        ASSERT_EQ(decode_box(jpeg, "box.jpg", box).pixels, crop(whole, box).pixels)
            << width << " from " << x << " of " << columns;
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Codings, DecodeBox,
                         testing::Values(Coding{1, 1, false}, Coding{2, 1, false},
                                         Coding{2, 2, false}, Coding{1, 2, false},
                                         Coding{4, 1, false}, Coding{3, 1, false},
                                         Coding{2, 2, true}, Coding{1, 1, true}),
                         [](const auto& p) {
                           return std::to_string(p.param.h) + "x" + std::to_string(p.param.v) +
                                  (p.param.progressive ? "progressive" : "");
                         });

// A progressive file may end before all coefficients have come. libjpeg then guesses low ones from
// the blocks around, up to two away, so these must be decoded although no pixel of them is wanted.
TEST(Decode, BoxesOfProgressiveFilesThatLackCoefficientsEqualCrops) {
  const Image image = pattern(150, 90);
  for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {2, 2}, {4, 1}}) {
    const Bytes jpeg =
        raw_jpeg(150, 90, JCS_RGB, 3, image.pixels, false, {{3, {0, 1, 2, 0}, 0, 0, 0, 0}}, h, v);
    const Image whole = decode(jpeg, "dc.jpg");
    for (int x = 0; x < 100; ++x)
      for (const int y : {0, 9, 37}) {
        const Box box{x, y, 40, 30};
        ASSERT_EQ(decode_box(jpeg, "dc.jpg", box).pixels, crop(whole, box).pixels)
            << h << "x" << v << " from " << x << ", " << y;
      }
  }
}

// At a multiple of 32, or 16, libjpeg-turbo would bypass the caches, and all that follows would
// wait for memory.
TEST(Decode, HasRowsWrittenBetweenTheAlignedAddresses) {
  ImageReader reader;
  for (const int width : {64, 200, 331, 1000, 64}) {  // the memory is used again, and grows
    int rows = 0;
    const Bytes jpeg = encode_jpeg(pattern(width, 90), {.quality = 80});
    reader.open(jpeg, "rows.jpg");
    reader.start({0, 0, width, 90});
    for (Rows r; reader.next(r);) {
      rows += r.count;
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(r.first) % 16, 8u) << width;
      EXPECT_EQ(r.stride % 16, 0u) << width;
    }
    EXPECT_EQ(rows, 90);
  }
}

// Our Huffman decoder against libjpeg's: the same pixels, and the same opinion of what is damaged.
struct Decoded {
  Image image;
  std::string error;
};
Decoded decoded(std::span<const std::byte> bytes, Box box, JpegHuffman huffman) {
  Decoded out;
  try {
    ImageReader reader(bytes, "x.jpg", huffman);
    reader.start(box);
    out.image = {box.height, box.width,
                 std::vector<std::uint8_t>(static_cast<std::size_t>(box.width) * box.height * 3)};
    reader.read(out.image.pixels.data());
  } catch (const DataError& error) {
    out.error = error.what();
    out.image = {};
  }
  return out;
}

TEST(OurHuffmanDecoder, AgreesWithTheLibraryOnWholeFiles) {
  Rng rng(21);
  for (const int quality : {5, 50, 85, 100})
    for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {2, 2}, {4, 1}})
      for (const ImageSize size : {ImageSize{131, 77}, {8, 8}, {1, 300}, {300, 3}}) {
        Image noise = pattern(size.width, size.height);
        // the longest codes
        if (quality > 50)
          for (std::uint8_t& p : noise.pixels) p = static_cast<std::uint8_t>(rng.word());
        const Box all{0, 0, size.width, size.height},
            part{size.width / 3, size.height / 3, (size.width + 2) / 3, (size.height + 2) / 3};
        for (const int restart : {0, 1, 2, 7, 500}) {
          const Bytes jpeg =
              encode_jpeg(noise, {.quality = quality, .h = h, .v = v, .restart = restart});
          for (const Box box : {all, part}) {
            const Decoded ours = decoded(jpeg, box, JpegHuffman::ours),
                          theirs = decoded(jpeg, box, JpegHuffman::libjpeg);
            ASSERT_EQ(ours.error, "");
            ASSERT_EQ(ours.image.pixels, theirs.image.pixels)
                << quality << " " << h << "x" << v << " " << size.width << "x" << size.height
                << ", " << restart;
          }
        }
      }
}

TEST(OurHuffmanDecoder, AgreesWithTheLibraryOnDamagedFiles) {
  Rng rng(22);
  int refused = 0, accepted = 0;
  for (int i = 0; i < 1500; ++i) {
    const ImageSize size{16 + i % 50, 90};
    Bytes jpeg = encode_jpeg(
        pattern(size.width, size.height),
        {.quality = 75, .h = 1 + i % 2, .v = 1 + i / 2 % 2, .restart = i % 7 < 3 ? 0 : i % 7});
    // mostly in the coded data, else in the headers as well
    const std::uint32_t from = i % 3 ? 600 : 2;
    for (std::uint32_t k = 0; k <= rng.below(3); ++k)
      jpeg[from + rng.below(static_cast<std::uint32_t>(jpeg.size()) - from)] =
          static_cast<std::byte>(rng.word());
    if (i % 5 == 0) jpeg.resize(jpeg.size() - rng.below(200));
    ImageSize now;
    try {
      now = probe(jpeg, "x.jpg");
    } catch (const DataError&) {
      continue;
    }
    const Box box{0, 0, now.width, now.height};
    if (i64{now.width} * now.height > 1'000'000) continue;
    const Decoded ours = decoded(jpeg, box, JpegHuffman::ours),
                  theirs = decoded(jpeg, box, JpegHuffman::libjpeg);
    // libjpeg takes some codes that don't exist for zeros
    if (ours.error.ends_with("bad Huffman code")) continue;
    ASSERT_EQ(ours.error.empty(), theirs.error.empty())
        << i << ": " << ours.error << " / " << theirs.error;
    ASSERT_EQ(ours.image.pixels, theirs.image.pixels) << i;
    ++(ours.error.empty() ? accepted : refused);
  }
  EXPECT_GT(refused, 200);
  EXPECT_GT(accepted, 100);
}

// Of a picture with restart markers only the parts are decoded in which something wanted lies:
// damage elsewhere goes unseen, on the way it would be seen.
TEST(OurHuffmanDecoder, LeavesOutPartsThatNobodyWants) {
  const Image image = pattern(256, 256);
  const Box corner{200, 200, 56, 56};
  for (const int restart : {0, 4}) {
    Bytes jpeg = encode_jpeg(image, {.quality = 75, .restart = restart});
    const Decoded whole = decoded(jpeg, {0, 0, 256, 256}, JpegHuffman::ours),
                  before = decoded(jpeg, corner, JpegHuffman::ours);
    ASSERT_EQ(before.error, "");
    // Data without a marker among them: every code is cut off at once.
    for (std::size_t i = jpeg.size() / 3; i < jpeg.size() / 3 + 60; ++i)
      if (jpeg[i] != std::byte{0xFF} && jpeg[i - 1] != std::byte{0xFF}) jpeg[i] = std::byte{0};
    EXPECT_NE(decoded(jpeg, {0, 0, 256, 256}, JpegHuffman::ours).image.pixels, whole.image.pixels);
    EXPECT_EQ(decoded(jpeg, corner, JpegHuffman::ours).image.pixels == before.image.pixels,
              restart != 0);
  }
}

// The text of an error, too, is that of the file alone: not of what the thread decoded before, nor
// of what follows in the file.
TEST(OurHuffmanDecoder, SaysTheSameOfADamagedFileWhateverCameBefore) {
  Rng rng(23);
  const Bytes black = encode_jpeg(flat(64, 64, 0, 0, 0)),
              noise = encode_jpeg(pattern(200, 200), {.quality = 100});
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    Bytes jpeg = encode_jpeg(pattern(70, 50), {.quality = 75, .restart = i % 3 * 2});
    // It ends too early, in ones: what follows them decides whether they begin a code.
    const std::ptrdiff_t missing = 4 + rng.below(static_cast<std::uint32_t>(jpeg.size()) - 700);
    jpeg.erase(jpeg.end() - 2 - missing, jpeg.end() - 2);
    const Bytes ends[] = {{std::byte{0xFE}},
                          {std::byte{0x7F}},
                          {std::byte{0xFF}, std::byte{0}},
                          {std::byte{0xFF}, std::byte{0}, std::byte{0x3F}}};
    const Bytes& ones = ends[i % 4];
    jpeg.insert(jpeg.end() - 2, ones.begin(), ones.end());
    std::vector<std::string> texts;
    for (const Bytes* before : {&black, &noise}) {
      decode(*before, "before.jpg");
      texts.push_back(decoded(jpeg, {0, 0, 70, 50}, JpegHuffman::ours).error);
    }
    // with the end far away, bytes are copied by vectors
    jpeg.insert(jpeg.end(), 100, std::byte{0});
    texts.push_back(decoded(jpeg, {0, 0, 70, 50}, JpegHuffman::ours).error);
    EXPECT_EQ(texts[0], texts[1]) << i;
    EXPECT_EQ(texts[0], texts[2]) << i;
    refused += !texts[0].empty();
  }
  EXPECT_GT(refused, 100);
}

// Our decoder reads scans in parts up to some size, whatever follows the picture, and the library
// larger ones. Damage above the wanted pixels tells which one read: only the library meets it.
TEST(OurHuffmanDecoder, TakesPartsUpToASizeThatDoesNotCountWhatFollows) {
  Rng rng(24);
  Image big = flat(2400, 1900, 0, 0, 0);
  for (std::uint8_t& p : big.pixels) p = static_cast<std::uint8_t>(rng.word());
  const Bytes large = encode_jpeg(big, {.quality = 100, .h = 1, .v = 1, .restart = 100});
  ASSERT_GT(large.size(), 9u << 20);
  const Bytes small = encode_jpeg(pattern(300, 200), {.restart = 3});
  Bytes followed = small;
  followed.insert(followed.end(), 20 << 20, std::byte{7});
  struct {
    const Bytes& jpeg;
    std::size_t coded;
    Box box;
    bool ours;
  } const cases[] = {{large, large.size(), {1200, 900, 60, 40}, false},
                     {followed, small.size(), {200, 150, 60, 40}, true}};
  for (const auto& c : cases) {
    const Decoded whole = decoded(c.jpeg, c.box, JpegHuffman::ours);
    EXPECT_EQ(whole.error, "");
    EXPECT_EQ(whole.image.pixels, decoded(c.jpeg, c.box, JpegHuffman::libjpeg).image.pixels);
    Bytes bad = c.jpeg;
    // of a restart, before which bytes are missing
    auto marker = bad.begin() + static_cast<std::ptrdiff_t>(c.coded / 4);
    while (*marker != std::byte{0xFF} || (marker[1] & std::byte{0xF8}) != std::byte{0xD0}) ++marker;
    bad.erase(marker - 12, marker);
    EXPECT_NE(decoded(bad, c.box, JpegHuffman::libjpeg).error, "");
    EXPECT_EQ(decoded(bad, c.box, JpegHuffman::ours).error.empty(), c.ours);
    if (c.ours) EXPECT_EQ(decoded(bad, c.box, JpegHuffman::ours).image.pixels, whole.image.pixels);
  }
}

TEST(OurHuffmanDecoder, LeavesRestartMarkersOutOfOrderToTheLibrary) {
  const Bytes good = encode_jpeg(pattern(128, 128), {.quality = 75, .restart = 3});
  const auto is_restart = [](std::byte b) { return (b & std::byte{0xF8}) == std::byte{0xD0}; };
  int seen = 0;
  for (std::size_t i = 1; i < good.size(); ++i) {
    if (good[i - 1] != std::byte{0xFF} || !is_restart(good[i])) continue;
    for (const int step : {1, 3}) {
      Bytes bad = good;
      bad[i] = static_cast<std::byte>(0xD0 + (static_cast<int>(bad[i]) - 0xD0 + step) % 8);
      const Box all{0, 0, 128, 128};
      const Decoded ours = decoded(bad, all, JpegHuffman::ours),
                    theirs = decoded(bad, all, JpegHuffman::libjpeg);
      EXPECT_EQ(ours.error, theirs.error);
      EXPECT_NE(ours.error, "");
    }
    ++seen;
  }
  EXPECT_EQ(seen, 21);  // 64 MCUs in 22 parts
}

TEST(Decode, GivesNearlyThePixelsThatWereEncoded) {
  const Image image = flat(40, 30, 200, 90, 30);
  const Image back = decode(encode_jpeg(image, {.quality = 100}), "flat.jpg");
  ASSERT_EQ(back.pixels.size(), image.pixels.size());
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    ASSERT_NEAR(back.pixels[i], image.pixels[i], 3);
}

TEST(Decode, MakesThreeEqualChannelsOfGray) {
  std::vector<std::uint8_t> ramp;
  for (int i = 0; i < 32 * 16; ++i) ramp.push_back(static_cast<std::uint8_t>(i % 32 * 8));
  const Image image = decode(raw_jpeg(32, 16, JCS_GRAYSCALE, 1, ramp), "gray.jpg");
  for (std::size_t i = 0; i < ramp.size(); ++i) {
    EXPECT_NEAR(image.pixels[3 * i], ramp[i], 3);
    EXPECT_EQ(image.pixels[3 * i], image.pixels[3 * i + 1]);
    EXPECT_EQ(image.pixels[3 * i], image.pixels[3 * i + 2]);
  }
}

TEST(Decode, TurnsInvertedCmykIntoRgb) {
  // As Adobe stores it: 255 means no ink, so R = C*K/255.
  std::vector<std::uint8_t> cmyk;
  for (int i = 0; i < 16 * 16; ++i) cmyk.insert(cmyk.end(), {200, 100, 50, 220});
  const Image image = decode(raw_jpeg(16, 16, JCS_CMYK, 4, cmyk), "cmyk.jpg");
  const int wanted[] = {200 * 220 / 255, 100 * 220 / 255, 50 * 220 / 255};
  for (std::size_t i = 0; i < image.pixels.size(); ++i)
    ASSERT_NEAR(image.pixels[i], wanted[i % 3], 3);
}

TEST(Decode, RefusesAJpegCutAnywhere) {
  for (const bool progressive : {false, true}) {
    const Bytes jpeg = encode_jpeg(pattern(90, 70), {.progressive = progressive});
    for (std::size_t cut = 1; cut < jpeg.size(); cut += 13) {
      const auto part = std::span(jpeg).first(cut);
      EXPECT_THAT(error_of([&] { decode(part, "n01/cut.jpg"); }), HasSubstr("n01/cut.jpg: "))
          << cut;
      // Also when the wanted lines lie before the cut.
      EXPECT_THAT(error_of([&] {
                    decode_box(part, "n01/cut.jpg", {0, 0, 20, 2});
                  }),
                  HasSubstr("n01/cut.jpg: "))
          << cut;
    }
    EXPECT_THAT(error_of([&] { decode(std::span(jpeg).first(jpeg.size() / 2), "cut.jpg"); }),
                HasSubstr("damaged JPEG"));
  }
}

TEST(Decode, AcceptsBytesAfterTheEndOfAJpeg) {
  Bytes jpeg = encode_jpeg(pattern(50, 40));
  const Image whole = decode(jpeg, "a.jpg");
  jpeg.insert(jpeg.end(), 1000, std::byte{0});
  EXPECT_EQ(decode(jpeg, "a.jpg").pixels, whole.pixels);
  EXPECT_EQ(decode_box(jpeg, "a.jpg", {3, 4, 5, 6}).pixels, crop(whole, {3, 4, 5, 6}).pixels);
}

TEST(Decode, GoesOnWellAfterADamagedPicture) {
  const Bytes good = encode_jpeg(pattern(64, 64));
  const Image before = decode(good, "good.jpg");
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(decode(std::span(good).first(good.size() / 2), "cut.jpg"), DataError);
    EXPECT_THROW(decode_box(good, "good.jpg", {60, 60, 10, 10}), ShapeError);
    EXPECT_EQ(decode(good, "good.jpg").pixels, before.pixels);
  }
}

TEST(Decode, RemembersNothingOfThePictureBefore) {
  // A file without its quantisation tables must be refused, also after one that had them.
  const Bytes good = encode_jpeg(pattern(64, 64));
  Bytes bare = good;
  for (std::size_t i = 2;
       i + 3 < bare.size() && bare[i] == std::byte{0xFF} && bare[i + 1] != std::byte{0xDA};) {
    const std::size_t length = 2 + (std::to_integer<std::size_t>(bare[i + 2]) << 8 |
                                    std::to_integer<std::size_t>(bare[i + 3]));
    if (bare[i + 1] == std::byte{0xDB})
      bare.erase(bare.begin() + static_cast<std::ptrdiff_t>(i),
                 bare.begin() + static_cast<std::ptrdiff_t>(i + length));
    else
      i += length;
  }
  ASSERT_LT(bare.size(), good.size());
  decode(good, "good.jpg");
  EXPECT_THAT(error_of([&] { decode(bare, "bare.jpg"); }), HasSubstr("bare.jpg: damaged JPEG"));
}

TEST(Decode, ReadsAPngWhateverItsNameIs) {
  const Image image = pattern(37, 23);
  EXPECT_EQ(decode(make_png(image), "n02105855_2933.JPEG").pixels, image.pixels);
  EXPECT_EQ(decode_box(make_png(image), "a.JPEG", {5, 6, 7, 8}).pixels,
            crop(image, {5, 6, 7, 8}).pixels);
}

TEST(Decode, TurnsEveryKindOfPngIntoRgb) {
  Image gray = flat(9, 7, 0, 0, 0);
  std::vector<std::uint8_t> g8, rgba;
  std::vector<std::uint16_t> g16;
  for (int i = 0; i < 63; ++i) {
    const auto v = static_cast<std::uint8_t>(i * 4);
    g8.push_back(v);
    g16.push_back(static_cast<std::uint16_t>(v * 257));
    rgba.insert(rgba.end(), {v, 10, 20, 255});
  }
  const Image a = decode(make_png(gray, PNG_FORMAT_GRAY, g8.data()), "g8.png");
  const Image b = decode(make_png(gray, PNG_FORMAT_RGBA, rgba.data()), "rgba.png");
  const Image c = decode(make_png(gray, PNG_FORMAT_LINEAR_Y, g16.data()), "g16.png");
  for (std::size_t i = 0; i < 63; ++i) {
    EXPECT_EQ(a.pixels[3 * i + 2], g8[i]);
    EXPECT_EQ(b.pixels[3 * i], g8[i]);
    EXPECT_EQ(b.pixels[3 * i + 1], 10);
    EXPECT_EQ(c.pixels[3 * i], g8[i]);
  }
}

// As Pillow, but for pure gray, which it clips.
TEST(Decode, TakesTheHighByteOf16BitsButScalesGray) {
  std::vector<std::uint16_t> gray, rgb, rgba;
  for (std::uint32_t i = 0; i < 256; ++i) {
    const auto v = static_cast<std::uint16_t>(i * 256 + 255 - i % 128);
    gray.push_back(v);
    rgb.insert(rgb.end(), 3, v);
    rgba.insert(rgba.end(), {v, v, v, 65535});
  }
  const Image size = flat(16, 16, 0, 0, 0);
  const Image a = decode(make_png(size, PNG_FORMAT_LINEAR_Y, gray.data()), "gray.png");
  const Image b = decode(make_png(size, PNG_FORMAT_LINEAR_RGB, rgb.data()), "rgb.png");
  const Image c = decode(make_png(size, PNG_FORMAT_LINEAR_RGB_ALPHA, rgba.data()), "rgba.png");
  for (std::size_t i = 0; i < 256; ++i) {
    EXPECT_EQ(a.pixels[3 * i], (gray[i] * 255 + 32767) / 65535);
    EXPECT_EQ(b.pixels[3 * i + 1], gray[i] >> 8);
    EXPECT_EQ(c.pixels[3 * i + 2], gray[i] >> 8);
  }
}

TEST(Decode, RefusesDamagedPng) {
  const Bytes png = make_png(pattern(40, 40));
  for (std::size_t cut = 8; cut < png.size(); cut += 101)
    EXPECT_THAT(error_of([&] { decode(std::span(png).first(cut), "x.png"); }),
                HasSubstr("x.png: damaged PNG"))
        << cut;
  Bytes flipped = png;
  flipped[png.size() / 2] ^= std::byte{1};
  EXPECT_THAT(error_of([&] { decode(flipped, "x.png"); }), HasSubstr("x.png: damaged PNG"));
}

// 24-bit BMP: rows from the bottom, blue first, padded to 4 bytes.
std::string bmp(int width, int height, const std::string& rows) {
  std::string h("BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\0\0\0\0\0\0\0\0\x01\0\x18\0", 30);
  h.resize(54);
  for (std::size_t i = 0; i < 4; ++i) {
    h[18 + i] = static_cast<char>(width >> (8 * i));
    h[22 + i] = static_cast<char>(height >> (8 * i));
  }
  return h + rows;
}

TEST(Decode, ReadsBmpAndGifButNotWhatIsCut) {
  const std::string two = bmp(2, 1, std::string("\3\2\1\6\5\4\0\0", 8));
  EXPECT_EQ(decode(to_bytes(two), "a.bmp").pixels, (std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(probe(to_bytes(two), "a.bmp").width, 2);
  EXPECT_THAT(error_of([&] { decode(to_bytes(two.substr(0, two.size() - 3)), "a.bmp"); }),
              HasSubstr("a.bmp: damaged BMP: it ends early"));
  // One red pixel.
  const std::string gif("GIF89a\1\0\1\0\x80\0\0\xFF\0\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2\x44\1\0;", 35);
  EXPECT_EQ(decode(to_bytes(gif), "a.gif").pixels, (std::vector<std::uint8_t>{255, 0, 0}));
  // The last two bytes are no pixels; Pillow does not ask for them either.
  EXPECT_EQ(decode(to_bytes(gif.substr(0, 33)), "a.gif").pixels.size(), 3u);
  for (std::size_t cut = 6; cut < 33; ++cut)
    EXPECT_THROW(decode(to_bytes(gif.substr(0, cut)), "a.gif"), DataError) << cut;
}

// Files of every kind of BMP and GIF, and Pillow's pixels (tests/golden/gif_bmp.py).
TEST(Decode, GifAndBmpGivePillowsBytes) {
  const SafeTensors golden =
      read_safetensors(GOSSAMER_SOURCE_DIR "/tests/golden/gif_bmp.safetensors");
  int pictures = 0;
  for (const NamedTensor& t : golden.tensors) {
    if (!t.name.ends_with(".file")) continue;
    const std::string name = t.name.substr(0, t.name.size() - 5);
    const auto file = std::as_bytes(t.tensor.span<std::uint8_t>());
    const Tensor* const theirs = golden.find(name + ".rgb");
    ASSERT_NE(theirs, nullptr) << name;
    const Image ours = decode(file, name);
    ASSERT_EQ(Shape({ours.height, ours.width, 3}), theirs->shape()) << name;
    EXPECT_TRUE(std::ranges::equal(ours.pixels, theirs->span<std::uint8_t>())) << name;
    // a part of it is the same part of the whole
    const Box box{ours.width / 3, ours.height / 3, ours.width - ours.width / 3,
                  1 + ours.height / 4};
    EXPECT_EQ(decode_box(file, name, box).pixels, crop(ours, box).pixels) << name;
    ++pictures;
  }
  EXPECT_EQ(pictures, 60);
}

TEST(Decode, NamesWhatItCantRead) {
  EXPECT_THAT(error_of([] { decode({}, "empty.jpg"); }), HasSubstr("empty.jpg: the file is empty"));
  EXPECT_THAT(error_of([] { decode(to_bytes("RIFF1234WEBPVP8 "), "a.jpg"); }), HasSubstr("WebP"));
  EXPECT_THAT(error_of([] { decode(to_bytes("<html>404</html>"), "a.jpg"); }), HasSubstr("HTML"));
  EXPECT_THAT(error_of([] { decode(to_bytes("no picture at all, only words"), "a.jpg"); }),
              HasSubstr("a.jpg: not a picture"));
}

TEST(Decode, RefusesPicturesThatClaimTooMuch) {
  Bytes jpeg = encode_jpeg(flat(16, 16, 1, 2, 3));
  // start of frame: FF C0, length, precision, height, width
  for (std::size_t i = 0; i + 9 < jpeg.size(); ++i)
    if (jpeg[i] == std::byte{0xFF} && jpeg[i + 1] == std::byte{0xC0}) {
      jpeg[i + 5] = jpeg[i + 7] = std::byte{0xFF};
      break;
    }
  EXPECT_THAT(error_of([&] { decode(jpeg, "bomb.jpg"); }),
              AllOf(HasSubstr("bomb.jpg"), HasSubstr("30000 a side")));
  EXPECT_THAT(error_of([&] { probe(jpeg, "bomb.jpg"); }), HasSubstr("bomb.jpg"));
  Bytes png = make_png(flat(16, 16, 1, 2, 3));
  png[16] = png[20] = std::byte{0x40};
  EXPECT_THAT(error_of([&] { decode(png, "bomb.png"); }), HasSubstr("30000 a side"));
  EXPECT_THAT(error_of([&] { decode(to_bytes(bmp(20000, 20000, "")), "bomb.bmp"); }),
              HasSubstr("100 million"));
}

TEST(Decode, RefusesAJpegOfHundredScans) {
  // A legal file whose second scan is there 120 times: each costs a pass over the picture, and it
  // warns of nothing.
  const Bytes jpeg = raw_jpeg(32, 32, JCS_RGB, 3, pattern(32, 32).pixels, true);
  std::vector<std::size_t> scans;
  for (std::size_t i = 0; i + 1 < jpeg.size(); ++i)
    if (jpeg[i] == std::byte{0xFF} && jpeg[i + 1] == std::byte{0xDA}) scans.push_back(i);
  ASSERT_EQ(scans.size(), 3u);
  decode(jpeg, "three.jpg");
  Bytes bomb(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(scans[1]));
  for (int i = 0; i < 120; ++i)
    bomb.insert(bomb.end(), jpeg.begin() + static_cast<std::ptrdiff_t>(scans[1]),
                jpeg.begin() + static_cast<std::ptrdiff_t>(scans[2]));
  bomb.insert(bomb.end(), jpeg.begin() + static_cast<std::ptrdiff_t>(scans[2]), jpeg.end());
  EXPECT_THAT(error_of([&] { decode(bomb, "scans.jpg"); }),
              HasSubstr("more than 100 scans for 32 x 32 pixels"));
}

TEST(Decode, ThrowsNothingButDataErrorOnRandomDamage) {
  const Bytes files[] = {encode_jpeg(pattern(48, 40)),
                         encode_jpeg(pattern(48, 40), {.progressive = true}),
                         make_png(pattern(20, 20))};
  Rng rng(11);
  int refused = 0;
  for (const Bytes& file : files)
    for (int i = 0; i < 300; ++i) {
      Bytes damaged = file;
      for (std::uint32_t k = 0; k <= rng.below(4); ++k)
        damaged[rng.below(static_cast<std::uint32_t>(file.size()))] =
            static_cast<std::byte>(rng.word());
      try {
        decode(damaged, "random");
      } catch (const DataError&) {
        ++refused;
      }
    }
  EXPECT_GT(refused, 200);
}

TEST(Probe, ReadsTheSizeFromTheHeader) {
  const Bytes jpeg = encode_jpeg(pattern(90, 41)), png = make_png(pattern(31, 17));
  EXPECT_EQ(probe(jpeg, "a").width, 90);
  EXPECT_EQ(probe(jpeg, "a").height, 41);
  EXPECT_EQ(probe(png, "a").width, 31);
}

}  // namespace
}  // namespace gossamer::data
