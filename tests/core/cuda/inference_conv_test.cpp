// Convolutions in inference as a GPU computes them, on a CPU: one rounding behind bias, sum and
// ReLU, with a bias of the type of the rest; the stem on pairs of pixels.
#include <cmath>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/core/backend.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/random.h"

namespace gossamer {
namespace {

ConvGeometry geometry(i64 n, i64 side, i64 c, i64 k, i64 window, int stride, int padding,
                      int groups = 1) {
  const i64 out = (side + 2 * padding - window) / stride + 1;
  return {n, side, side, c, k, window, window, out, out, stride, padding, 1, groups};
}

Tensor drawn(Shape shape, DType type, std::uint64_t seed) {
  Rng rng(seed);
  Tensor t = Tensor::empty(shape);
  for (float& v : t.span<float>()) v = rng.uniform(-1, 1);
  return t.to(type);
}

TEST(InferenceConvOnAGpu, RoundsOnceBehindBiasSumAndRelu) {
  Backend &gpu = backend("cuda_emulated"), &reference = backend("reference");
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const ConvGeometry& g : {geometry(2, 16, 3, 16, 7, 2, 3), geometry(2, 8, 16, 24, 3, 1, 1),
                                  geometry(3, 9, 8, 16, 3, 2, 1), geometry(2, 7, 32, 8, 1, 1, 0),
                                  geometry(1, 8, 16, 16, 3, 1, 1, 4)}) {
      const Tensor x = drawn({g.n, g.h, g.w, g.c}, type, 1),
                   w = drawn({g.k, g.r, g.s, g.c / g.groups}, type, 2),
                   bias = drawn({g.k}, DType::f32, 3),
                   added = drawn({g.n, g.ho, g.wo, g.k}, type, 4);
      const auto packed = gpu.pack_conv(w), exact = reference.pack_conv(w.to(DType::f32));
      const Tensor rounded = bias.to(type).to(DType::f32);
      for (const bool add : {false, true})
        for (const bool relu : {false, true}) {
          Tensor got = add ? added.clone() : Tensor::full(added.shape(), NAN, type),
                 want = added.to(DType::f32).clone();
          gpu.conv_inference(g, x, *packed, {bias, add, relu}, got);
          reference.conv_inference(g, x.to(DType::f32), *exact, {rounded, add, relu}, want);
          const Tensor wide = got.to(DType::f32);
          // half a step of the type's digits, and what f32 sums are off
          const float digits = type == DType::f32 ? 0 : type == DType::bf16 ? 0x1p-8f : 0x1p-11f;
          for (i64 i = 0; i < want.numel(); ++i) {
            const float v = want.as<float>()[i];
            ASSERT_NEAR(wide.as<float>()[i], v, std::abs(v) * digits * 1.01f + 2e-5f)
                << name_of(type) << ' ' << g.r << 'x' << g.s << " add " << add << " relu " << relu;
          }
        }
    }
}

// What is packed is made by the first call that needs it.
TEST(InferenceConvOnAGpu, OnePackedWeightServesSeveralThreads) {
  Backend& gpu = backend("cuda_emulated");
  const ConvGeometry g = geometry(1, 16, 3, 8, 7, 2, 3);
  const Tensor w = drawn({8, 7, 7, 3}, DType::bf16, 1), bias = drawn({8}, DType::f32, 2),
               x = drawn({1, 16, 16, 3}, DType::bf16, 3);
  const auto shared = gpu.pack_conv(w);
  std::vector<Tensor> results(4);
  std::vector<std::thread> threads;
  for (Tensor& y : results)
    threads.emplace_back([&] {
      y = Tensor::empty({1, g.ho, g.wo, 8}, DType::bf16);
      gpu.conv_inference(g, x, *shared, {bias, false, true}, y);
    });
  for (std::thread& t : threads) t.join();
  for (const Tensor& y : results)
    for (i64 i = 0; i < y.numel(); ++i)
      ASSERT_EQ(static_cast<float>(y.as<bf16>()[i]), static_cast<float>(results[0].as<bf16>()[i]));
}

}  // namespace
}  // namespace gossamer
