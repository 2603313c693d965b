// Every op of op_cases.h, as a CPU computes it and in a GPU's form: gradient against finite
// differences, shapes and types of gradients, no node left behind, 16 bits against f32.
#include <algorithm>

#include <gtest/gtest.h>

#include "core/ops/op_cases.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/parallel.h"

namespace gossamer::testing {
namespace {

// What the checks differentiate: sum of weight * y, with the sum in double so that only the op
// itself rounds.
Tensor weights_for(const Tensor& y, std::uint64_t seed) {
  Tensor w = Tensor::empty(y.shape());
  Rng rng(seed, 99);
  for (float& v : w.span<float>()) v = rng.uniform(0.5f, 1.5f) * (rng.below(2) ? 1.0f : -1.0f);
  return w;
}

double weighted(const OpCase& c, const std::vector<Tensor>& inputs, const Tensor& weights) {
  const NoGrad off;
  const Tensor y = c.run(inputs).to(DType::f32);
  double total = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(y.numel()); ++i)
    total +=
        static_cast<double>(y.span<float>()[i]) * static_cast<double>(weights.span<float>()[i]);
  return total;
}

struct Result {
  Tensor y;
  std::vector<Tensor> grads;
};

Result forward_and_back(const OpCase& c, const std::vector<Tensor>& inputs, std::uint64_t seed) {
  Result result;
  std::vector<Tensor> leaves;
  for (const Tensor& x : inputs) leaves.push_back(x.clone().requires_grad());
  Tensor y = c.run(leaves);
  result.y = y.detach();
  if (c.gradient) {
    sum(mul(cast(y, DType::f32), weights_for(y, seed))).backward();
    for (Tensor& x : leaves) result.grads.push_back(x.grad());
  }
  return result;
}

float largest(const Tensor& x) {
  float top = 0;
  const Tensor values = x.to(DType::f32);
  for (const float v : values.span<float>()) top = std::max(top, std::fabs(v));
  return top;
}

// One thread: thousands of tiny calls would spend their time at barriers.
struct OneThread {
  int before = compute_threads();
  OneThread() { set_compute_threads(1); }
  ~OneThread() { set_compute_threads(before); }
};

// The CPU's default backend and the GPU's form of each op.
struct OpGradients : ::testing::TestWithParam<std::string> {
  UseBackend use{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Forms, OpGradients,
                         ::testing::Values(backend_names().front(), "cuda_emulated"),
                         [](const auto& form) { return form.param; });

TEST_P(OpGradients, AgreeWithFiniteDifferencesForEveryOpAndInput) {
  const OneThread quick;
  for (const OpCase& c : op_cases()) {
    if (!c.gradient) continue;
    SCOPED_TRACE(label_of(c));
    const std::vector<Tensor> inputs = draw_inputs(c, 17);
    const Result result = forward_and_back(c, inputs, 3);
    const Tensor weights = weights_for(result.y, 3);
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      ASSERT_TRUE(result.grads[k].defined()) << "input " << k;
      const auto grad = result.grads[k].span<float>();
      const double scale = std::max(0.1, static_cast<double>(largest(result.grads[k])));
      // Four points, error h^4; the values move by eps, and a sum of n of them by eps sqrt(n): the
      // quotient by that / h.
      const float h = 0.02f;
      const double tolerance = 1e-3 * scale + 2e-6 *
                                                  std::sqrt(static_cast<double>(result.y.numel())) /
                                                  static_cast<double>(h);
      const i64 n = inputs[k].numel(), stride = std::max<i64>(1, n / 40);
      for (i64 i = k % 2; i < n; i += stride) {
        float& x = inputs[k].span<float>()[static_cast<std::size_t>(i)];
        const float before = x;
        const auto at = [&](float value) {
          x = value;
          const double f = weighted(c, inputs, weights);
          x = before;
          return f;
        };
        const double numeric =
            (8 * (at(before + h) - at(before - h)) - (at(before + 2 * h) - at(before - 2 * h))) /
            (12 * static_cast<double>(h));
        ASSERT_NEAR(static_cast<double>(grad[static_cast<std::size_t>(i)]), numeric, tolerance)
            << "input " << k << ", element " << i;
      }
    }
  }
  EXPECT_EQ(Node::live(), 0);
}

TEST_P(OpGradients, HaveTheShapeAndTypeOfTheirInput) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const OpCase& c : op_cases()) {
      if (!c.gradient) continue;
      SCOPED_TRACE(label_of(c));
      std::vector<Tensor> inputs = draw_inputs(c, 4);
      for (std::size_t k = 0; k < inputs.size(); ++k)
        if (k >= c.keep_f32.size() || !c.keep_f32[k]) inputs[k] = inputs[k].to(type);
      const Result result = forward_and_back(c, inputs, 3);
      for (std::size_t k = 0; k < inputs.size(); ++k) {
        EXPECT_EQ(result.grads[k].shape(), inputs[k].shape()) << "input " << k;
        EXPECT_EQ(result.grads[k].dtype(), inputs[k].dtype()) << "input " << k;
      }
      EXPECT_EQ(Node::live(), 0);
    }
}

// Only the inputs that want a gradient get one, and asking for one of them does not change it.
TEST_P(OpGradients, ComeOneByOneAsTheyComeTogether) {
  for (const OpCase& c : op_cases()) {
    if (!c.gradient || c.inputs.size() < 2) continue;
    SCOPED_TRACE(label_of(c));
    const std::vector<Tensor> inputs = draw_inputs(c, 8);
    const Result together = forward_and_back(c, inputs, 5);
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      std::vector<Tensor> some;
      for (const Tensor& x : inputs) some.push_back(x.clone());
      some[k].requires_grad();
      const Tensor y = c.run(some);
      sum(mul(y, weights_for(y, 5))).backward();
      for (std::size_t j = 0; j < inputs.size(); ++j) EXPECT_EQ(some[j].grad().defined(), j == k);
      const auto alone = some[k].grad().span<float>(), both = together.grads[k].span<float>();
      EXPECT_TRUE(std::ranges::equal(alone, both)) << "input " << k;
    }
  }
}

TEST_P(OpGradients, StayWithinTheRoundingOf16Bits) {
  for (const DType type : {DType::bf16, DType::f16}) {
    const float eps = type == DType::bf16 ? 0x1p-7f : 0x1p-10f;
    for (const OpCase& c : op_cases()) {
      SCOPED_TRACE(label_of(c));
      std::vector<Tensor> exact = draw_inputs(c, 23), half;
      for (std::size_t k = 0; k < exact.size(); ++k) {
        const bool stays = k < c.keep_f32.size() && c.keep_f32[k];
        half.push_back(stays ? exact[k] : exact[k].to(type));
        exact[k] = half[k].to(DType::f32);  // both sides start from the same numbers
      }
      const Result want = forward_and_back(c, exact, 3), got = forward_and_back(c, half, 3);
      // One rounding is eps/4 at least, eps/2 at most of the value; a gradient passes a few of them
      // (g is rounded, then the result, saved values too).
      const auto compare = [&](const Tensor& a, const Tensor& b, const char* what) {
        const Tensor wide = b.to(DType::f32);
        const float tolerance = (2.0f + std::sqrt(static_cast<float>(c.terms)) * 0.25f) * eps *
                                std::max(largest(a), 0.05f);
        for (std::size_t i = 0; i < static_cast<std::size_t>(a.numel()); ++i)
          ASSERT_NEAR(a.span<float>()[i], wide.span<float>()[i], tolerance)
              << what << ", element " << i;
      };
      compare(want.y, got.y, "value");
      for (std::size_t k = 0; k < want.grads.size(); ++k)
        compare(want.grads[k], got.grads[k], "gradient");
    }
  }
}

}  // namespace
}  // namespace gossamer::testing
