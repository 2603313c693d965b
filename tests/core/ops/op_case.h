// One row of the list of ops (op_cases.h), and how its inputs are drawn.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "support/stream_of.h"

namespace gossamer::testing {

// How the inputs are drawn.
enum class Draw {
  normal,    // mean 0, deviation 1
  positive,  // uniform in [0.5, 2]
  apart,     // at least 0.3 away from zero, either sign: for kinks at zero
  distinct,  // a shuffled ladder with steps of 0.5: no two are close, for max pooling
  bimodal,   // near +1 or -1: normalised values then stay away from zero, for batch norm + ReLU
};

struct OpCase {
  std::string op;             // the function in core/ops.h or core/ops/rearrange.h
  std::string what;           // what is special about this row
  std::vector<Shape> inputs;  // floating inputs, in the order of `run`
  std::function<Tensor(const std::vector<Tensor>&)> run;
  std::vector<Draw> draw = {};  // one per input; missing: normal
  // inputs that stay f32 when the rest has 16 bits (scales, running statistics)
  std::vector<bool> keep_f32 = {};
  // longest sum behind one output or gradient: rounding grows with its root
  int terms = 1;
  bool gradient = true;
  // calls the backend or has a GPU form: each is compared with the reference
  bool backend = false;
  // elementwise ops: an element of the result from one of each input, in double
  std::function<double(double, double)> formula = {};
};

inline std::string label_of(const OpCase& c) {
  std::string text = c.op;
  if (!c.what.empty()) text.append(" (").append(c.what).append(")");
  for (const Shape& s : c.inputs) text.append(" ").append(s.str());
  return text;
}

inline std::vector<Tensor> draw_inputs(const OpCase& c, std::uint64_t seed) {
  std::vector<Tensor> inputs;
  for (std::size_t k = 0; k < c.inputs.size(); ++k) {
    Tensor x = Tensor::empty(c.inputs[k]);
    Rng rng(seed, k);
    const Draw how = k < c.draw.size() ? c.draw[k] : Draw::normal;
    auto values = x.span<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float sign = rng.below(2) ? 1.0f : -1.0f;
      switch (how) {
        case Draw::normal:
          values[i] = rng.normal();
          break;
        case Draw::positive:
          values[i] = rng.uniform(0.5f, 2.0f);
          break;
        case Draw::apart:
          values[i] = sign * rng.uniform(0.3f, 1.5f);
          break;
        case Draw::distinct:
          values[i] = 0.5f * (static_cast<float>(i) - static_cast<float>(values.size()) / 2);
          break;
        case Draw::bimodal:
          values[i] = (i / 7 % 2 ? 1.0f : -1.0f) * rng.uniform(0.8f, 1.2f);
          break;
      }
    }
    if (how == Draw::distinct || how == Draw::bimodal)
      for (std::size_t i = values.size(); i > 1; --i)
        std::swap(values[i - 1], values[rng.below(static_cast<std::uint32_t>(i))]);
    inputs.push_back(x);
  }
  return inputs;
}

inline Tensor labels_of(i64 rows, i64 classes) {
  std::vector<std::int32_t> labels;
  for (i64 r = 0; r < rows; ++r) labels.push_back(static_cast<std::int32_t>((7 * r + 3) % classes));
  return Tensor::from(labels, {rows});
}

inline Tensor some_images(i64 n, i64 h, i64 w) {
  Tensor images = Tensor::empty({n, h, w, 3}, DType::u8);
  std::uint8_t next = 0;
  for (std::uint8_t& v : images.span<std::uint8_t>())
    v = next = static_cast<std::uint8_t>(next * 13 + 41);
  return images;
}

}  // namespace gossamer::testing
