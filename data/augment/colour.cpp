// Colour operations with Pillow's arithmetic: ImageEnhance and ImageOps, blends in f32 whose
// fractions are cut off, HSV with Pillow's mix of types. Compiled without fused multiply-adds,
// which would round differently.
#include <algorithm>
#include <array>
#include <cmath>

#include "gossamer/data/augment/pixels.h"

namespace gossamer::data {
namespace {

using Table = std::array<std::uint8_t, 256>;
using Histogram = std::array<int, 256>;

constexpr int kChunk = 256;  // pixels whose gray values are kept at hand

// Image.blend: from + factor (to - from).
inline std::uint8_t blend(int from, int to, float factor) {
  const float v = static_cast<float>(from) + factor * static_cast<float>(to - from);
  return static_cast<std::uint8_t>(std::min(std::max(v, 0.0f), 255.0f));
}

void blend_with(Pixels p, int from, float factor) {
  for (std::size_t i = 0, n = p.bytes(); i < n; ++i) p.data[i] = blend(from, p.data[i], factor);
}

// ITU-R 601-2, as Pillow converts to "L".
inline std::uint8_t gray(const std::uint8_t* p) {
  return static_cast<std::uint8_t>((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16);
}

void grays(const std::uint8_t* p, int count, std::uint8_t* out) {
  for (int i = 0; i < count; ++i) out[i] = gray(p + 3 * i);
}

std::array<Histogram, 3> histograms(Pixels p) {
  // Neighbouring pixels are alike, and adding to one counter twice in a row waits for memory: every
  // second pixel has counters of its own.
  std::array<Histogram, 3> even{}, odd{};
  const std::size_t n = p.bytes();
  std::size_t i = 0;
  for (; i + 6 <= n; i += 6)
    for (std::size_t c = 0; c < 3; ++c) ++even[c][p.data[i + c]], ++odd[c][p.data[i + 3 + c]];
  for (; i < n; i += 3)
    for (std::size_t c = 0; c < 3; ++c) ++even[c][p.data[i + c]];
  for (std::size_t c = 0; c < 3; ++c)
    for (std::size_t v = 0; v < 256; ++v) even[c][v] += odd[c][v];
  return even;
}

void look_up(Pixels p, const std::array<Table, 3>& table) {
  for (std::size_t i = 0, n = p.bytes(); i < n; i += 3)
    for (std::size_t c = 0; c < 3; ++c) p.data[i + c] = table[c][p.data[i + c]];
}

Table stretch(const Histogram& h) {
  int low = 0, high = 255;
  while (low < 255 && h[static_cast<std::size_t>(low)] == 0) ++low;
  while (high > 0 && h[static_cast<std::size_t>(high)] == 0) --high;
  Table t;
  const double scale = high > low ? 255.0 / (high - low) : 1,
               offset = high > low ? -low * scale : 0;
  for (int v = 0; v < 256; ++v)
    t[static_cast<std::size_t>(v)] =
        static_cast<std::uint8_t>(std::clamp(static_cast<int>(v * scale + offset), 0, 255));
  return t;
}

Table flatten(const Histogram& h) {
  int total = 0, last = 0, filled = 0;
  for (const int count : h) {
    if (count == 0) continue;
    total += count;
    last = count;
    ++filled;
  }
  const int step = filled > 1 ? (total - last) / 255 : 0;
  Table t;
  int sum = step / 2;
  for (std::size_t v = 0; v < 256; ++v) {
    t[v] = static_cast<std::uint8_t>(step ? std::min(sum / step, 255) : static_cast<int>(v));
    sum += h[v];
  }
  return t;
}

// Some pixels in planes, so that the loops below work on many at once. Pillow's HSV: f32 and f64
// mixed as in its source, so that not one of the 16.7 million colours differs.
struct Planes {
  static constexpr int kCount = 64;
  int r[kCount], g[kCount], b[kCount], h[kCount], s[kCount], v[kCount];

  void to_hsv() {
    for (int i = 0; i < kCount; ++i) {
      const int x = r[i], y = g[i], z = b[i], top = std::max(x, std::max(y, z)),
                low = std::min(x, std::min(y, z));
      const float range = static_cast<float>(std::max(top - low, 1)),
                  part = range / static_cast<float>(std::max(top, 1));
      const float rc = static_cast<float>(top - r[i]) / range,
                  gc = static_cast<float>(top - g[i]) / range,
                  bc = static_cast<float>(top - b[i]) / range;
      const auto from_green =
          static_cast<float>(2.0 + static_cast<double>(rc) - static_cast<double>(bc));
      const auto from_blue =
          static_cast<float>(4.0 + static_cast<double>(gc) - static_cast<double>(rc));
      const float from_red = bc - gc, from_others = g[i] == top ? from_green : from_blue,
                  sixths = r[i] == top ? from_red : from_others;
      const double turned = static_cast<double>(sixths) / 6.0 + 1.0;
      const auto turn = static_cast<float>(turned - (turned >= 1.0 ? 1.0 : 0.0));
      const int hue_of = static_cast<int>(static_cast<double>(turn) * 255.0),
                strength = static_cast<int>(static_cast<double>(part) * 255.0);
      h[i] = top > low ? hue_of : 0;
      s[i] = top > low ? strength : 0;
      v[i] = top;
    }
  }

  void to_rgb() {
    for (int i = 0; i < kCount; ++i) {
      const double at = static_cast<double>(h[i]) * 6.0 / 255.0, top = v[i];
      const int sixth = static_cast<int>(at);
      const auto rest = static_cast<float>(at - sixth),
                 part = static_cast<float>(static_cast<double>(s[i]) / 255.0);
      const int p = static_cast<int>(top * (1.0 - static_cast<double>(part)) + 0.5),
                q = static_cast<int>(top * (1.0 - static_cast<double>(part * rest)) + 0.5);
      const int t = static_cast<int>(
                    top * (1.0 - static_cast<double>(part) * (1.0 - static_cast<double>(rest))) +
                    0.5),
                k = sixth == 6 ? 0 : sixth;
      r[i] = k == 0 || k == 5 ? v[i] : k == 1 ? q : k == 4 ? t : p;
      g[i] = k == 1 || k == 2 ? v[i] : k == 0 ? t : k == 3 ? q : p;
      b[i] = k == 3 || k == 4 ? v[i] : k == 2 ? t : k == 5 ? q : p;
    }
  }
};

}  // namespace

void brightness(Pixels p, double factor) { blend_with(p, 0, static_cast<float>(factor)); }

void saturation(Pixels p, double factor) {
  const auto f = static_cast<float>(factor);
  std::uint8_t g[kChunk];
  const std::size_t pixels = p.bytes() / 3;
  for (std::size_t at = 0; at < pixels; at += kChunk) {
    const int count = static_cast<int>(std::min<std::size_t>(kChunk, pixels - at));
    std::uint8_t* row = p.data + 3 * at;
    grays(row, count, g);
    for (int i = 0; i < count; ++i)
      for (int c = 0; c < 3; ++c) row[3 * i + c] = blend(g[i], row[3 * i + c], f);
  }
}

void contrast(Pixels p, double factor) {
  std::uint8_t g[kChunk];
  const std::size_t pixels = p.bytes() / 3;
  if (pixels == 0) return;
  std::int64_t sum = 0;
  for (std::size_t at = 0; at < pixels; at += kChunk) {
    const int count = static_cast<int>(std::min<std::size_t>(kChunk, pixels - at));
    grays(p.data + 3 * at, count, g);
    int part = 0;
    for (int i = 0; i < count; ++i) part += g[i];
    sum += part;
  }
  blend_with(p, static_cast<int>(static_cast<double>(sum) / static_cast<double>(pixels) + 0.5),
             static_cast<float>(factor));
}

// Blends with the picture smoothed by (1 1 1, 1 5 1, 1 1 1)/13, whose outermost pixels stay as they
// are.
void sharpness(Pixels p, double factor, std::vector<std::uint8_t>& scratch) {
  if (p.height < 3 || p.width < 3) return;
  const auto f = static_cast<float>(factor);
  const std::size_t row = static_cast<std::size_t>(p.width) * 3;
  scratch.assign(p.data, p.data + p.bytes());
  for (int y = 1; y + 1 < p.height; ++y) {
    const std::uint8_t* here = scratch.data() + static_cast<std::size_t>(y) * row;
    const std::uint8_t *above = here - row, *below = here + row;
    std::uint8_t* out = p.data + static_cast<std::size_t>(y) * row;
    for (std::size_t i = 3; i + 3 < row; ++i) {
      const auto sum = static_cast<std::uint16_t>(above[i - 3] + above[i] + above[i + 3] +
                                                  here[i - 3] + 5 * here[i] + here[i + 3] +
                                                  below[i - 3] + below[i] + below[i + 3]);
      out[i] = blend(static_cast<std::uint16_t>(2 * sum + 13) / 26, here[i], f);
    }
  }
}

void hue(Pixels p, double shift) {
  const int by = static_cast<int>(shift * 255);
  Planes c{};
  const std::size_t pixels = p.bytes() / 3;
  for (std::size_t at = 0; at < pixels; at += Planes::kCount) {
    const int count = static_cast<int>(std::min<std::size_t>(Planes::kCount, pixels - at));
    std::uint8_t* rgb = p.data + 3 * at;
    for (int i = 0; i < count; ++i)
      c.r[i] = rgb[3 * i], c.g[i] = rgb[3 * i + 1], c.b[i] = rgb[3 * i + 2];
    c.to_hsv();
    for (int& h : c.h) h = (h + by) & 255;
    c.to_rgb();
    for (int i = 0; i < count; ++i) {
      rgb[3 * i] = static_cast<std::uint8_t>(c.r[i]);
      rgb[3 * i + 1] = static_cast<std::uint8_t>(c.g[i]);
      rgb[3 * i + 2] = static_cast<std::uint8_t>(c.b[i]);
    }
  }
}

void posterize(Pixels p, int bits) {
  const auto mask = static_cast<std::uint8_t>(0xff << (8 - std::clamp(bits, 0, 8)));
  for (std::size_t i = 0, n = p.bytes(); i < n; ++i) p.data[i] &= mask;
}

void solarize(Pixels p, double threshold) {
  // v < threshold, for whole v
  const int from = static_cast<int>(std::ceil(std::clamp(threshold, 0.0, 256.0)));
  for (std::size_t i = 0, n = p.bytes(); i < n; ++i)
    p.data[i] = static_cast<std::uint8_t>(p.data[i] < from ? p.data[i] : 255 - p.data[i]);
}

void autocontrast(Pixels p) {
  const auto h = histograms(p);
  look_up(p, {stretch(h[0]), stretch(h[1]), stretch(h[2])});
}

void equalize(Pixels p) {
  const auto h = histograms(p);
  look_up(p, {flatten(h[0]), flatten(h[1]), flatten(h[2])});
}

}  // namespace gossamer::data
