// group_norm and evonorm_s0 on every backend: against PyTorch (golden/group_norm.safetensors, by
// golden/group_norm.py), against numbers in double, and what is refused.
#include "gossamer/core/ops/group_norm.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/ops/golden_cases.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/random.h"
#include "support/error_of.h"
#include "support/use_backend.h"

namespace gossamer {
namespace {

const GoldenCases& golden() {
  static const GoldenCases cases({"group_norm.safetensors"}, 1e-6f, 1e-6f, backend_names());
  return cases;
}

TEST(GroupNorm, MatchesPyTorch) {
  for (const i64 groups : {1, 2, 3, 5})
    golden().check(
        "group_norm_" + std::to_string(groups), {"x", "scale", "shift"},
        [=](const auto& in) { return group_norm(in[0], in[1], in[2], {.groups = groups}); });
}

TEST(EvoNorm, MatchesItsEquationInPyTorch) {
  for (const i64 groups : {1, 2, 3, 5})
    golden().check(
        "evonorm_s0_" + std::to_string(groups), {"x", "v", "scale", "shift"},
        [=](const auto& in) { return evonorm_s0(in[0], in[1], in[2], in[3], {.groups = groups}); });
}

void expect_numbers(const Tensor& got, const std::vector<double>& want) {
  ASSERT_EQ(got.numel(), static_cast<i64>(want.size()));
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(static_cast<double>(got.span<float>()[i]), want[i], 1e-6) << i;
}

// One sample of four pixels and two channels, computed in double elsewhere.
TEST(GroupNorm, AndEvoNormGiveTheNumbersOfAnotherProgram) {
  const std::vector<float> numbers{1, 4, -2, 1, 3, -1, 0, 2}, up{1, -1, 2, 0, 3, 1, 4, 2};
  const Tensor g = Tensor::from(up, {1, 4, 2});
  const auto one = [] { return Tensor::full({2}, 1); };
  for (const std::string& form : backend_names()) {
    SCOPED_TRACE(form);
    const UseBackend use(form);
    Tensor x = Tensor::from(numbers, {1, 4, 2}).requires_grad();
    const Tensor y = group_norm(x, one(), Tensor::zeros({2}));
    expect_numbers(y.detach(), {0, 1.60356516067, -1.60356516067, 0, 1.06904344045, -1.06904344045,
                                -.534521720223, .534521720223});
    sum(mul(y, g)).backward();
    expect_numbers(x.grad(), {-.267260860111, -.935414155791, -.133629284655, -.801782580334,
                              1.06904267685, -.534520956623, 1.20267425230, .400890908367});
    x = Tensor::from(numbers, {1, 4, 2}).requires_grad();
    const Tensor v = one().requires_grad();
    const Tensor z = evonorm_s0(x, v, one(), Tensor::zeros({2}));
    expect_numbers(z.detach(), {.390766689033, 2.09963080133, -.127433101870, .390766689033,
                                1.52751468273, -.143755031190, 0, .941610338576});
    sum(mul(z, g)).backward();
    expect_numbers(x.grad(), {.495860037806, -1.02962927140, .369904864974, 0, 1.43354105516,
                              .349966462840, 1.22469583066, 1.01044335589});
    // both channels have one v there, so its gradient is their sum
    EXPECT_NEAR(v.grad().span<float>()[0] + v.grad().span<float>()[1], 1.60906418450, 1e-6);
  }
}

TEST(GroupNorm, ASampleDoesNotDependOnTheOthers) {
  Rng rng(5);
  Tensor x = Tensor::empty({3, 4, 4, 16});
  for (float& v : x.span<float>()) v = 100 + rng.normal();
  const Tensor one = Tensor::full({16}, 1), zero = Tensor::zeros({16});
  const Tensor all = group_norm(x, one, zero, {.groups = 4}),
               second = group_norm(x.slice(1, 2), one, zero, {.groups = 4});
  for (std::size_t i = 0; i < 256; ++i)
    ASSERT_EQ(all.span<float>()[256 + i], second.span<float>()[i]);
}

TEST(GroupNorm, NoResultDependsOnTheNumberOfThreads) {
  const auto run = [](int threads) {
    const int before = compute_threads();
    set_compute_threads(threads);
    Rng rng(6);
    Tensor x = Tensor::empty({5, 19, 17, 24});
    for (float& v : x.span<float>()) v = rng.normal();
    x.requires_grad();
    const Tensor v = Tensor::full({24}, 0.7f).requires_grad(),
                 scale = Tensor::full({24}, 1.3f).requires_grad(),
                 shift = Tensor::zeros({24}).requires_grad();
    const Tensor y = evonorm_s0(x, v, scale, shift, {.groups = 8});
    sum(square(y)).backward();
    set_compute_threads(before);
    return std::vector<Tensor>{y.detach(), x.grad(), v.grad(), scale.grad(), shift.grad()};
  };
  const auto one = run(1), three = run(3);
  for (std::size_t k = 0; k < one.size(); ++k)
    EXPECT_TRUE(std::ranges::equal(one[k].span<float>(), three[k].span<float>())) << k;
}

TEST(GroupNorm, AndEvoNormRefuseWhatDoesNotFit) {
  const Tensor x = Tensor::zeros({2, 3, 6}), six = Tensor::zeros({6}), five = Tensor::zeros({5});
  using testing::HasSubstr;
  EXPECT_THAT(error_of<ShapeError>([&] { group_norm(x, six, six, {.groups = 4}); }),
              HasSubstr("group_norm: 4 groups of 6 channels"));
  EXPECT_THAT(error_of<ShapeError>([&] { group_norm(x, six, six, {.groups = 0}); }),
              HasSubstr("0 groups"));
  EXPECT_THAT(error_of<ShapeError>([&] { group_norm(x, five, six); }), HasSubstr("scale is [5]"));
  EXPECT_THAT(error_of<ShapeError>([&] { group_norm(x, six, {}); }), HasSubstr("shift is"));
  EXPECT_THAT(error_of<ShapeError>([&] { group_norm(six, six, six); }),
              HasSubstr("two dimensions"));
  EXPECT_THAT(error_of<ShapeError>([&] { group_norm(x, six, six, {.eps = 0}); }),
              HasSubstr("eps is 0"));
  EXPECT_THAT(error_of<ShapeError>([&] { evonorm_s0(x, five, six, six); }),
              HasSubstr("evonorm_s0: v is [5], input [2, 3, 6] wants f32 [6]"));
  EXPECT_THAT(error_of<ShapeError>([&] { evonorm_s0(x.to(DType::i32), six, six, six); }),
              HasSubstr("i32"));
}

}  // namespace
}  // namespace gossamer
