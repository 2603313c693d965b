// Files made to hurt: 2,000 damaged JPEG files, giants, bombs of scans. Each gives a picture or an error with the file's name, in little
// time and memory. Time is that of the thread's CPU: it doesn't depend on what else the machine does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <ctime>

#include "data_helpers.h"
#include "gossamer/core/random.h"
#include "gossamer/data/augment/augment.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

namespace gossamer::data {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

double cpu_s() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}
long peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// What a test allows: 2 s and 256 MB for each file.
class Limits {
 public:
  ~Limits() {
    EXPECT_LT(cpu_s() - begin_, kSanitized ? 40 : 2);
    if (!kSanitized) EXPECT_LT(peak_kilobytes() - peak_, 256 << 10);
  }

 private:
  double begin_ = cpu_s();
  long peak_ = peak_kilobytes();
};

// All that the library does with a file: its size, the whole, a random crop, the centre. The first error, or nothing.
std::string attack(std::span<const std::byte> bytes, std::uint64_t seed = 1) {
  const Limits limits;
  const std::string name = "n01/evil.jpg";
  Scratch scratch;
  std::vector<std::uint8_t> out(64 * 64 * 3);
  Rng rng(seed);
  std::string error;
  const auto survive = [&](auto&& f) {
    try {
      f();
    } catch (const DataError& e) {
      EXPECT_THAT(e.what(), StartsWith(name + ": "));
      if (error.empty()) error = e.what();
    }
  };
  survive([&] { probe(bytes, name); });
  survive([&] { prepare(bytes, {}, name, {.augment = Augment::resized_crop_flip, .size = 64, .resize = 64}, rng, scratch, out.data()); });
  survive([&] { prepare(bytes, {}, name, {.augment = Augment::none, .size = 64, .resize = 64}, rng, scratch, out.data()); });
  return error;
}

struct Kind { const char* name; JpegOptions options; };

TEST(Attack, TwoThousandDamagedFilesGiveAPictureOrAnErrorThatNamesThem) {
  const Kind kinds[] = {{"4:2:0", {}}, {"4:4:4", {.quality = 95, .h = 1, .v = 1}}, {"4:2:2", {.h = 2, .v = 1}}, {"progressive", {.progressive = true}}};
  Rng rng(5);
  int cases = 0, refused = 0;
  for (const Kind& kind : kinds) {
    const Bytes whole = encode_jpeg(pattern(150, 110), kind.options);
    ASSERT_EQ(attack(whole), "") << kind.name;
    for (std::size_t region = 0; region < 250; ++region) {              // from start to end: flipped bits, and cut there
      const std::size_t begin = region * whole.size() / 250, length = std::max<std::size_t>(1, whole.size() / 250);
      Bytes flipped = whole;
      for (std::size_t i = 0; i < 1 + region % 3; ++i)
        flipped[std::min(whole.size() - 1, begin + rng.below(static_cast<std::uint32_t>(length)))] ^= static_cast<std::byte>(1u << rng.below(8));
      refused += !attack(flipped, region).empty();
      const std::string cut = attack(std::span(whole).first(begin), region);
      EXPECT_NE(cut, "") << kind.name << " cut at " << begin;
      refused += !cut.empty();
      cases += 2;
    }
  }
  EXPECT_EQ(cases, 2000);
  EXPECT_GT(refused, 1000);
}

TEST(Attack, AFileWithoutAByteIsNamed) { EXPECT_EQ(attack({}), "n01/evil.jpg: the file is empty"); }

// Writes another size into the frame header.
Bytes resized_header(Bytes jpeg, int width, int height, std::byte frame = std::byte{0xC0}) {
  for (std::size_t i = 0; i + 9 < jpeg.size(); ++i)
    if (jpeg[i] == std::byte{0xFF} && jpeg[i + 1] == frame) {
      jpeg[i + 5] = static_cast<std::byte>(height >> 8), jpeg[i + 6] = static_cast<std::byte>(height & 255);
      jpeg[i + 7] = static_cast<std::byte>(width >> 8), jpeg[i + 8] = static_cast<std::byte>(width & 255);
      return jpeg;
    }
  throw std::runtime_error("no frame");
}

TEST(Attack, AHeaderOfGiantSizeIsRefusedBeforeMemoryIsAskedFor) {
  const Bytes baseline = encode_jpeg(flat(16, 16, 1, 2, 3)), progressive = encode_jpeg(flat(16, 16, 1, 2, 3), {.progressive = true});
  EXPECT_THAT(attack(resized_header(baseline, 65500, 65500)), HasSubstr("65500 x 65500"));
  EXPECT_THAT(attack(resized_header(progressive, 65500, 65500, std::byte{0xC2})), HasSubstr("65500 x 65500"));
  EXPECT_THAT(attack(resized_header(baseline, 29999, 3333)), HasSubstr("n01/evil.jpg: damaged JPEG"));
  // Allowed in size, but coefficients of a progressive file must be held whole: 600 MB.
  EXPECT_THAT(attack(resized_header(progressive, 10000, 10000, std::byte{0xC2})), HasSubstr("n01/evil.jpg: damaged JPEG"));
  EXPECT_NE(attack(resized_header(progressive, 6000, 6000, std::byte{0xC2})), "");
  EXPECT_NE(attack(resized_header(progressive, 30000, 1, std::byte{0xC2})), "");
}

TEST(Attack, FiftyThousandScansAreRefused) {
  for (const int side : {32, 600}) {
    const Bytes jpeg = raw_jpeg(side, side, JCS_RGB, 3, pattern(side, side).pixels, true);
    std::vector<std::size_t> scans;
    for (std::size_t i = 0; i + 1 < jpeg.size(); ++i)
      if (jpeg[i] == std::byte{0xFF} && jpeg[i + 1] == std::byte{0xDA}) scans.push_back(i);
    ASSERT_EQ(scans.size(), 3u);
    const auto at = [&](std::size_t i) { return jpeg.begin() + static_cast<std::ptrdiff_t>(i); };
    const std::size_t most = side == 32 ? 50'000 : 500;                  // the same file with bigger scans would take a gigabyte
    Bytes bomb(at(0), at(scans[1]));
    for (std::size_t i = 0; i < most; ++i) bomb.insert(bomb.end(), at(scans[1]), at(scans[2]));
    bomb.insert(bomb.end(), at(scans[2]), jpeg.end());
    EXPECT_THAT(attack(bomb), HasSubstr("progressive scans"));
  }
}

TEST(Attack, InterlacedPngAndGifOfGiantSizeAreRefused) {
  Bytes png = make_png(flat(16, 16, 1, 2, 3));
  const auto put = [&](std::size_t where, std::uint32_t v) {
    for (std::size_t i = 0; i < 4; ++i) png[where + i] = static_cast<std::byte>(v >> (24 - 8 * i));
  };
  put(16, 10000), put(20, 10000);
  EXPECT_THAT(attack(png), HasSubstr("damaged PNG"));                    // its checksum is wrong now
  png[28] = std::byte{1};
  EXPECT_THAT(attack(png), HasSubstr("interlaced PNG of 10000 x 10000"));
  const std::string gif("GIF89a\x10\x27\x10\x27\x80\0\0\xFF\0\0\0\0\0,\0\0\0\0\x10\x27\x10\x27\0\2\2\x44\1\0;", 35);
  EXPECT_THAT(attack(to_bytes(gif)), HasSubstr("GIF of 10000 x 10000"));
}

// A part of a giant costs the part: rows go by. Held whole it would take 108 MB.
TEST(Attack, AGiantThatIsWholeIsReadInLittleMemory) {
  const Bytes png = make_png({6000, 6000, {}}, PNG_FORMAT_GRAY, std::vector<std::uint8_t>(6000 * 6000, 9).data());
  const long before = peak_kilobytes();
  Scratch scratch;
  Rng rng(1);
  std::vector<std::uint8_t> out(64 * 64 * 3);
  prepare(png, {}, "giant.png", {.augment = Augment::none, .size = 64, .resize = 64}, rng, scratch, out.data());
  EXPECT_EQ(out.front(), 9);
  EXPECT_EQ(out.back(), 9);
  if (!kSanitized) EXPECT_LT(peak_kilobytes() - before, 48 << 10);
}

}  // namespace
}  // namespace gossamer::data
