// The C++ twin of formula.py: weights and images that both sides compute alike, so golden tests
// need no stored weights.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "gossamer/nn/module.h"

namespace gossamer::golden {

inline std::uint64_t fnv1a(const std::string& name) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (const char ch : name) h = (h ^ static_cast<unsigned char>(ch)) * 0x100000001b3ull;
  return h;
}

inline std::uint64_t word(std::uint64_t hash, i64 i) {  // splitmix64
  std::uint64_t z = hash + static_cast<std::uint64_t>(i + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
inline float unit(std::uint64_t hash, i64 i) {
  return static_cast<float>(word(hash, i) >> 40) * 0x1p-24f;
}
inline float symmetric(std::uint64_t hash, i64 i, double bound) {
  return (2 * unit(hash, i) - 1) * static_cast<float>(bound);
}

// Position in torch's layout (OIHW) of element i of a tensor of this shape in ours (OHWI).
inline i64 torch_index(const Shape& shape, i64 i) {
  if (shape.rank() != 4) return i;
  const i64 in = shape[3], area = shape[1] * shape[2];
  const i64 o = i / (area * in), p = i / in % area, c = i % in;
  return (o * in + c) * area + p;
}

// Gives every parameter and buffer its value by formula.
inline void fill(nn::Module& module) {
  for (NamedTensor& t : module.state()) {
    const std::uint64_t hash = fnv1a(t.name);
    if (t.name.ends_with("num_batches_tracked")) {
      *t.tensor.as<i64>() = 0;
      continue;
    }
    const Shape& shape = t.tensor.shape();
    const bool around_one =
        t.name.ends_with("running_var") || (t.name.ends_with("weight") && shape.rank() == 1);
    const double fan_in =
        static_cast<double>(shape.numel()) / static_cast<double>(shape.rank() ? shape[0] : 1);
    const double bound =
        shape.rank() == 1 ? 0.1 : std::sqrt((shape.rank() == 4 ? 6.0 : 1.0) / fan_in);
    float* to = t.tensor.as<float>();
    for (i64 i = 0; i < shape.numel(); ++i)
      to[i] = around_one ? 0.5f + unit(hash, i) : symmetric(hash, torch_index(shape, i), bound);
  }
}

// The script draws images as [N, 3, S, S]; here they are [N, S, S, 3].
inline Tensor images(i64 batch, i64 size) {
  Tensor x = Tensor::empty({batch, size, size, 3});
  const std::uint64_t hash = fnv1a("images");
  float* to = x.as<float>();
  for (i64 n = 0; n < batch; ++n)
    for (i64 p = 0; p < size * size; ++p)
      for (i64 c = 0; c < 3; ++c)
        to[(n * size * size + p) * 3 + c] =
            symmetric(hash, (n * 3 + c) * size * size + p, std::sqrt(3.0));
  return x;
}

inline Tensor labels(i64 batch, i64 classes) {
  Tensor y = Tensor::empty({batch}, DType::i32);
  for (i64 n = 0; n < batch; ++n)
    y.as<std::int32_t>()[n] =
        static_cast<std::int32_t>(word(fnv1a("labels"), n) % static_cast<std::uint64_t>(classes));
  return y;
}

}  // namespace gossamer::golden
