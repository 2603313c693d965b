// Affine warps with Pillow's arithmetic: nearest in 16.16 fixed point, bilinear in f64. Compiled
// without fused multiply-adds, which would round differently.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <numbers>

#include "gossamer/data/augment/pixels.h"

namespace gossamer::data {
namespace {

// Where the output pixel (x, y) comes from: (a x + b y + c, d x + e y + f), pixel centres at .5.
struct Affine {
  double a, b, c, d, e, f;
};

int fixed(double v) { return static_cast<int>(std::floor(v * 65536.0 + 0.5)); }

void warp_nearest(const std::uint8_t* src, const Affine& m, Pixels p) {
  const int a = fixed(m.a), d = fixed(m.d), b = fixed(m.b), e = fixed(m.e);
  int row_x = fixed(m.c + m.a * 0.5 + m.b * 0.5), row_y = fixed(m.f + m.d * 0.5 + m.e * 0.5);
  const auto width = static_cast<unsigned>(p.width), height = static_cast<unsigned>(p.height);
  std::uint8_t* out = p.data;
  for (int y = 0; y < p.height; ++y, row_x += b, row_y += e) {
    int from_x = row_x, from_y = row_y;
    for (int x = 0; x < p.width; ++x, out += 3, from_x += a, from_y += d) {
      const auto sx = static_cast<unsigned>(from_x >> 16), sy = static_cast<unsigned>(from_y >> 16);
      if (sx >= width || sy >= height) continue;
      const std::uint8_t* in = src + (static_cast<std::size_t>(sy) * width + sx) * 3;
      out[0] = in[0];
      out[1] = in[1];
      out[2] = in[2];
    }
  }
}

void warp_bilinear(const std::uint8_t* src, const Affine& m, Pixels p) {
  std::uint8_t* out = p.data;
  for (int y = 0; y < p.height; ++y) {
    for (int x = 0; x < p.width; ++x, out += 3) {
      const double px = x + 0.5, py = y + 0.5;
      double sx = m.a * px + m.b * py + m.c, sy = m.d * px + m.e * py + m.f;
      if (sx < 0.0 || sx >= p.width || sy < 0.0 || sy >= p.height) continue;
      sx -= 0.5;
      sy -= 0.5;
      const int left = static_cast<int>(std::floor(sx)), top = static_cast<int>(std::floor(sy));
      const double dx = sx - left, dy = sy - top;
      const std::size_t x0 = static_cast<std::size_t>(std::max(left, 0)) * 3,
                        x1 = static_cast<std::size_t>(std::min(left + 1, p.width - 1)) * 3;
      const std::uint8_t* upper = src + static_cast<std::size_t>(std::max(top, 0)) * p.width * 3;
      const std::uint8_t* lower =
          src + static_cast<std::size_t>(std::min(top + 1, p.height - 1)) * p.width * 3;
      for (std::size_t c = 0; c < 3; ++c) {
        const double above = upper[x0 + c] + (upper[x1 + c] - upper[x0 + c]) * dx,
                     below = lower[x0 + c] + (lower[x1 + c] - lower[x0 + c]) * dx;
        out[c] = static_cast<std::uint8_t>(above + (below - above) * dy);
      }
    }
  }
}

void warp(Pixels p, const Affine& m, Filter filter, std::vector<std::uint8_t>& scratch) {
  scratch.assign(p.data, p.data + p.bytes());
  std::memset(p.data, 0, p.bytes());
  if (filter == Filter::nearest)
    warp_nearest(scratch.data(), m, p);
  else
    warp_bilinear(scratch.data(), m, p);
}

// Python's round(x, 15).
double round15(double v) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, v, std::chars_format::fixed, 15).ptr;
  double out = 0;
  std::from_chars(text, end, out);
  return out;
}

// A quarter turn of a square: no arithmetic, so nothing is lost at the edges.
void quarter_turn(Pixels p, bool left, std::vector<std::uint8_t>& scratch) {
  scratch.assign(p.data, p.data + p.bytes());
  const auto n = static_cast<std::size_t>(p.width);
  for (std::size_t y = 0; y < n; ++y)
    for (std::size_t x = 0; x < n; ++x) {
      const std::size_t from_y = left ? x : n - 1 - x, from_x = left ? n - 1 - y : y;
      std::memcpy(p.data + (y * n + x) * 3, scratch.data() + (from_y * n + from_x) * 3, 3);
    }
}

constexpr double kRadians = std::numbers::pi / 180.0, kDegrees = 180.0 / std::numbers::pi;

// torchvision turns the slope into degrees and back, and so does this: the last bits decide about
// single pixels.
double through_degrees(double slope) { return std::tan(std::atan(slope) * kDegrees * kRadians); }

}  // namespace

void rotate(Pixels p, double degrees, Filter filter, std::vector<std::uint8_t>& scratch) {
  double turn = std::fmod(degrees, 360.0);
  if (turn < 0) turn += 360.0;
  if (turn == 0) return;
  if (turn == 180) {
    for (std::size_t i = 0, j = p.bytes(); i + 3 < j; i += 3) {
      j -= 3;
      std::swap_ranges(p.data + i, p.data + i + 3, p.data + j);
    }
    return;
  }
  if ((turn == 90 || turn == 270) && p.width == p.height)
    return quarter_turn(p, turn == 90, scratch);
  const double angle = -(turn * kRadians), cx = p.width / 2.0, cy = p.height / 2.0;
  Affine m{round15(std::cos(angle)),  round15(std::sin(angle)), 0,
           round15(-std::sin(angle)), round15(std::cos(angle)), 0};
  m.c = m.a * -cx + m.b * -cy + 0.0 + cx;
  m.f = m.d * -cx + m.e * -cy + 0.0 + cy;
  warp(p, m, filter, scratch);
}

void shear_x(Pixels p, double slope, Filter filter, std::vector<std::uint8_t>& scratch) {
  if (slope != 0) warp(p, {1, through_degrees(slope), 0, 0, 1, 0}, filter, scratch);
}

void shear_y(Pixels p, double slope, Filter filter, std::vector<std::uint8_t>& scratch) {
  if (slope == 0) return;
  // R(0) with a shear of the rows: the off-diagonal term is sin(sy)/cos(sy), not tan(sy).
  const double angle = std::atan(slope) * kDegrees * kRadians;
  warp(p, {1, 0, 0, -(std::sin(-angle) / std::cos(angle)), std::cos(-angle) / std::cos(angle), 0},
       filter, scratch);
}

void translate(Pixels p, int right, int down) {
  const std::size_t row = static_cast<std::size_t>(p.width) * 3;
  right = std::clamp(right, -p.width, p.width);
  down = std::clamp(down, -p.height, p.height);
  const std::size_t kept = row - static_cast<std::size_t>(std::abs(right)) * 3, gap = row - kept;
  for (int i = 0; i < p.height; ++i) {
    // from the far end, so that no row is read after it was written
    const int y = down > 0 ? p.height - 1 - i : i, from = y - down;
    std::uint8_t* to = p.data + static_cast<std::size_t>(y) * row;
    if (from < 0 || from >= p.height) {
      std::memset(to, 0, row);
      continue;
    }
    const std::uint8_t* src = p.data + static_cast<std::size_t>(from) * row;
    std::memmove(to + (right > 0 ? gap : 0), src + (right < 0 ? gap : 0), kept);
    std::memset(right > 0 ? to : to + kept, 0, gap);
  }
}

}  // namespace gossamer::data
