// Whole files that cost more than they look: what would take longer than 2 s is refused by its
// header, and what is just allowed stays within the limits of limits.h in all that decodes,
// `data check` and `data pack` among it.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/attack.h"
#include "gossamer/data/check.h"
#include "gossamer/data/pack.h"

namespace gossamer::data {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

struct Layout {
  int depth, colours, channels;
};
constexpr Layout kRgb8{8, 2, 3}, kRgba16{16, 6, 4};

std::string big(std::uint32_t v) {
  return {static_cast<char>(v >> 24), static_cast<char>(v >> 16), static_cast<char>(v >> 8),
          static_cast<char>(v)};
}

// A PNG of these lines, each with its filter in front, repeated to the picture's height; deflated
// without matches, so that every byte is a symbol.
std::string raw_png(int width, int height, Layout layout, const std::string& lines,
                    bool interlaced = false) {
  z_stream z{};
  deflateInit2(&z, 1, Z_DEFLATED, 15, 8, Z_HUFFMAN_ONLY);
  const std::size_t line =
      1 + (static_cast<std::size_t>(width) * layout.channels * layout.depth + 7) / 8;
  std::string data, out(1 << 20, '\0');
  for (std::size_t left = lines.empty() ? 0 : line * static_cast<std::size_t>(height); left > 0;) {
    const std::size_t now = std::min(left, lines.size());
    left -= now;
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(lines.data()));
    z.avail_in = static_cast<uInt>(now);
    do {
      z.next_out = reinterpret_cast<Bytef*>(out.data());
      z.avail_out = static_cast<uInt>(out.size());
      deflate(&z, left > 0 ? Z_NO_FLUSH : Z_FINISH);
      data.append(out, 0, out.size() - z.avail_out);
    } while (z.avail_out == 0);
  }
  deflateEnd(&z);
  const std::string kind{static_cast<char>(layout.depth), static_cast<char>(layout.colours), 0, 0,
                         interlaced ? '\1' : '\0'};
  const std::string header =
      big(static_cast<std::uint32_t>(width)) + big(static_cast<std::uint32_t>(height)) + kind;
  return std::string("\x89PNG\r\n\x1a\n", 8) + chunk("IHDR", header) + chunk("IDAT", data) +
         chunk("IEND", "");
}

// 16 lines of noise in one bit under the filter that costs most, Paeth's.
std::string noisy_lines(int width, Layout layout) {
  const std::size_t line = 1 + static_cast<std::size_t>(width) * layout.channels * layout.depth / 8;
  Rng rng(2);
  std::string lines;
  for (std::size_t i = 0; i < 16 * line; ++i)
    lines += static_cast<char>(i % line == 0 ? 4 : rng.word() & 1);
  return lines;
}

TEST(AttackCost, PngThatStoresTooManyBytesIsRefusedByItsHeader) {
  EXPECT_THAT(attack(to_bytes(raw_png(30000, 3333, kRgba16, ""))),
              HasSubstr("a PNG of 30000 x 3333 pixels in "));
  EXPECT_THAT(attack(to_bytes(raw_png(30000, 3333, kRgba16, ""))),
              HasSubstr("takes too long to decode; save it smaller, or as baseline JPEG"));
  EXPECT_THAT(attack(to_bytes(raw_png(7800, 7800, kRgba16, "", true))),
              HasSubstr("an interlaced PNG of 7800 x 7800 pixels"));
  EXPECT_THAT(attack(to_bytes(raw_png(8000, 5600, kRgb8, ""))),
              HasSubstr("damaged PNG"));  // 45 megapixels aren't too many
}

TEST(AttackCost, PngJustAllowedStaysWithinTheLimits) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the limit is CPU time, and sanitizers take three to ten times as much";
#endif
  // Both are so long that their time is measured (png.cpp): a core that others share too much may
  // give them up, within the limits.
  const auto either = testing::AnyOf("", HasSubstr("unpacking it takes too long"));
  EXPECT_THAT(attack(to_bytes(raw_png(4100, 4100, kRgba16, noisy_lines(4100, kRgba16)))), either);
  EXPECT_THAT(attack(to_bytes(raw_png(9000, 5000, kRgb8, noisy_lines(9000, kRgb8)))), either);
}

// JPEG with any coding.
Bytes jpeg(int side, int quality, unsigned noise, bool arithmetic, bool progressive) {
  jpeg_compress_struct c{};
  jpeg_error_mgr errors{};
  c.err = jpeg_std_error(&errors);
  jpeg_create_compress(&c);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&c, &memory, &bytes);
  c.image_width = c.image_height = static_cast<JDIMENSION>(side);
  c.input_components = 3;
  c.in_color_space = JCS_RGB;
  jpeg_set_defaults(&c);
  jpeg_set_quality(&c, quality, TRUE);
  c.arith_code = arithmetic ? TRUE : FALSE;
  if (progressive) jpeg_simple_progression(&c);
  std::vector<JSAMPLE> lines(static_cast<std::size_t>(side) * 3 * 16);
  Rng rng(1);
  for (JSAMPLE& sample : lines) sample = static_cast<JSAMPLE>(rng.word() % noise);
  jpeg_start_compress(&c, TRUE);
  while (c.next_scanline < c.image_height) {
    JSAMPROW row = lines.data() + static_cast<std::size_t>(c.next_scanline % 16) *
                                      static_cast<std::size_t>(side) * 3;
    jpeg_write_scanlines(&c, &row, 1);
  }
  jpeg_finish_compress(&c);
  jpeg_destroy_compress(&c);
  Bytes out(reinterpret_cast<std::byte*>(memory), reinterpret_cast<std::byte*>(memory) + bytes);
  std::free(memory);
  return out;
}

TEST(AttackCost, JpegThatTakesTooLongIsRefusedByItsHeader) {
  EXPECT_THAT(attack(resized_header(jpeg(16, 60, 30, true, false), 10000, 9990, std::byte{0xC9})),
              HasSubstr("a JPEG with arithmetic coding of 10000 x 9990 pixels"));
  EXPECT_THAT(attack(resized_header(jpeg(16, 60, 30, true, true), 7600, 7600, std::byte{0xCA})),
              HasSubstr("a JPEG with arithmetic coding of 7600 x 7600 pixels"));
  Bytes progressive = resized_header(jpeg(16, 90, 255, false, true), 7600, 7600, std::byte{0xC2});
  progressive.resize(47 << 20);
  EXPECT_THAT(
      attack(progressive),
      HasSubstr("a progressive JPEG of 7600 x 7600 pixels in 49283072 bytes takes too long"));
}

TEST(AttackCost, JpegJustAllowedStaysWithinTheLimits) {
  EXPECT_EQ(attack(jpeg(2200, 60, 255, true, false)), "");
  EXPECT_EQ(attack(jpeg(800, 60, 255, true, true)), "");
  const Bytes progressive = jpeg(7600, 40, 200, false, true);
  EXPECT_EQ(attack(progressive), "");
}

// What `gossamer data check` and `data pack` hold of a giant that is whole: 300 MB in RGB.
TEST(AttackCost, CheckAndPackHoldNoWholePicture) {
  const TempFolder folder;
  folder.write("set/cat/giant.png", make_png({3333, 30000, {}}, PNG_FORMAT_GRAY,
                                             std::vector<std::uint8_t>(30000 * 3333, 9).data()));
  const auto set = open({folder / "set"});
  const auto go_on = [](i64) { return true; };
  {
    const Limits limits("check", 64);
    EXPECT_THAT(check_pictures(*set, 1, go_on).damaged, IsEmpty());
  }
  for (const bool copy : {false, true}) {
    const Limits limits(copy ? "pack --copy" : "pack", 64);
    EXPECT_EQ(pack(*set, folder / (copy ? "copied" : "packed"), {.copy = copy, .threads = 1}, go_on)
                  .images,
              1);
  }
}

// 24 files of 20 MB, nearly all of it behind the picture: packing holds some, not all.
TEST(AttackCost, PackingHoldsFewLargeFiles) {
  const TempFolder folder;
  Bytes large = encode_jpeg(pattern(16, 16));
  large.resize(20 << 20);
  for (int i = 0; i < 24; ++i) folder.write("set/cat/" + std::to_string(100 + i) + ".jpg", large);
  const auto set = open({folder / "set"});
  {
    const Limits limits("pack --copy");
    EXPECT_EQ(
        pack(*set, folder / "out", {.copy = true, .threads = 2}, [](i64) { return true; }).images,
        24);
  }
  const auto packed = open({folder / "out"});
  ASSERT_EQ(packed->size(), 24);
  Bytes buffer;
  for (i64 i = 0; i < 24; ++i) {
    EXPECT_EQ(packed->name(i), set->name(i));
    EXPECT_EQ(packed->bytes(i, buffer).size(), large.size());
  }
}

// Blocks with Huffman tables of their own and nothing in them, 90 bits each: what libpng inflates
// becomes no pixels, and no header tells of it.
TEST(AttackCost, APngWhoseBytesBecomeNoPixelsIsGivenUp) {
  std::string bits;
  const auto put = [&](unsigned value, int count) {
    for (int i = 0; i < count; ++i) bits += static_cast<char>(value >> i & 1);
  };
  for (int block = 0; block < 8; ++block) {
    put(2 << 1, 3), put(0, 5), put(0, 5),
        put(14, 4);  // not the last; dynamic; 257 literals, 1 distance, 18 code lengths
    for (const int symbol : {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1})
      put(symbol == 18 || symbol == 1, 3);
    put(1, 1), put(127, 7), put(1, 1), put(107, 7),
        put(0, 2);  // 138 and 118 literals without a code; the end and the distance: one bit
    put(0, 1);      // the end
  }
  std::string eight(bits.size() / 8, '\0'), data("\x78\x01", 2);
  for (std::size_t i = 0; i < bits.size(); ++i)
    eight[i / 8] = static_cast<char>(eight[i / 8] | bits[i] << i % 8);
  while (data.size() < 45u << 20) data += eight;
  const std::string header = big(16) + big(16) + std::string("\10\0\0\0\0", 5);
  EXPECT_THAT(attack(to_bytes(std::string("\x89PNG\r\n\x1a\n", 8) + chunk("IHDR", header) +
                              chunk("IDAT", data) + chunk("IEND", ""))),
              HasSubstr("unpacking it takes too long"));
}

}  // namespace
}  // namespace gossamer::data
