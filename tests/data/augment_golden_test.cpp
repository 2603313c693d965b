// Pixel operations against torchvision 0.14 on Pillow 9.4 (tests/golden/augment.py): bit for bit,
// no tolerance.
#include <charconv>
#include <cmath>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/data/augment/policy.h"

namespace gossamer::data {
namespace {

std::vector<std::string> split(const std::string& name) {
  std::vector<std::string> words;
  std::istringstream in(name);
  for (std::string word; std::getline(in, word, '/');) words.push_back(word);
  return words;
}

const std::map<std::string, PolicyOp>& ops() {
  static const std::map<std::string, PolicyOp> all{
      {"shear_x", PolicyOp::shear_x},         {"shear_y", PolicyOp::shear_y},
      {"translate_x", PolicyOp::translate_x}, {"translate_y", PolicyOp::translate_y},
      {"rotate", PolicyOp::rotate},           {"brightness", PolicyOp::brightness},
      {"colour", PolicyOp::colour},           {"contrast", PolicyOp::contrast},
      {"sharpness", PolicyOp::sharpness},     {"posterize", PolicyOp::posterize},
      {"solarize", PolicyOp::solarize},       {"autocontrast", PolicyOp::autocontrast},
      {"equalize", PolicyOp::equalize}};
  return all;
}

Image picture(const std::string& name) {
  if (name == "wide") return pattern(23, 17);
  if (name == "square") return pattern(16, 16);
  if (name == "thin") return pattern(1, 9);
  if (name == "flat") return flat(5, 6, 77, 77, 77);
  Image soft = pattern(17, 23);
  for (auto& v : soft.pixels) v = static_cast<std::uint8_t>(v / 3 + 60);
  return soft;
}

const SafeTensors& golden() {
  static const SafeTensors file = read_safetensors(std::filesystem::path(GOSSAMER_SOURCE_DIR) /
                                                   "tests/golden/augment.safetensors");
  return file;
}

TEST(AugmentGolden, EveryPixelOperationIsTorchvisionsBitForBit) {
  int compared = 0;
  std::map<std::string, int> seen;
  std::vector<std::uint8_t> scratch;
  for (const NamedTensor& t : golden().tensors) {
    if (t.tensor.dtype() != DType::u8) continue;
    const auto words = split(t.name);
    Image image = picture(words[0]);
    double value = 0;
    std::from_chars(words[2].data(), words[2].data() + words[2].size(), value);
    const Pixels p{image.pixels.data(), image.height, image.width};
    if (words[1] == "hue")
      hue(p, value);
    else if (words[1] == "invert")
      solarize(p, 0);
    else
      apply(ops().at(words[1]), value, p, words.size() > 3 ? Filter::bilinear : Filter::nearest,
            scratch);
    const auto wanted = t.tensor.span<std::uint8_t>();
    ASSERT_EQ(wanted.size(), image.pixels.size()) << t.name;
    int wrong = 0, largest = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      wrong += wanted[i] != image.pixels[i];
      largest = std::max(largest, std::abs(wanted[i] - image.pixels[i]));
    }
    EXPECT_EQ(wrong, 0) << t.name << ": of " << wanted.size() << " values, largest difference "
                        << largest;
    ++compared;
    ++seen[words[1]];
  }
  EXPECT_EQ(seen.size(), 15u);  // the 13 that change something, hue and invert
  EXPECT_GT(compared, 100);
}

TEST(AugmentGolden, MagnitudesOfBothPoliciesAreTorchvisions) {
  int tables = 0;
  for (const NamedTensor& t : golden().tensors) {
    if (t.tensor.dtype() != DType::f32) continue;
    const auto words = split(t.name);
    const auto wanted = t.tensor.span<float>();
    ASSERT_EQ(wanted.size(), static_cast<std::size_t>(kMagnitudes));
    for (int m = 0; m < kMagnitudes; ++m) {
      const PolicyOp op = ops().at(words[1]);
      const Strength s = words[0] == "rand_augment" ? rand_augment_strength(op, m, 37, 53)
                                                    : trivial_augment_strength(op, m);
      const double want = wanted[static_cast<std::size_t>(m)];
      // torch's own last bit depends on the CPU
      EXPECT_NEAR(s.value, want, 5e-7 * std::abs(want)) << t.name << " " << m;
      if (words[1].starts_with("translate"))
        EXPECT_EQ(static_cast<int>(s.value), static_cast<int>(want)) << t.name << " " << m;
    }
    ++tables;
  }
  EXPECT_EQ(tables, 22);
}

}  // namespace
}  // namespace gossamer::data
