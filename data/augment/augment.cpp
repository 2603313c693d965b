// Crops and flips, with torchvision's arithmetic, so that published recipes carry over.
#include "gossamer/data/augment/augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gossamer/core/error.h"
#include "gossamer/data/augment/policy.h"
#include "gossamer/data/augment/preparer.h"
#include "gossamer/data/files.h"

namespace gossamer::data {
namespace {

void flip(std::uint8_t* pixels, int size) {
  for (int y = 0; y < size; ++y) {
    std::uint8_t* row = pixels + static_cast<std::size_t>(y) * size * 3;
    for (int left = 0, right = size - 1; left < right; ++left, --right)
      std::swap_ranges(row + 3 * left, row + 3 * left + 3, row + 3 * right);
  }
}

// Moves the picture by up to `pad` each way; what comes in is black.
void shift(const std::uint8_t* src, int size, int dx, int dy, std::uint8_t* dst) {
  const std::size_t row = static_cast<std::size_t>(size) * 3;
  std::memset(dst, 0, row * size);
  const int from = std::max(0, -dx), count = size - std::abs(dx);
  if (count <= 0) return;
  for (int y = std::max(0, -dy); y < std::min(size, size - dy); ++y)
    std::memcpy(dst + (y + dy) * row + static_cast<std::size_t>(from + dx) * 3,
                src + y * row + static_cast<std::size_t>(from) * 3,
                static_cast<std::size_t>(count) * 3);
}

// The same; what comes in is the picture mirrored at its edge, without the edge itself (torch's
// "reflect").
void shift_reflecting(const std::uint8_t* src, int size, int dx, int dy, std::uint8_t* dst) {
  const auto at = [size](int i) { return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i; };
  for (int y = 0; y < size; ++y)
    for (int x = 0; x < size; ++x, dst += 3)
      std::copy_n(src + 3 * (static_cast<std::size_t>(at(y - dy)) * size + at(x - dx)), 3, dst);
}

bool is_mirrored(Mirror mirror, Rng& rng) {
  return mirror == Mirror::drawn ? (rng.word() & 1u) != 0 : mirror == Mirror::yes;
}

}  // namespace

Box random_resized_crop(ImageSize size, Rng& rng, float min_area) {
  const double area = static_cast<double>(size.width) * size.height, low = std::log(3.0 / 4),
               high = std::log(4.0 / 3);
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
  if (ratio < 3.0 / 4)
    height = static_cast<int>(std::nearbyint(width / (3.0 / 4)));
  else if (ratio > 4.0 / 3)
    width = static_cast<int>(std::nearbyint(height * (4.0 / 3)));
  width = std::clamp(width, 1, size.width);
  height = std::clamp(height, 1, size.height);
  return {(size.width - width) / 2, (size.height - height) / 2, width, height};
}

CentreCrop centre_crop(ImageSize size, int resize, int crop) {
  check<ConfigError>(crop >= 1 && resize >= crop, "centre crop: ", crop,
                     " pixels from a shorter side of ", resize,
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

Crop centred(ImageSize size, int resize, int side, Shrink filter) {
  const CentreCrop at = centre_crop(size, resize, side);
  return {{0, 0, size.width, size.height}, at.width, at.height, at.x, at.y, side, false, filter};
}

}  // namespace

Crop crop_of(const Recipe& recipe, ImageSize whole, Mirror mirror, Rng& rng) {
  if (recipe.augment == Augment::none)
    return centred(whole, recipe.resize, recipe.size, recipe.filter);
  if (recipe.augment == Augment::pad_crop_flip)
    return centred(whole, recipe.size, recipe.size, recipe.filter);
  const Box box = random_resized_crop(whole, rng, recipe.min_area);
  const bool mirrored = is_mirrored(mirror, rng);
  return {box, recipe.size, recipe.size, 0, 0, recipe.size, mirrored, recipe.filter};
}

void Preparer::open(const Sample& sample) {
  if (sample.raw.width > 0)
    reader_.open_pixels(sample.bytes, sample.raw, sample.name);
  else
    reader_.open(sample.bytes, sample.name);
}

void Preparer::resize(const Crop& crop) {
  reader_.start(crop.needed());
  resizer_.start(crop);
  for (Rows rows; reader_.next(rows);) resizer_.add(rows);
}

void Preparer::read(const Sample& sample, const Recipe& recipe, Rng& rng) {
  open(sample);
  resize(crop_of(recipe, reader_.size(), sample.mirror, rng));
  const bool pads = recipe.augment == Augment::pad_crop_flip;
  made_whole_ = pads || !recipe.steps.empty();
  if (!made_whole_) return;
  made_.resize(recipe.bytes());
  if (pads) {
    // What is resized already is shifted.
    scratch_.resize(recipe.bytes());
    resizer_.finish(scratch_.data());
    const auto reach = static_cast<std::uint32_t>(2 * recipe.pad + 1);
    const int dy = recipe.pad - static_cast<int>(rng.below(reach)),
              dx = recipe.pad - static_cast<int>(rng.below(reach));
    const auto move = recipe.reflect ? shift_reflecting : shift;
    move(scratch_.data(), recipe.size, dx, dy, made_.data());
    if (is_mirrored(sample.mirror, rng)) flip(made_.data(), recipe.size);
  } else {
    resizer_.finish(made_.data());
  }
  for (const PixelStep& step : recipe.steps)
    apply(step, {made_.data(), recipe.size, recipe.size}, rng, scratch_);
}

void Preparer::finish(std::uint8_t* dst) {
  if (made_whole_)
    std::ranges::copy(made_, dst);
  else
    resizer_.finish(dst);
}

Picture Preparer::read_box(const Sample& sample, const Recipe& recipe, Rng& rng, std::size_t most,
                           std::vector<std::uint8_t>& out) {
  open(sample);
  const Crop crop = crop_of(recipe, reader_.size(), sample.mirror, rng);
  const Box box = crop.needed();
  const std::size_t bytes = static_cast<std::size_t>(box.width) * 3 * box.height;
  if (bytes > most) {
    resize(crop);
    out.resize(recipe.bytes());
    resizer_.finish(out.data());
    return {.offset = 0,
            .pitch = 3 * crop.side,
            .width = crop.side,
            .height = crop.side,
            .to_width = crop.side,
            .to_height = crop.side};
  }
  reader_.start(box);
  out.resize(bytes);
  reader_.read(out.data());
  const std::int64_t above = box.y - crop.from.y, left = box.x - crop.from.x;
  return {.offset = -(above * 3 * box.width + 3 * left),
          .pitch = 3 * box.width,
          .width = crop.from.width,
          .height = crop.from.height,
          .to_width = crop.width,
          .to_height = crop.height,
          .x = crop.x,
          .y = crop.y,
          .flip = crop.mirrored};
}

namespace {

std::vector<std::byte> encoded(const std::string& path) {
  const File file(path);
  check_encoded_size(file.size(), path);
  std::vector<std::byte> bytes(file.size());
  file.read(0, bytes);
  return bytes;
}

}  // namespace

Tensor read_image(const std::string& path, int resize, int crop, Shrink filter) {
  centre_crop({1, 1}, resize, crop);  // checks the sizes before the file is read
  return read_image(encoded(path), path, resize, crop, filter);
}

ImageBox read_box(const std::string& path, int resize, int crop, std::size_t most) {
  centre_crop({1, 1}, resize, crop);
  const std::vector<std::byte> file = encoded(path);
  Preparer preparer;
  Rng unused(0);
  std::vector<std::uint8_t> pixels;
  const Picture picture =
      preparer.read_box({file, path}, {.size = crop, .resize = resize}, unused, most, pixels);
  ImageBox out{Tensor::empty({static_cast<i64>(pixels.size())}, DType::u8),
               Tensor::empty({static_cast<i64>(sizeof picture)}, DType::u8)};
  std::ranges::copy(pixels, out.bytes.as<std::uint8_t>());
  std::memcpy(out.picture.data(), &picture, sizeof picture);
  return out;
}

Tensor read_image(std::span<const std::byte> bytes, const std::string& name, int resize, int crop,
                  Shrink filter) {
  centre_crop({1, 1}, resize, crop);
  Tensor out = Tensor::empty({1, crop, crop, 3}, DType::u8);
  Preparer preparer;
  Rng unused(0);
  preparer.read({bytes, name}, {.size = crop, .resize = resize, .filter = filter}, unused);
  preparer.finish(out.as<std::uint8_t>());
  return out;
}

}  // namespace gossamer::data
