// Filters times the factors of a batch norm: rounded once, on every backend's device code.
#include "gossamer/core/ops/scale_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "support/error_of.h"

namespace gossamer {
namespace {

TEST(ScaleRows, RoundsTheProductInF32Once) {
  Rng rng(1);
  Tensor x = Tensor::empty({5, 3, 3, 7}), factors = Tensor::empty({5});
  for (float& v : x.span<float>()) v = rng.normal();
  for (float& v : factors.span<float>()) v = rng.normal();
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor from = x.to(type), wide = from.to(DType::f32), got = scale_rows(from, factors);
    ASSERT_EQ(got.dtype(), type);
    ASSERT_EQ(got.shape(), x.shape());
    Tensor want = Tensor::empty(x.shape());
    for (i64 i = 0; i < x.numel(); ++i)
      want.as<float>()[i] = wide.as<float>()[i] * factors.as<float>()[i / 63];
    want = want.to(type).to(DType::f32);
    EXPECT_THAT(got.to(DType::f32).span<float>(), testing::ElementsAreArray(want.span<float>()));
  }
  EXPECT_EQ(scale_rows(Tensor::empty({0, 4}), Tensor::empty({0})).numel(), 0);
  EXPECT_THAT(error_of<ShapeError>([&] { scale_rows(x, Tensor::zeros({4})); }),
              testing::HasSubstr("x is [5, 3, 3, 7], factors are [4]"));
}

}  // namespace
}  // namespace gossamer
