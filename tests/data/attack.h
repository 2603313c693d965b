// What the attack tests share: a file given to all that decodes, and parts to make hostile files
// of.
#pragma once

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "data/helpers.h"
#include "data/limits.h"
#include "gossamer/core/random.h"
#include "gossamer/data/augment/augment.h"
#include "gossamer/data/augment/preparer.h"
#include "gossamer/data/codec/resize.h"

namespace gossamer::data {

// All that the library does with a file, each within the limits: its size, a random crop, the
// centre, the whole (`data check`, `data pack --copy`), the whole made smaller (`data pack`). The
// first error, or nothing.
inline std::string attack(std::span<const std::byte> bytes, std::uint64_t seed = 1) {
  const std::string name = "n01/evil.jpg";
  Preparer preparer;
  std::vector<std::uint8_t> out(64 * 64 * 3);
  Rng rng(seed);
  std::string error;
  const auto survive = [&](const char* what, auto&& f) {
    const Limits limits(what);
    try {
      f();
    } catch (const DataError& e) {
      EXPECT_THAT(e.what(), testing::StartsWith(name + ": "));
      if (error.empty()) error = e.what();
    }
  };
  survive("probe", [&] { probe(bytes, name); });
  for (const Augment augment : {Augment::resized_crop_flip, Augment::none})
    survive(augment == Augment::none ? "eval" : "train", [&] {
      preparer.read({bytes, name}, {.augment = augment, .size = 64, .resize = 64}, rng);
      preparer.finish(out.data());
    });
  survive("check", [&] { verify(bytes, name); });
  survive("pack", [&] {
    ImageReader reader(bytes, name);
    read_resized(reader, {std::min(reader.size().width, 500), std::min(reader.size().height, 500)});
  });
  return error;
}

// Writes another size into the frame header.
inline Bytes resized_header(Bytes jpeg, int width, int height, std::byte frame = std::byte{0xC0}) {
  for (std::size_t i = 0; i + 9 < jpeg.size(); ++i)
    if (jpeg[i] == std::byte{0xFF} && jpeg[i + 1] == frame) {
      jpeg[i + 5] = static_cast<std::byte>(height >> 8),
               jpeg[i + 6] = static_cast<std::byte>(height & 255);
      jpeg[i + 7] = static_cast<std::byte>(width >> 8),
               jpeg[i + 8] = static_cast<std::byte>(width & 255);
      return jpeg;
    }
  throw std::runtime_error("no frame");
}

// A chunk of PNG with its checksum.
inline std::string chunk(const std::string& type, const std::string& data) {
  const auto big = [](std::uint32_t v) {
    return std::string{static_cast<char>(v >> 24), static_cast<char>(v >> 16),
                       static_cast<char>(v >> 8), static_cast<char>(v)};
  };
  const std::string body = type + data;
  return big(static_cast<std::uint32_t>(data.size())) + body +
         big(static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                                              static_cast<uInt>(body.size()))));
}
inline std::string deflated(const std::string& data) {
  uLongf bytes = compressBound(data.size());
  std::string out(bytes, '\0');
  compress2(reinterpret_cast<Bytef*>(out.data()), &bytes,
            reinterpret_cast<const Bytef*>(data.data()), data.size(), 9);
  return out.substr(0, bytes);
}

}  // namespace gossamer::data
