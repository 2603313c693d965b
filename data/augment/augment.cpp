// Crops and flips, with torchvision's arithmetic, so that published recipes carry over.
#include "gossamer/data/augment/augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gossamer/core/error.h"
#include "gossamer/data/codec/codec.h"
#include "gossamer/data/files.h"
#include "gossamer/data/codec/resize.h"

namespace gossamer::data {
namespace {

// The window of an encoded picture or of raw pixels, resized.
void cut(std::span<const std::byte> bytes, Dataset::Raw raw, const std::string& name, JpegDevice* jpegs, PickWindow pick, Scratch& scratch,
         std::uint8_t* dst) {
  if (raw.height == 0) {
    decode_resized(bytes, name, pick, scratch.image, scratch.rows, dst, jpegs);
    return;
  }
  check<DataError>(bytes.size() == static_cast<std::size_t>(raw.height) * raw.width * 3, name, ": ", bytes.size(), " bytes for ", raw.width,
                   " x ", raw.height, " raw pixels");
  const ImageSize size{raw.width, raw.height};
  const Window window = pick(size);
  copy_box(reinterpret_cast<const std::uint8_t*>(bytes.data()), size, {0, 0, size.width, size.height}, scratch.image);
  resize_window(scratch.image, -window.x, -window.y, window.horizontal, window.vertical, scratch.rows, dst);
}

// Only the pixels that the crop depends on are decoded, and only the crop is resized.
void centre(std::span<const std::byte> bytes, Dataset::Raw raw, const std::string& name, JpegDevice* jpegs, int resize, int crop, Scratch& scratch,
            std::uint8_t* dst) {
  cut(bytes, raw, name, jpegs,
      [&](ImageSize size) {
        const CentreCrop at = centre_crop(size, resize, crop);
        return Window{0, 0, make_axis(size.width, at.width, at.x, crop), make_axis(size.height, at.height, at.y, crop)};
      },
      scratch, dst);
}

void flip(std::uint8_t* pixels, int size) {
  for (int y = 0; y < size; ++y) {
    std::uint8_t* row = pixels + static_cast<std::size_t>(y) * size * 3;
    for (int left = 0, right = size - 1; left < right; ++left, --right) std::swap_ranges(row + 3 * left, row + 3 * left + 3, row + 3 * right);
  }
}

// Moves the picture by up to `pad` each way; what comes in is black.
void shift(const std::uint8_t* src, int size, int dx, int dy, std::uint8_t* dst) {
  const std::size_t row = static_cast<std::size_t>(size) * 3;
  std::memset(dst, 0, row * size);
  const int from = std::max(0, -dx), count = size - std::abs(dx);
  if (count <= 0) return;
  for (int y = std::max(0, -dy); y < std::min(size, size - dy); ++y)
    std::memcpy(dst + (y + dy) * row + static_cast<std::size_t>(from + dx) * 3, src + y * row + static_cast<std::size_t>(from) * 3,
                static_cast<std::size_t>(count) * 3);
}

}  // namespace

Box random_resized_crop(ImageSize size, Rng& rng, float min_area) {
  const double area = static_cast<double>(size.width) * size.height, low = std::log(3.0 / 4), high = std::log(4.0 / 3);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * (min_area + (1.0 - min_area) * rng.uniform53());
    const double aspect = std::exp(low + (high - low) * rng.uniform53());
    const int width = static_cast<int>(std::nearbyint(std::sqrt(target * aspect)));
    const int height = static_cast<int>(std::nearbyint(std::sqrt(target / aspect)));
    if (width < 1 || height < 1 || width > size.width || height > size.height) continue;
    const int y = static_cast<int>(rng.below(static_cast<std::uint32_t>(size.height - height + 1)));
    const int x = static_cast<int>(rng.below(static_cast<std::uint32_t>(size.width - width + 1)));
    return {x, y, width, height};
  }
  const double ratio = static_cast<double>(size.width) / size.height;
  int width = size.width, height = size.height;
  if (ratio < 3.0 / 4) height = static_cast<int>(std::nearbyint(width / (3.0 / 4)));
  else if (ratio > 4.0 / 3) width = static_cast<int>(std::nearbyint(height * (4.0 / 3)));
  width = std::clamp(width, 1, size.width);
  height = std::clamp(height, 1, size.height);
  return {(size.width - width) / 2, (size.height - height) / 2, width, height};
}

CentreCrop centre_crop(ImageSize size, int resize, int crop) {
  check<ConfigError>(crop >= 1 && resize >= crop, "centre crop: ", crop, " pixels from a shorter side of ", resize,
                     "; the shorter side must not be smaller than the crop");
  const i64 w = size.width, h = size.height;
  CentreCrop at{};
  at.width = w <= h ? resize : static_cast<int>(std::min<i64>(resize * w / h, 1 << 24));
  at.height = w <= h ? static_cast<int>(std::min<i64>(resize * h / w, 1 << 24)) : resize;
  at.x = static_cast<int>(std::nearbyint((at.width - crop) / 2.0));
  at.y = static_cast<int>(std::nearbyint((at.height - crop) / 2.0));
  return at;
}

namespace {

// The crop of the recipe, flipped or not.
void crop_and_flip(std::span<const std::byte> bytes, Dataset::Raw raw, const std::string& name, const Recipe& recipe, Rng& rng, Scratch& scratch,
                   std::uint8_t* dst) {
  const int size = recipe.size;
  switch (recipe.augment) {
    case Augment::none: centre(bytes, raw, name, recipe.jpegs.get(), recipe.resize, size, scratch, dst); return;
    case Augment::pad_crop_flip: {
      scratch.square.resize(recipe.bytes());
      centre(bytes, raw, name, recipe.jpegs.get(), size, size, scratch, scratch.square.data());
      const auto reach = static_cast<std::uint32_t>(2 * recipe.pad + 1);
      const int dy = recipe.pad - static_cast<int>(rng.below(reach)), dx = recipe.pad - static_cast<int>(rng.below(reach));
      shift(scratch.square.data(), size, dx, dy, dst);
      break;
    }
    case Augment::resized_crop_flip: {
      cut(bytes, raw, name, recipe.jpegs.get(),
          [&](ImageSize whole) {
            const Box box = random_resized_crop(whole, rng, recipe.min_area);
            const bool mirrored = rng.word() & 1u;
            return Window{box.x, box.y, make_axis(box.width, size, 0, size, mirrored), make_axis(box.height, size, 0, size)};
          },
          scratch, dst);
      return;
    }
  }
  if (rng.word() & 1u) flip(dst, size);
}

}  // namespace

void prepare(std::span<const std::byte> bytes, Dataset::Raw raw, const std::string& name, const Recipe& recipe, Rng& rng, Scratch& scratch,
             std::uint8_t* dst) {
  crop_and_flip(bytes, raw, name, recipe, rng, scratch, dst);
  for (const PixelStep& step : recipe.steps) apply(step, {dst, recipe.size, recipe.size}, rng, scratch.square);
}

Tensor read_image(const std::string& path, int resize, int crop) {
  const File file(path);
  check_encoded_size(file.size(), path);
  std::vector<std::byte> bytes(file.size());
  file.read(0, bytes);
  Scratch scratch;
  centre_crop({1, 1}, resize, crop);                    // the sizes are checked before the file
  Tensor out = Tensor::empty({1, crop, crop, 3}, DType::u8);
  centre(bytes, {}, path, nullptr, resize, crop, scratch, out.as<std::uint8_t>());
  return out;
}

}  // namespace gossamer::data
