// Batch norm's fused passes against the reference backend and finite differences: on a CPU, through
// the same blocks and threads as on a GPU.
#include "core/kernel_helpers.h"
#include "gossamer/core/backend.h"
#include "gossamer/core/ops/eight.h"

namespace gossamer {
namespace {

using namespace testing;
using fused::NormBack;
using fused::NormFactors;
using fused::NormGradient;
using fused::Sweep;

// Whole groups of eight, odd numbers of channels, one row of threads, more strips than one, more
// rows than blocks.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{{2, 5, 7, 64}, {3, 4, 4, 24},   {2, 3, 3, 3}, {5, 1000},
                                      {130, 260},    {2, 2, 2, 2056}, {40000, 8},   {2, 1}};
  return all;
}
const DType kTypes[] = {DType::f32, DType::bf16, DType::f16};

struct Norm {
  Tensor x, gamma, beta;
  NormFactors factors;
  i64 cols;
  Norm(const Shape& shape, DType type, std::uint64_t seed = 1, float mean = 0.5f,
       float deviation = 2)
      : x(normal(shape, seed, type, mean, deviation)),
        gamma(normal({shape[-1]}, seed + 1, DType::f32, 1, 0.5f)),
        beta(normal({shape[-1]}, seed + 2)),
        factors(NormFactors::empty(shape[-1], {})),
        cols(shape[-1]) {
    fused::norm_statistics(x, gamma, beta, kEps, {}, factors);
  }
  static constexpr float kEps = 1e-5f;
};

std::string label(const Shape& shape, DType type) { return shape.str() + " " + name_of(type); }

TEST(FusedNorm, StatisticsAndOutputAreThoseOfTheReference) {
  for (const Shape& shape : shapes())
    for (const DType type : kTypes)
      for (const bool relu : {false, true})
        for (const bool with_add : {false, true}) {
          SCOPED_TRACE(label(shape, type));
          Norm n(shape, type);
          const Tensor add = normal(shape, 9, type);
          Tensor want = Tensor::empty(shape, type), mean = Tensor::empty({n.cols}),
                 inv_std = Tensor::empty({n.cols});
          backend("reference")
              .batch_norm_train(n.x, with_add ? &add : nullptr, n.gamma, n.beta, Norm::kEps, relu,
                                want, mean, inv_std);
          expect_close(n.factors.mean, mean, 1e-5, 1e-5, "mean");
          expect_close(n.factors.inv_std, inv_std, 1e-5, 0, "inv_std");
          Tensor got = Tensor::empty(shape, type);
          fused::norm_apply(n.x, n.factors, {.add = with_add ? &add : nullptr, .relu = relu}, got);
          expect_close(got, want, rounding(type),
                       1e-5 * static_cast<double>(n.factors.inv_std.span<float>()[0]) + 2e-5, "y");
        }
}

TEST(FusedNorm, BothDirectionsGiveTheSameUpToTheOrderOfSums) {
  for (const Shape& shape : shapes()) {
    Norm n(shape, DType::bf16);
    NormFactors up = NormFactors::empty(n.cols, {});
    fused::norm_statistics(n.x, n.gamma, n.beta, Norm::kEps, {}, up, Sweep::up);
    expect_close(up.mean, n.factors.mean, 1e-5, 1e-5, "mean");
    expect_close(up.inv_std, n.factors.inv_std, 1e-5, 0, "inv_std");
    Tensor a = Tensor::empty(shape, DType::bf16), b = Tensor::empty(shape, DType::bf16);
    fused::norm_apply(n.x, up, {}, a, Sweep::up);
    fused::norm_apply(n.x, up, {}, b, Sweep::down);
    expect_same_bits(a, b, shape.str());
  }
}

TEST(FusedNorm, AMeanFarFromZeroLosesNoDigits) {
  // Plain sums of squares in f32 would leave nothing of a deviation of 1 beside a mean of 3000.
  Norm n({64, 9, 9, 16}, DType::f32, 5, 3000, 1);
  Tensor y = Tensor::empty(n.x.shape()), mean = Tensor::empty({16}), inv_std = Tensor::empty({16});
  backend("reference")
      .batch_norm_train(n.x, nullptr, n.gamma, n.beta, Norm::kEps, false, y, mean, inv_std);
  expect_close(n.factors.inv_std, inv_std, 1e-4, 0, "inv_std");
  expect_close(n.factors.mean, mean, 1e-6, 0, "mean");
}

TEST(FusedNorm, RunningStatisticsMoveAsTheyShould) {
  Norm n({7, 5, 5, 12}, DType::f32);
  const i64 rows = 7 * 5 * 5;
  fused::NormRunning running{Tensor::full({12}, 2), Tensor::full({12}, 3), 0.25f};
  fused::norm_statistics(n.x, n.gamma, n.beta, Norm::kEps, running, n.factors);
  for (std::size_t c = 0; c < 12; ++c) {
    double sum = 0, square = 0;
    for (i64 r = 0; r < rows; ++r)
      sum += static_cast<double>(n.x.span<float>()[static_cast<std::size_t>(r) * 12 + c]);
    for (i64 r = 0; r < rows; ++r)
      square += std::pow(
          static_cast<double>(n.x.span<float>()[static_cast<std::size_t>(r) * 12 + c]) - sum / rows,
          2);
    EXPECT_NEAR(running.mean.span<float>()[c], 2 + 0.25 * (sum / rows - 2), 1e-5);
    EXPECT_NEAR(running.var.span<float>()[c], 3 + 0.25 * (square / (rows - 1) - 3), 1e-4);
  }
}

TEST(FusedNorm, JoinsASecondNormalisedBranch) {
  for (const DType type : kTypes)
    for (const i64 channels : {16, 13}) {
      const Shape shape{3, 4, 5, channels};
      Norm one(shape, type, 1), two(shape, type, 20);
      Tensor got = Tensor::empty(shape, type);
      fused::norm_apply(one.x, one.factors,
                        {.second = &two.x, .second_factors = &two.factors, .relu = true}, got);
      Tensor a = Tensor::empty(shape), b = Tensor::empty(shape), want = Tensor::empty(shape);
      fused::norm_apply(as_f32(one.x), one.factors, {}, a);
      fused::norm_apply(as_f32(two.x), two.factors, {}, b);
      for (std::size_t i = 0; i < static_cast<std::size_t>(want.numel()); ++i)
        want.span<float>()[i] = std::max(a.span<float>()[i] + b.span<float>()[i], 0.0f);
      expect_close(got, want, rounding(type), 1e-5, label(shape, type));
    }
}

TEST(FusedNorm, TheMaskHasOneBitForEveryPositiveOutput) {
  for (const i64 channels : {24, 11}) {
    const Shape shape{2, 3, 3, channels};
    Norm n(shape, DType::f32);
    const Tensor add = normal(shape, 4);
    Tensor y = Tensor::empty(shape), mask = Tensor::empty({fused::norm_mask_bytes(y)}, DType::u8);
    fused::norm_apply(n.x, n.factors, {.add = &add, .relu = true, .mask = &mask}, y);
    for (i64 i = 0; i < y.numel(); ++i) {
      const i64 r = i / channels, c = i % channels;
      const bool bit =
          mask.span<std::uint8_t>()[static_cast<std::size_t>(r * ((channels + 7) / 8) + c / 8)] >>
              c % 8 &
          1;
      ASSERT_EQ(bit, y.span<float>()[static_cast<std::size_t>(i)] > 0) << i;
    }
  }
}

TEST(FusedNorm, ANanStaysANan) {
  Norm n({4, 8}, DType::f32);
  n.x.span<float>()[3] = std::nanf("");
  Tensor y = Tensor::empty({4, 8});
  fused::norm_apply(n.x, n.factors, {.relu = true}, y);
  EXPECT_TRUE(std::isnan(y.span<float>()[3]));
  EXPECT_FALSE(std::isnan(y.span<float>()[4]));
}

// dx, d_gamma, d_beta and d_add of one call, compared with the reference's for the same gradient.
void expect_back(const Shape& shape, DType type, NormGradient::Relu relu, bool in_place,
                 Sweep sweep) {
  SCOPED_TRACE(label(shape, type) + " relu " + std::to_string(static_cast<int>(relu)));
  using Relu = NormGradient::Relu;
  const bool joined = relu == Relu::bits || relu == Relu::output;
  Norm n(shape, type);
  const Tensor add = normal(shape, 31, type), dy = normal(shape, 32, type);
  Tensor y = Tensor::empty(shape, type),
         mask = Tensor::empty({fused::norm_mask_bytes(y)}, DType::u8);
  fused::norm_apply(n.x, n.factors,
                    {.add = joined ? &add : nullptr, .relu = relu != Relu::none, .mask = &mask}, y);

  const auto vector = [&] { return Tensor::empty({n.cols}); };
  Tensor want_dx = Tensor::empty(shape, type), want_scale = vector(), want_shift = vector(),
         want_add = Tensor::empty(shape, type);
  backend("reference")
      .batch_norm_back(dy, n.x, relu == Relu::none ? nullptr : &y, n.gamma, n.factors.mean,
                       n.factors.inv_std, relu != Relu::none, want_dx, want_scale, want_shift,
                       &want_add);
  Tensor up = dy.clone(), dx = in_place ? up : Tensor::empty(shape, type), scale = vector(),
         shift = vector(), d_add = Tensor::empty(shape, type);
  const NormBack back{n.x, n.factors, n.gamma, dx, scale, shift};
  fused::norm_back({.dy = up,
                    .relu = relu,
                    .mask = relu == Relu::bits     ? mask
                            : relu == Relu::output ? y
                                                   : Tensor()},
                   back, nullptr, &d_add, sweep);
  const double rows = static_cast<double>(dy.numel() / n.cols);
  expect_close(shift, want_shift, 1e-4, 1e-5 * rows, "d_beta");
  expect_close(scale, want_scale, 1e-4, 1e-5 * rows, "d_gamma");
  expect_close(dx, want_dx, rounding(type), 1e-4, "dx");
  expect_same_bits(d_add, want_add, "d_add");
}

TEST(FusedNormBack, IsThatOfTheReferenceUnderEveryMask) {
  using Relu = NormGradient::Relu;
  for (const Shape& shape : shapes()) {
    // two values: the gradient is zero up to rounding
    if (shape == Shape{2, 1}) continue;
    for (const DType type : kTypes)
      for (const Relu relu : {Relu::none, Relu::factors, Relu::bits, Relu::output})
        expect_back(shape, type, relu, relu == Relu::factors,
                    relu == Relu::bits ? Sweep::up : Sweep::down);
  }
}

TEST(FusedNormBack, TheShortcutsGradientMayTakeTheIncomingOnesPlace) {
  Norm n({3, 3, 3, 16}, DType::bf16);
  Tensor dy = normal({3, 3, 3, 16}, 8, DType::bf16), y = Tensor::empty(n.x.shape(), DType::bf16),
         mask = Tensor::empty({54}, DType::u8);
  fused::norm_apply(n.x, n.factors, {.relu = true, .mask = &mask}, y);
  const auto run = [&](Tensor& dx, Tensor& up, Tensor& d_add) {
    Tensor scale = Tensor::empty({16}), shift = Tensor::empty({16});
    fused::norm_back({.dy = up, .relu = NormGradient::Relu::bits, .mask = mask},
                     {n.x, n.factors, n.gamma, dx, scale, shift}, nullptr, &d_add);
  };
  Tensor dx1 = Tensor::empty(dy.shape(), DType::bf16), dx2 = dx1.clone(), apart = dx1.clone(),
         place = dy.clone();
  run(dx1, dy, apart);
  run(dx2, place, place);
  expect_same_bits(dx1, dx2, "dx");
  expect_same_bits(apart, place, "d_add");
  Tensor both = dy.clone();
  EXPECT_THROW(run(both, both, both), ShapeError);
}

TEST(FusedNormBack, TwoBranchesTogetherAreTwoCalls) {
  for (const DType type : kTypes)
    for (const i64 channels : {32, 10}) {
      const Shape shape{4, 3, 3, channels};
      Norm one(shape, type, 1), two(shape, type, 50);
      const Tensor dy = normal(shape, 60, type);
      Tensor y = Tensor::empty(shape, type),
             mask = Tensor::empty({fused::norm_mask_bytes(y)}, DType::u8);
      fused::norm_apply(
          one.x, one.factors,
          {.second = &two.x, .second_factors = &two.factors, .relu = true, .mask = &mask}, y);
      const NormGradient g{.dy = dy, .relu = NormGradient::Relu::bits, .mask = mask};
      const auto tensor = [&] { return Tensor::empty(shape, type); };
      const auto vector = [&] { return Tensor::empty({channels}); };
      Tensor dx[4] = {tensor(), tensor(), tensor(), tensor()},
             scale[4] = {vector(), vector(), vector(), vector()},
             shift[4] = {vector(), vector(), vector(), vector()}, add[2] = {tensor(), tensor()};
      const NormBack a{one.x, one.factors, one.gamma, dx[0], scale[0], shift[0]},
          b{two.x, two.factors, two.gamma, dx[1], scale[1], shift[1]};
      fused::norm_back(g, a, &b, &add[0]);
      fused::norm_back(g, {one.x, one.factors, one.gamma, dx[2], scale[2], shift[2]}, nullptr,
                       &add[1]);
      fused::norm_back(g, {two.x, two.factors, two.gamma, dx[3], scale[3], shift[3]});
      for (const int k : {0, 1}) {
        expect_close(dx[k], dx[2 + k], rounding(type), 1e-6, "dx");
        expect_close(scale[k], scale[2 + k], 1e-5, 1e-5, "d_gamma");
        expect_close(shift[k], shift[2 + k], 1e-5, 1e-5, "d_beta");
      }
      expect_same_bits(add[0], add[1], "d_add");
    }
}

TEST(FusedNormBack, IsTheSlopeOfTheForwardPass) {
  // f = sum of w y, y = relu(norm(x) + norm(x2)), in steps of each input.
  const Shape shape{2, 3, 2, 5};
  Norm one(shape, DType::f32, 1, 0.2f, 1), two(shape, DType::f32, 70, -0.1f, 1);
  const Tensor w = normal(shape, 80);
  const auto loss = [&] {
    Tensor y = Tensor::empty(shape);
    fused::norm_statistics(one.x, one.gamma, one.beta, Norm::kEps, {}, one.factors);
    fused::norm_statistics(two.x, two.gamma, two.beta, Norm::kEps, {}, two.factors);
    fused::norm_apply(one.x, one.factors,
                      {.second = &two.x, .second_factors = &two.factors, .relu = true}, y);
    double sum = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(y.numel()); ++i)
      sum += static_cast<double>(y.span<float>()[i]) * static_cast<double>(w.span<float>()[i]);
    return sum;
  };
  loss();
  Tensor y = Tensor::empty(shape), mask = Tensor::empty({fused::norm_mask_bytes(y)}, DType::u8);
  fused::norm_apply(one.x, one.factors,
                    {.second = &two.x, .second_factors = &two.factors, .relu = true, .mask = &mask},
                    y);
  Tensor dx = Tensor::empty(shape), dx2 = Tensor::empty(shape), scale = Tensor::empty({5}),
         shift = Tensor::empty({5}), scale2 = Tensor::empty({5}), shift2 = Tensor::empty({5});
  const NormBack a{one.x, one.factors, one.gamma, dx, scale, shift},
      b{two.x, two.factors, two.gamma, dx2, scale2, shift2};
  fused::norm_back({.dy = w, .relu = NormGradient::Relu::bits, .mask = mask}, a, &b);
  const float h = 2e-3f;
  const auto expect_slopes = [&](Tensor& of, const Tensor& gradient, const char* what) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(of.numel()); ++i) {
      float& v = of.span<float>()[i];
      const float before = v;
      v = before + h;
      const double up = loss();
      v = before - h;
      const double down = loss();
      v = before;
      EXPECT_NEAR(gradient.span<float>()[i], (up - down) / (2 * static_cast<double>(h)), 2e-2)
          << what << " " << i;
    }
  };
  expect_slopes(one.x, dx, "x");
  expect_slopes(two.x, dx2, "x2");
  expect_slopes(one.gamma, scale, "gamma");
  expect_slopes(two.beta, shift2, "beta2");
}

TEST(FusedNorm, SaysWhatDoesNotFit) {
  Norm n({4, 8}, DType::f32);
  Tensor y = Tensor::empty({4, 7});
  try {
    fused::norm_apply(n.x, n.factors, {}, y);
    FAIL();
  } catch (const ShapeError& e) {
    EXPECT_STREQ(e.what(), "norm_apply: y is f32 [4, 7]; wanted f32 [4, 8]");
  }
  const Tensor row = normal({1, 8}, 1);
  EXPECT_THROW(fused::norm_statistics(row, n.gamma, n.beta, 1e-5f, {}, n.factors), ShapeError);
}

TEST(Tiles, CoverEveryElementOnceWhateverTheShape) {
  for (const bool backwards : {false, true})
    for (const i64 cols : {1, 7, 8, 9, 64, 255, 256, 257, 1000, 2048, 4104})
      for (const i64 rows : {1, 2, 3, 31, 32, 33, 1000}) {
        const Tiles t = Tiles::over(rows, cols, 64, backwards);
        std::vector<int> seen(static_cast<std::size_t>(rows * cols));
        for (i64 block = 0; block < t.blocks(); ++block)
          for (int thread = 0; thread < Tiles::threads; ++thread) {
            const Tiles::Place p = t.place(block, thread);
            ASSERT_LT(p.col, cols) << "threads without work still read the factors of their column";
            ASSERT_LE(p.count == 0 && cols % 8 == 0 ? p.col + 8 : p.col + p.count, cols);
            t.for_rows<3>(
                p, [](i64 r) { return r; },
                [&](i64 r, i64) {
                  for (int j = 0; j < p.count; ++j)
                    ++seen[static_cast<std::size_t>(r * cols + p.col + j)];
                });
          }
        for (const int times : seen) ASSERT_EQ(times, 1) << rows << " x " << cols;
      }
}

}  // namespace
}  // namespace gossamer
