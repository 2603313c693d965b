// Which change with which strength: torchvision 0.14's ColorJitter, RandAugment, TrivialAugmentWide
// and RandomErasing.
#include "gossamer/data/augment/policy.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <utility>

#include "gossamer/core/error.h"

namespace gossamer::data {
namespace {

// torch.linspace(first, last, 31)[i], except for its last bit: torch's depends on the width of the
// CPU's vectors.
double spaced(double first, double last, int i) {
  return static_cast<float>(first + (last - first) * i / (kMagnitudes - 1));
}

// Upper bits that posterize keeps: 8 at magnitude 0, 8 - span at magnitude 30; a half is rounded to
// the even number.
double kept_bits(int magnitude, double span) {
  return 8 - std::nearbyint(magnitude / ((kMagnitudes - 1) / span));
}

double between(double low, double high, Rng& rng) { return low + (high - low) * rng.uniform53(); }

void run(const ColourJitter& j, Pixels p, Rng& rng, std::vector<std::uint8_t>&) {
  std::array<int, 4> order{0, 1, 2, 3};
  for (std::uint32_t i = 4; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  const double amount[4] = {j.brightness, j.contrast, j.saturation, j.hue};
  // all are drawn, so that one amount does not change what the others get
  double drawn[4];
  for (int i = 0; i < 4; ++i)
    drawn[i] = i < 3 ? between(std::max(0.0, 1 - amount[i]), 1 + amount[i], rng)
                     : between(-amount[i], amount[i], rng);
  for (const int i : order) {
    if (amount[i] == 0) continue;
    if (i == 0)
      brightness(p, drawn[i]);
    else if (i == 1)
      contrast(p, drawn[i]);
    else if (i == 2)
      saturation(p, drawn[i]);
    else
      hue(p, drawn[i]);
  }
}

double signed_value(Strength s, Rng& rng) {
  return s.either_sign && rng.below(2) ? -s.value : s.value;
}

void run(const RandAugment& r, Pixels p, Rng& rng, std::vector<std::uint8_t>& scratch) {
  for (int i = 0; i < r.ops; ++i) {
    const auto op = static_cast<PolicyOp>(rng.below(kPolicyOps));
    const double value =
        signed_value(rand_augment_strength(op, r.magnitude, p.height, p.width), rng);
    apply(op, value, p, r.filter, scratch);
  }
}

void run(const TrivialAugmentWide& t, Pixels p, Rng& rng, std::vector<std::uint8_t>& scratch) {
  const auto op = static_cast<PolicyOp>(rng.below(kPolicyOps));
  const int magnitude = static_cast<int>(rng.below(kMagnitudes));
  apply(op, signed_value(trivial_augment_strength(op, magnitude), rng), p, t.filter, scratch);
}

void run(const RandomErasing& e, Pixels p, Rng& rng, std::vector<std::uint8_t>&) {
  if (rng.uniform53() >= e.probability) return;
  const double area = static_cast<double>(p.height) * p.width, low = std::log(0.3),
               high = std::log(3.3);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double wanted = area * between(e.min_area, e.max_area, rng),
                 aspect = std::exp(between(low, high, rng));
    const int h = static_cast<int>(std::nearbyint(std::sqrt(wanted * aspect))),
              w = static_cast<int>(std::nearbyint(std::sqrt(wanted / aspect)));
    if (h >= p.height || w >= p.width) continue;
    const int top = static_cast<int>(rng.below(static_cast<std::uint32_t>(p.height - h + 1)));
    const int left = static_cast<int>(rng.below(static_cast<std::uint32_t>(p.width - w + 1)));
    for (int y = top; y < top + h; ++y) {
      std::uint8_t* row = p.data + (static_cast<std::size_t>(y) * p.width + left) * 3;
      for (int x = 0; x < w; ++x) std::copy(e.fill.begin(), e.fill.end(), row + 3 * x);
    }
    return;
  }
}

bool in(double v, double low, double high) { return v >= low && v <= high; }

}  // namespace

Strength rand_augment_strength(PolicyOp op, int m, int height, int width) {
  switch (op) {
    case PolicyOp::shear_x:
    case PolicyOp::shear_y:
      return {spaced(0, 0.3, m), true};
    case PolicyOp::translate_x:
      return {spaced(0, 150.0 / 331.0 * width, m), true};
    case PolicyOp::translate_y:
      return {spaced(0, 150.0 / 331.0 * height, m), true};
    case PolicyOp::rotate:
      return {spaced(0, 30, m), true};
    case PolicyOp::brightness:
    case PolicyOp::colour:
    case PolicyOp::contrast:
    case PolicyOp::sharpness:
      return {spaced(0, 0.9, m), true};
    case PolicyOp::posterize:
      return {kept_bits(m, 4), false};
    case PolicyOp::solarize:
      return {spaced(255, 0, m), false};
    case PolicyOp::identity:
    case PolicyOp::autocontrast:
    case PolicyOp::equalize:
      break;
  }
  return {0, false};
}

Strength trivial_augment_strength(PolicyOp op, int m) {
  switch (op) {
    case PolicyOp::shear_x:
    case PolicyOp::shear_y:
      return {spaced(0, 0.99, m), true};
    case PolicyOp::translate_x:
    case PolicyOp::translate_y:
      return {spaced(0, 32, m), true};
    case PolicyOp::rotate:
      return {spaced(0, 135, m), true};
    case PolicyOp::brightness:
    case PolicyOp::colour:
    case PolicyOp::contrast:
    case PolicyOp::sharpness:
      return {spaced(0, 0.99, m), true};
    case PolicyOp::posterize:
      return {kept_bits(m, 6), false};
    case PolicyOp::solarize:
      return {spaced(255, 0, m), false};
    case PolicyOp::identity:
    case PolicyOp::autocontrast:
    case PolicyOp::equalize:
      break;
  }
  return {0, false};
}

void apply(PolicyOp op, double v, Pixels p, Filter filter, std::vector<std::uint8_t>& scratch) {
  switch (op) {
    case PolicyOp::identity:
      return;
    case PolicyOp::shear_x:
      return shear_x(p, v, filter, scratch);
    case PolicyOp::shear_y:
      return shear_y(p, v, filter, scratch);
    case PolicyOp::translate_x:
      return translate(p, static_cast<int>(v), 0);
    case PolicyOp::translate_y:
      return translate(p, 0, static_cast<int>(v));
    case PolicyOp::rotate:
      return rotate(p, v, filter, scratch);
    case PolicyOp::brightness:
      return brightness(p, 1.0 + v);
    case PolicyOp::colour:
      return saturation(p, 1.0 + v);
    case PolicyOp::contrast:
      return contrast(p, 1.0 + v);
    case PolicyOp::sharpness:
      return sharpness(p, 1.0 + v, scratch);
    case PolicyOp::posterize:
      return posterize(p, static_cast<int>(v));
    case PolicyOp::solarize:
      return solarize(p, v);
    case PolicyOp::autocontrast:
      return autocontrast(p);
    case PolicyOp::equalize:
      return equalize(p);
  }
}

void apply(const PixelStep& step, Pixels p, Rng& rng, std::vector<std::uint8_t>& scratch) {
  std::visit([&](const auto& s) { run(s, p, rng, scratch); }, step);
}

void check_step(const PixelStep& step) {
  if (const auto* j = std::get_if<ColourJitter>(&step)) {
    check<ConfigError>(
        in(j->brightness, 0, 10) && in(j->contrast, 0, 10) && in(j->saturation, 0, 10),
        "colour-jitter: brightness ", j->brightness, ", contrast ", j->contrast, ", saturation ",
        j->saturation, "; each must be 0 to 10");
    check<ConfigError>(in(j->hue, 0, 0.5), "colour-jitter: hue ", j->hue,
                       "; it must be 0 to 0.5 of a turn");
  } else if (const auto* r = std::get_if<RandAugment>(&step)) {
    check<ConfigError>(r->ops >= 1 && r->ops <= 100, "rand-augment: ", r->ops,
                       " operations; use 1 to 100");
    check<ConfigError>(r->magnitude >= 0 && r->magnitude < kMagnitudes, "rand-augment: magnitude ",
                       r->magnitude, "; use 0 to ", kMagnitudes - 1);
  } else if (const auto* e = std::get_if<RandomErasing>(&step)) {
    check<ConfigError>(in(e->probability, 0, 1), "random-erasing: probability ", e->probability,
                       "; it must be 0 to 1");
    check<ConfigError>(in(e->min_area, 0, 1) && in(e->max_area, e->min_area, 1),
                       "random-erasing: areas ", e->min_area, " to ", e->max_area,
                       "; they are parts of the picture, 0 to 1, the smaller first");
  }
}

CropChoice parse_crop(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ':');) words.push_back(word);
  const std::string name = words.empty() ? "" : words[0];
  CropChoice out;
  const bool pads = name == "pad-crop-flip";
  if (pads)
    out.augment = Augment::pad_crop_flip;
  else if (name == "resized-crop-flip")
    out.augment = Augment::resized_crop_flip;
  bool known = name == "none" || out.augment != Augment::none;
  for (std::size_t i = 1; i < words.size() && known; ++i) {
    const std::string& word = words[i];
    const char* const last = word.data() + word.size();
    if (word == "alternating")
      out.alternating = known = out.augment != Augment::none;
    else if (word == "reflect")
      out.reflect = known = pads;
    else
      known = pads && out.pad < 0 && std::from_chars(word.data(), last, out.pad).ptr == last &&
              out.pad >= 0 && !word.empty();
  }
  check<ConfigError>(known, "\"", text,
                     "\" is no crop; use none, pad-crop-flip:PIXELS:reflect:alternating or "
                     "resized-crop-flip:alternating; what is behind the names may be left out");
  return out;
}

PixelStep parse_pixel_step(const std::string& text) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ':');) words.push_back(word);
  std::string name = words.empty() ? "" : words[0];
  if (name == "randaugment") name = "rand-augment";  // as timm and torchvision's options write it
  const bool bilinear = words.size() > 1 && words.back() == "bilinear" &&
                        (name == "rand-augment" || name == "trivial-augment-wide");
  if (bilinear) words.pop_back();
  const Filter filter = bilinear ? Filter::bilinear : Filter::nearest;
  const auto numbers = [&](std::initializer_list<double*> to) {
    check<ConfigError>(words.size() <= to.size() + 1, "augmentation \"", text, "\": ", name,
                       " takes at most ", to.size(), " numbers");
    std::size_t i = 1;
    for (double* v : to) {
      if (i >= words.size()) break;
      const std::string& word = words[i++];
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), *v);
      check<ConfigError>(
          error == std::errc() && end == word.data() + word.size() && std::isfinite(*v),
          "augmentation \"", text, "\": \"", word, "\" is no number");
    }
  };
  const auto whole = [&](double v) {
    check<ConfigError>(v == std::floor(v) && std::abs(v) < 1e6, "augmentation \"", text, "\": ", v,
                       " is not a whole number");
    return static_cast<int>(v);
  };
  PixelStep step;
  if (name == "colour-jitter" || name == "color-jitter") {
    ColourJitter j;
    numbers({&j.brightness, &j.contrast, &j.saturation, &j.hue});
    step = j;
  } else if (name == "rand-augment") {
    double ops = 2, magnitude = 9;
    numbers({&ops, &magnitude});
    step = RandAugment{whole(ops), whole(magnitude), filter};
  } else if (name == "trivial-augment-wide") {
    numbers({});
    step = TrivialAugmentWide{filter};
  } else if (name == "random-erasing") {
    RandomErasing e;
    numbers({&e.probability, &e.min_area, &e.max_area});
    step = e;
  } else {
    fail<ConfigError>("augmentation \"", text,
                      "\" is unknown; use colour-jitter:B:C:S:H, rand-augment:OPS:MAGNITUDE, "
                      "trivial-augment-wide, random-erasing:P");
  }
  check_step(step);
  return step;
}

}  // namespace gossamer::data
