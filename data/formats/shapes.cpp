// Draws one picture of shapes10: gradient, clutter, one shape or texture at a random place, size,
// angle and colour, more clutter, noise. Colour and brightness say nothing about the class, so a
// linear classifier on the pixels learns little.
#include "gossamer/data/formats/shapes.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/data/mix.h"

namespace gossamer::data {
namespace {

constexpr float kPi = std::numbers::pi_v<float>;

struct Point {
  float x, y;
};
struct Colour {
  float r, g, b;
};

Colour random_colour(Rng& rng) {
  return {rng.uniform(20, 235), rng.uniform(20, 235), rng.uniform(20, 235)};
}

float brightness(Colour c) { return 0.299f * c.r + 0.587f * c.g + 0.114f * c.b; }

// Differs from `other` enough to be seen, in brightness and not in colour alone (JPEG halves the
// resolution of colour).
Colour contrasting(Rng& rng, Colour other) {
  for (;;) {
    const Colour c = random_colour(rng);
    if (std::abs(brightness(c) - brightness(other)) > 55) return c;
  }
}

class Canvas {
 public:
  explicit Canvas(int size) : size_(size), pixels_(static_cast<std::size_t>(size) * size) {}
  int size() const { return size_; }
  Colour& at(int x, int y) { return pixels_[static_cast<std::size_t>(y) * size_ + x]; }

  // distance(x, y): signed distance to the edge in pixels, negative inside; edges are smoothed over
  // one pixel.
  template <class F>
  void paint(Colour c, float opacity, F distance) {
    for (int y = 0; y < size_; ++y)
      for (int x = 0; x < size_; ++x) {
        const float cover = std::clamp(0.5f - distance(x + 0.5f, y + 0.5f), 0.0f, 1.0f) * opacity;
        if (cover <= 0) continue;
        Colour& p = at(x, y);
        p = {p.r + cover * (c.r - p.r), p.g + cover * (c.g - p.g), p.b + cover * (c.b - p.b)};
      }
  }

 private:
  int size_;
  std::vector<Colour> pixels_;
};

// Signed distance to a closed polygon: the nearest edge, the sign by crossings.
float polygon(const std::vector<Point>& corners, float x, float y) {
  float nearest = 1e9f;
  bool inside = false;
  for (std::size_t i = 0, j = corners.size() - 1; i < corners.size(); j = i++) {
    const Point a = corners[j], b = corners[i];
    const float ex = b.x - a.x, ey = b.y - a.y, px = x - a.x, py = y - a.y;
    const float t = std::clamp((px * ex + py * ey) / (ex * ex + ey * ey), 0.0f, 1.0f);
    const float dx = px - t * ex, dy = py - t * ey;
    nearest = std::min(nearest, dx * dx + dy * dy);
    if ((a.y > y) != (b.y > y) && x < a.x + (y - a.y) / ey * ex) inside = !inside;
  }
  return inside ? -std::sqrt(nearest) : std::sqrt(nearest);
}

// inner < outer: a star
std::vector<Point> regular(int corners, float outer, float inner) {
  std::vector<Point> points;
  for (int i = 0; i < 2 * corners; ++i) {
    if (i % 2 && inner <= 0) continue;
    const float angle = kPi * static_cast<float>(i) / static_cast<float>(corners),
                r = i % 2 ? inner : outer;
    points.push_back({r * std::cos(angle), r * std::sin(angle)});
  }
  return points;
}

std::vector<Point> plus(float arm, float half) {
  return {{arm, half},   {half, half},   {half, arm},   {-half, arm}, {-half, half}, {-arm, half},
          {-arm, -half}, {-half, -half}, {-half, -arm}, {half, -arm}, {half, -half}, {arm, -half}};
}

// negative half of the time; slope 1
float square_wave(float t) { return std::abs(t - std::floor(t) - 0.5f) - 0.25f; }

// Draws the shape or texture of class `label` at a random place, size and angle.
void draw_class(Canvas& canvas, int label, Colour colour, Rng& rng) {
  const float size = static_cast<float>(canvas.size());
  // checker, dots, stripes: enough periods must fit in
  const bool texture = label == 0 || label == 3 || label == 8;
  const float radius = size * (texture ? rng.uniform(0.32f, 0.46f) : rng.uniform(0.22f, 0.40f));
  const float reach = std::min(radius, 0.42f * size);
  const float cx = rng.uniform(reach, size - reach), cy = rng.uniform(reach, size - reach);
  const float angle = rng.uniform(0, 2 * kPi), c = std::cos(angle), s = std::sin(angle);
  const float period = size * rng.uniform(0.15f, 0.22f), phase = rng.uniform();
  // distance in pixels, of turned coordinates in pixels
  const auto paint = [&](auto distance) {
    canvas.paint(colour, 1.0f, [&](float x, float y) {
      const float dx = x - cx, dy = y - cy;
      return distance(c * dx + s * dy, c * dy - s * dx);
    });
  };
  const auto paint_polygon = [&](std::vector<Point> corners) {
    for (Point& p : corners) p = {p.x * radius, p.y * radius};
    paint([&](float x, float y) { return polygon(corners, x, y); });
  };
  switch (label) {
    case 0:
      paint([&](float x, float y) {
        const float a = square_wave(x / (2 * period) + phase),
                    b = square_wave(y / (2 * period) + phase);
        return std::max(std::max(a, b) < 0 || std::min(a, b) > 0
                            ? -std::min(std::abs(a), std::abs(b)) * 2 * period
                            : std::min(std::abs(a), std::abs(b)) * 2 * period,
                        std::hypot(x, y) - radius);
      });
      return;
    case 1:
      paint([&](float x, float y) { return std::hypot(x, y) - 0.85f * radius; });
      return;
    case 2:
      paint_polygon(plus(1.0f, 0.28f));
      return;
    case 3:
      paint([&](float x, float y) {
        const float u = x / period + phase, v = y / period + phase;
        const float dx = u - std::floor(u) - 0.5f, dy = v - std::floor(v) - 0.5f;
        return std::max(std::hypot(dx, dy) * period - 0.3f * period, std::hypot(x, y) - radius);
      });
      return;
    case 4:
      paint([&](float x, float y) {
        return std::abs(std::hypot(x, y) - 0.75f * radius) - 0.18f * radius;
      });
      return;
    // two turns of an Archimedean spiral
    case 5:
      paint([&](float x, float y) {
        const float r = std::hypot(x, y), pitch = radius * 0.5f;
        const float turn = r / pitch - std::atan2(y, x) / (2 * kPi);
        return std::max(square_wave(turn) * pitch, r - radius);
      });
      return;
    case 6:
      paint_polygon(regular(4, 1.05f, 0));
      return;
    case 7:
      paint_polygon(regular(5, 1.1f, 0.44f));
      return;
    case 8:
      paint([&](float x, float y) {
        return std::max(square_wave(x / period + phase) * period, std::hypot(x, y) - radius);
      });
      return;
    default:
      paint_polygon(regular(3, 1.15f, 0));
      return;
  }
}

void clutter(Canvas& canvas, Rng& rng, int lines, int blobs) {
  const float size = static_cast<float>(canvas.size());
  for (int i = 0; i < lines; ++i) {
    const Colour colour = random_colour(rng);
    const float x0 = rng.uniform(0, size), y0 = rng.uniform(0, size),
                angle = rng.uniform(0, 2 * kPi), length = rng.uniform(0.1f, 0.5f) * size;
    const float ex = std::cos(angle), ey = std::sin(angle),
                half = rng.uniform(0.004f, 0.014f) * size;
    canvas.paint(colour, rng.uniform(0.4f, 1.0f), [&](float x, float y) {
      const float px = x - x0, py = y - y0, t = std::clamp(px * ex + py * ey, 0.0f, length);
      return std::hypot(px - t * ex, py - t * ey) - half;
    });
  }
  for (int i = 0; i < blobs; ++i) {
    const Colour colour = random_colour(rng);
    const float cx = rng.uniform(0, size), cy = rng.uniform(0, size),
                rx = rng.uniform(0.015f, 0.06f) * size, stretch = rng.uniform(0.6f, 1.6f);
    canvas.paint(colour, rng.uniform(0.4f, 1.0f),
                 [&](float x, float y) { return std::hypot(x - cx, (y - cy) * stretch) - rx; });
  }
}

// Nearly normal noise from one word: the sum of its four bytes (Irwin-Hall), deviation 1.
float noise(Rng& rng) {
  const std::uint32_t w = rng.word();
  const auto sum = static_cast<float>((w & 255u) + (w >> 8 & 255u) + (w >> 16 & 255u) + (w >> 24));
  return (sum - 510.0f) * (1.0f / 147.8f);
}

}  // namespace

const std::vector<std::string>& shape_classes() {
  static const auto& names =
      *new std::vector<std::string>{"checker", "circle", "cross", "dots",    "ring",
                                    "spiral",  "square", "star",  "stripes", "triangle"};
  return names;
}

Image draw_shape(int label, int size, std::uint64_t seed, std::uint64_t index) {
  check<ConfigError>(label >= 0 && label < 10, "draw_shape: label ", label,
                     "; there are ten classes, 0 … 9");
  check<ConfigError>(size >= 16 && size <= 1024, "draw_shape: size ", size,
                     "; 16 … 1024 pixels are possible");
  Rng rng(mix(seed, static_cast<std::uint64_t>(label)), index);
  Canvas canvas(size);

  const Colour from = random_colour(rng);
  const Colour to = {std::clamp(from.r + rng.uniform(-60, 60), 0.0f, 255.0f),
                     std::clamp(from.g + rng.uniform(-60, 60), 0.0f, 255.0f),
                     std::clamp(from.b + rng.uniform(-60, 60), 0.0f, 255.0f)};
  const float angle = rng.uniform(0, 2 * kPi), gx = std::cos(angle) / static_cast<float>(size),
              gy = std::sin(angle) / static_cast<float>(size);
  for (int y = 0; y < size; ++y)
    for (int x = 0; x < size; ++x) {
      const float half = 0.5f * static_cast<float>(size);
      const float t = std::clamp(
          0.5f + gx * (static_cast<float>(x) - half) + gy * (static_cast<float>(y) - half), 0.0f,
          1.0f);
      canvas.at(x, y) = {from.r + t * (to.r - from.r), from.g + t * (to.g - from.g),
                         from.b + t * (to.b - from.b)};
    }
  const Colour middle = {(from.r + to.r) / 2, (from.g + to.g) / 2, (from.b + to.b) / 2};
  clutter(canvas, rng, 2 + static_cast<int>(rng.below(4)), 3 + static_cast<int>(rng.below(5)));
  draw_class(canvas, label, contrasting(rng, middle), rng);
  clutter(canvas, rng, static_cast<int>(rng.below(3)), static_cast<int>(rng.below(3)));

  Image image{size, size, std::vector<std::uint8_t>(static_cast<std::size_t>(size) * size * 3)};
  const float deviation = rng.uniform(3, 12);
  std::uint8_t* out = image.pixels.data();
  for (int y = 0; y < size; ++y)
    for (int x = 0; x < size; ++x) {
      const Colour c = canvas.at(x, y);
      for (const float value : {c.r, c.g, c.b})
        *out++ = static_cast<std::uint8_t>(
            std::clamp(value + deviation * noise(rng) + 0.5f, 0.0f, 255.0f));
    }
  return image;
}

}  // namespace gossamer::data
