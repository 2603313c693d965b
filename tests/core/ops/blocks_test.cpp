// What ops compute on a GPU in blocks of threads, run on the CPU through the same blocks and
// threads, against their way on a CPU.
#include <gtest/gtest.h>

#include "core/kernel_helpers.h"
#include "gossamer/core/ops/activation.h"
#include "gossamer/core/ops/find_next.h"
#include "gossamer/core/ops/op_helpers.h"
#include "gossamer/core/ops/sum_columns.h"

namespace gossamer {
namespace {

using namespace testing;

// Whole groups of eight and odd ends, one strip of columns and more, one part of the rows and more.
const Shape kShapes[] = {{3, 8},     {1, 5},     {70, 37}, {500, 300},
                         {2000, 24}, {33, 2304}, {0, 16},  {8, 120000}};

TEST(SumColumns, InBlocksIsTheSameSum) {
  for (const Shape& shape : kShapes)
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      SCOPED_TRACE(shape.str() + " " + name_of(type));
      const i64 rows = shape[0], cols = shape[1];
      const Tensor x = normal(shape, 1, type), want = Tensor::empty({cols}),
                   got = Tensor::empty({cols});
      with_floating(type, "test", [&]<class T>() {
        const detail::Read<T> read{x.as<T>(), cols};
        sum_columns({}, rows, cols, read, want.as<float>());
        detail::sum_columns_in_blocks({}, rows, cols, read, got.as<float>());
      });
      expect_close(got, want, 1e-5, 1e-5 * static_cast<double>(rows), "sum");
    }
}

TEST(SumColumns, InBlocksReadsWhatDoesNotBeginOn16Bytes) {
  const Tensor all = normal({1 + 40 * 24}, 1);
  const detail::Read<float> read{all.as<float>() + 1, 24};
  ASSERT_FALSE(read.in_eights());
  const Tensor want = Tensor::empty({24}), got = Tensor::empty({24});
  sum_columns({}, 40, 24, read, want.as<float>());
  detail::sum_columns_in_blocks({}, 40, 24, read, got.as<float>());
  expect_close(got, want, 1e-5, 1e-4, "sum");
}

TEST(SumColumns, OfAnActivationsSlopeInBlocksIsTheSame) {
  for (const Shape& shape : kShapes)
    for (const DType type : {DType::f32, DType::bf16, DType::f16})
      for (const Activation activation :
           {Activation::relu, Activation::gelu, Activation::gelu_tanh}) {
        SCOPED_TRACE(shape.str() + " " + name_of(type));
        const i64 rows = shape[0], cols = shape[1];
        const Tensor g = normal(shape, 1, type), at = normal(shape, 2, type),
                     want = Tensor::empty({cols}), got = Tensor::empty({cols}),
                     want_dz = Tensor::empty(shape, type), got_dz = Tensor::empty(shape, type);
        with_floating(type, "test", [&]<class T>() {
          with_activation(activation, [&]<class Op>() {
            if constexpr (std::is_same_v<Op, Identity>) return;
            const auto back = [&](const Tensor& dz) {
              return ActivationBack<Op, T>{g.as<T>(), at.as<T>(), dz.as<T>(), cols};
            };
            sum_columns({}, rows, cols, back(want_dz), want.as<float>());
            detail::sum_columns_in_blocks({}, rows, cols, back(got_dz), got.as<float>());
          });
        });
        expect_close(got_dz, want_dz, rounding(type), 1e-6, "dz");
        expect_close(got, want, 1e-5, 1e-5 * static_cast<double>(rows), "sum");
      }
}

TEST(FindNext, InBlocksFindsTheSame) {
  for (const i64 n : {1, 2, 300, 5000})
    for (const std::uint32_t kinds : {1u, 7u, 4000u, 1000000u}) {
      SCOPED_TRACE(std::to_string(n) + " ids of " + std::to_string(kinds));
      Rng rng(3);
      std::vector<std::int32_t> ids(static_cast<std::size_t>(n)), want(ids.size()),
          got(ids.size(), 7);
      for (auto& id : ids) id = static_cast<std::int32_t>(rng.below(kinds));
      find_next({}, ids.data(), n, want.data());
      for_each_block({}, n, detail::FindNextInBlocks{ids.data(), n, got.data()});
      EXPECT_EQ(got, want);
    }
}

}  // namespace
}  // namespace gossamer
