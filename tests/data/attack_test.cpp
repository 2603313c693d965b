// Pictures made to hurt: 2,000 damaged JPEG files, giants, bombs of scans and chunks. Each gives a
// picture or an error with the file's name, within the limits of limits.h. Containers:
// attack_container_test.cpp.
#include "data/attack.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/data/augment/preparer.h"
#include "gossamer/data/check.h"
#include "gossamer/data/loader.h"

namespace gossamer::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

struct Kind {
  const char* name;
  JpegOptions options;
};

TEST(Attack, TwoThousandDamagedFilesGiveAPictureOrAnErrorThatNamesThem) {
  const Kind kinds[] = {{"4:2:0", {}},
                        {"4:4:4", {.quality = 95, .h = 1, .v = 1}},
                        {"4:2:2", {.h = 2, .v = 1}},
                        {"progressive", {.progressive = true}}};
  Rng rng(5);
  int cases = 0, refused = 0;
  for (const Kind& kind : kinds) {
    const Bytes whole = encode_jpeg(pattern(150, 110), kind.options);
    ASSERT_EQ(attack(whole), "") << kind.name;
    // from start to end: flipped bits, and cut there
    for (std::size_t region = 0; region < 250; ++region) {
      const std::size_t begin = region * whole.size() / 250,
                        length = std::max<std::size_t>(1, whole.size() / 250);
      Bytes flipped = whole;
      for (std::size_t i = 0; i < 1 + region % 3; ++i)
        flipped[std::min(whole.size() - 1,
                         begin + rng.below(static_cast<std::uint32_t>(length)))] ^=
            static_cast<std::byte>(1u << rng.below(8));
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

TEST(Attack, AHeaderOfGiantSizeIsRefusedBeforeMemoryIsAskedFor) {
  const Bytes baseline = encode_jpeg(flat(16, 16, 1, 2, 3)),
              progressive = encode_jpeg(flat(16, 16, 1, 2, 3), {.progressive = true});
  EXPECT_THAT(attack(resized_header(baseline, 65500, 65500)), HasSubstr("65500 x 65500"));
  EXPECT_THAT(attack(resized_header(progressive, 65500, 65500, std::byte{0xC2})),
              HasSubstr("65500 x 65500"));
  EXPECT_THAT(attack(resized_header(baseline, 29999, 3333)),
              HasSubstr("n01/evil.jpg: damaged JPEG"));
  // Allowed in size, but coefficients of a progressive file must be held whole: 600 MB.
  EXPECT_THAT(attack(resized_header(progressive, 10000, 10000, std::byte{0xC2})),
              HasSubstr("n01/evil.jpg: damaged JPEG"));
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
    // the same file with bigger scans would take a gigabyte
    const std::size_t most = side == 32 ? 50'000 : 500;
    Bytes bomb(at(0), at(scans[1]));
    for (std::size_t i = 0; i < most; ++i) bomb.insert(bomb.end(), at(scans[1]), at(scans[2]));
    bomb.insert(bomb.end(), at(scans[2]), jpeg.end());
    EXPECT_THAT(attack(bomb), HasSubstr("scans for"));
  }
}

TEST(Attack, InterlacedPngAndGifOfGiantSizeAreRefused) {
  Bytes png = make_png(flat(16, 16, 1, 2, 3), PNG_FORMAT_GRAY);
  const auto put = [&](std::size_t where, std::uint32_t v) {
    for (std::size_t i = 0; i < 4; ++i) png[where + i] = static_cast<std::byte>(v >> (24 - 8 * i));
  };
  put(16, 10000), put(20, 10000);
  // its checksum is wrong now
  EXPECT_THAT(attack(png), HasSubstr("damaged PNG"));
  png[28] = std::byte{1};
  EXPECT_THAT(attack(png), HasSubstr("interlaced PNG of 10000 x 10000 pixels needs more than"));
  const std::string gif(
      "GIF89a\x10\x27\x10\x27\x80\0\0\xFF\0\0\0\0\0,\0\0\0\0\x10\x27\x10\x27\0\2\2\x44\1\0;", 35);
  EXPECT_THAT(attack(to_bytes(gif)), HasSubstr("damaged GIF: it ends early"));
}

// 1,000 texts of 8 MB each, deflated to 8 KB; the same as profiles. None of it is wanted.
TEST(Attack, PngChunksThatUnpackToGigabytesAreNotUnpacked) {
  const std::string png = [] {
    const Bytes bytes = make_png(flat(16, 16, 1, 2, 3));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }();
  const std::string eight = deflated(std::string(8'000'000, 'a'));
  std::string texts, profiles;
  for (int i = 0; i < 1000; ++i)
    texts += chunk("zTXt", "key" + std::to_string(i) + std::string(2, '\0') + eight);
  for (int i = 0; i < 1000; ++i) profiles += chunk("iCCP", "p" + std::string(2, '\0') + eight);
  EXPECT_EQ(attack(to_bytes(png.substr(0, 33) + texts + png.substr(33))), "");
  EXPECT_EQ(attack(to_bytes(png.substr(0, 33) + profiles + png.substr(33))), "");
  std::string bad = png;
  bad[png.size() - 5] ^= 1;  // IEND's checksum
  EXPECT_THAT(attack(to_bytes(bad)), HasSubstr("damaged PNG"));
}

// The largest that is allowed, in a file of 300 KB: 300 MB of pixels go by.
TEST(Attack, APngThatUnpacksToTheLargestSizeTakesLittleMemory) {
  const Bytes png = make_png({3333, 30000, {}}, PNG_FORMAT_GRAY,
                             std::vector<std::uint8_t>(30000 * 3333, 9).data());
  EXPECT_LT(png.size(), 1u << 20);
  const Limits limits("PNG of 100 megapixels", 48);
  const Image image = decode_box(png, "n01/evil.jpg", {0, 0, 64, 64});
  EXPECT_EQ(image.pixels.back(), 9);
}

TEST(Attack, WhatClaimsToBeAHugePictureFileIsNotRead) {
  const TempFolder folder;
  folder.write("set/cat/1.jpg", encode_jpeg(pattern(16, 16)));
  // zeros behind it
  std::filesystem::resize_file(folder.write("set/cat/2.jpg", encode_jpeg(pattern(16, 16))),
                               std::uintmax_t{8} << 30);
  const auto set = open({folder / "set"});
  const Limits limits("file of 8 GB", 16);
  Bytes buffer;
  EXPECT_THAT(error_of([&] { set->bytes(1, buffer); }),
              AllOf(HasSubstr("cat/2.jpg"), HasSubstr("are no picture")));
}

// What a run and `gossamer data check` say of a set with damaged files of every kind: how many, and
// which.
TEST(Attack, DamagedFilesAreCountedAndListed) {
  const TempFolder folder;
  const Bytes whole = encode_jpeg(pattern(80, 60));
  Bytes cut = whole, text = to_bytes("<html>404</html>"), png = make_png(pattern(40, 40));
  cut.resize(whole.size() / 2);
  png[png.size() / 2] ^= std::byte{1};
  for (int i = 0; i < 6; ++i) folder.write("set/cat/good" + std::to_string(i) + ".jpg", whole);
  folder.write("set/dog/cut.jpg", cut);
  folder.write("set/dog/empty.jpg", {});
  folder.write("set/dog/giant.jpg", resized_header(whole, 65500, 65500));
  folder.write("set/dog/good.jpg", whole);
  folder.write("set/dog/png.png", png);
  folder.write("set/dog/text.jpg", text);
  const auto set = open({folder / "set"});
  const std::vector<std::string> wanted{
      "dog/cut.jpg: ", "dog/empty.jpg: ", "dog/giant.jpg: ", "dog/png.png: ", "dog/text.jpg: "};
  const auto all_named = [&](std::vector<std::string> list) {
    ASSERT_THAT(list, SizeIs(wanted.size()));
    std::ranges::sort(list);
    for (std::size_t i = 0; i < list.size(); ++i) EXPECT_THAT(list[i], HasSubstr(wanted[i]));
  };
  all_named(check_pictures(*set, 2, [](i64) { return true; }).damaged);
  for (const bool replace : {true, false}) {
    Loader loader(set, {.batch = 4,
                        .size = 32,
                        .threads = 2,
                        .epoch = {.drop_last = false},
                        .replace_damaged = replace});
    i64 images = 0;
    for (Batch batch = loader.next(); batch.images.defined(); batch = loader.next())
      images += batch.images.shape(0);
    EXPECT_EQ(images, replace ? 12 : 7);
    EXPECT_EQ(loader.stats().images, images);
    EXPECT_EQ(loader.stats().damaged, 5);
    all_named(loader.damaged());
  }
}

// A part of a giant costs the part: rows go by. Held whole it would take 108 MB.
TEST(Attack, AGiantThatIsWholeIsReadInLittleMemory) {
  const Bytes png =
      make_png({6000, 6000, {}}, PNG_FORMAT_GRAY, std::vector<std::uint8_t>(6000 * 6000, 9).data());
  const Limits limits("PNG of 36 megapixels", 48);
  Preparer preparer;
  Rng rng(1);
  std::vector<std::uint8_t> out(64 * 64 * 3);
  preparer.read({png, "giant.png"}, {.augment = Augment::none, .size = 64, .resize = 64}, rng);
  preparer.finish(out.data());
  EXPECT_EQ(out.front(), 9);
  EXPECT_EQ(out.back(), 9);
}

}  // namespace
}  // namespace gossamer::data
