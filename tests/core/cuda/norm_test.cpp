// Batch norm's fused passes against the reference backend and finite differences: emulated, through
// the same blocks and threads as on a GPU.
#include "core/kernel_helpers.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/ops/eight.h"

namespace gossamer {
namespace {

using namespace testing;

// Whole groups of eight, odd numbers of channels, one row of threads, more strips than one, more
// rows than blocks.
const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all{{2, 5, 7, 64}, {3, 4, 4, 24},   {2, 3, 3, 3}, {5, 1000},
                                      {130, 260},    {2, 2, 2, 2056}, {40000, 8},   {2, 1}};
  return all;
}
const DType kTypes[] = {DType::f32, DType::bf16, DType::f16};

std::string label(const Shape& shape, DType type) { return shape.str() + " " + name_of(type); }

// The same numbers with the statistics of the reference backend.
Norm reference_of(const Norm& n, const NormRunning& running = {}) {
  Norm r = n;
  for (Tensor* t : {&r.mean, &r.inv_std, &r.a, &r.b}) *t = Tensor::empty(n.mean.shape());
  backend("reference").norm_statistics(r, NormOn::kEps, running);
  return r;
}
Tensor apply(Backend& engine, const Norm& n, const NormTail& tail, Tensor* mask = nullptr) {
  Tensor y = Tensor::empty(n.x.shape(), n.x.dtype());
  const Tensor kept = engine.norm_apply(n, tail, true, y);
  if (mask) *mask = kept;
  return y;
}

TEST(FusedNorm, StatisticsAndOutputAreThoseOfTheReference) {
  for (const Shape& shape : shapes())
    for (const DType type : kTypes)
      for (const bool relu : {false, true})
        for (const bool with_add : {false, true}) {
          SCOPED_TRACE(label(shape, type));
          const NormOn n(shape, type);
          const Tensor add = normal(shape, 9, type);
          const Norm want = reference_of(n);
          expect_close(n.mean, want.mean, 1e-5, 1e-5, "mean");
          expect_close(n.inv_std, want.inv_std, 1e-5, 0, "inv_std");
          const NormTail tail{.add = with_add ? &add : nullptr, .relu = relu};
          expect_close(apply(passes(), n, tail), apply(backend("reference"), want, tail),
                       rounding(type),
                       1e-5 * static_cast<double>(n.inv_std.span<float>()[0]) + 2e-5, "y");
        }
}

TEST(FusedNorm, AMeanFarFromZeroLosesNoDigits) {
  // Plain sums of squares in f32 would leave nothing of a deviation of 1 beside a mean of 3000.
  const NormOn n({64, 9, 9, 16}, DType::f32, {}, 5, 3000, 1);
  const Norm want = reference_of(n);
  expect_close(n.inv_std, want.inv_std, 1e-4, 0, "inv_std");
  expect_close(n.mean, want.mean, 1e-6, 0, "mean");
}

TEST(FusedNorm, RunningStatisticsMoveAsTheyShould) {
  NormOn n({7, 5, 5, 12}, DType::f32);
  const i64 rows = 7 * 5 * 5;
  for (const std::string& name : backend_names()) {
    const NormRunning running{Tensor::full({12}, 2), Tensor::full({12}, 3), 0.25f};
    backend(name).norm_statistics(n, NormOn::kEps, running);
    for (std::size_t c = 0; c < 12; ++c) {
      double sum = 0, square = 0;
      for (i64 r = 0; r < rows; ++r)
        sum += static_cast<double>(n.x.span<float>()[static_cast<std::size_t>(r) * 12 + c]);
      for (i64 r = 0; r < rows; ++r)
        square +=
            std::pow(static_cast<double>(n.x.span<float>()[static_cast<std::size_t>(r) * 12 + c]) -
                         sum / rows,
                     2);
      EXPECT_NEAR(running.mean.span<float>()[c], 2 + 0.25 * (sum / rows - 2), 1e-5) << name;
      EXPECT_NEAR(running.var.span<float>()[c], 3 + 0.25 * (square / (rows - 1) - 3), 1e-4) << name;
    }
  }
}

TEST(FusedNorm, JoinsASecondNormalisedBranch) {
  for (const DType type : kTypes)
    for (const i64 channels : {16, 13}) {
      const Shape shape{3, 4, 5, channels};
      const NormOn one(shape, type), two(shape, type, {}, 20);
      const Tensor got = apply(passes(), one, {.second = &two, .relu = true});
      Norm wide1 = one, wide2 = two;
      wide1.x = as_f32(one.x), wide2.x = as_f32(two.x);
      const Tensor a = apply(passes(), wide1, {}), b = apply(passes(), wide2, {}),
                   want = Tensor::empty(shape);
      for (std::size_t i = 0; i < static_cast<std::size_t>(want.numel()); ++i)
        want.span<float>()[i] = std::max(a.span<float>()[i] + b.span<float>()[i], 0.0f);
      expect_close(got, want, rounding(type), 1e-5, label(shape, type));
    }
}

TEST(FusedNorm, TheMaskHasOneBitForEveryPositiveOutput) {
  for (const i64 channels : {24, 11}) {
    const Shape shape{2, 3, 3, channels};
    const NormOn n(shape, DType::f32);
    const Tensor add = normal(shape, 4);
    Tensor mask;
    const Tensor y = apply(passes(), n, {.add = &add, .relu = true}, &mask);
    ASSERT_EQ(mask.numel(), y.numel() / channels * ((channels + 7) / 8));
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
  const NormOn n({4, 8}, DType::f32);
  n.x.span<float>()[3] = std::nanf("");
  const Tensor y = apply(passes(), n, {.relu = true});
  EXPECT_TRUE(std::isnan(y.span<float>()[3]));
  EXPECT_FALSE(std::isnan(y.span<float>()[4]));
}

// dx, d_scale, d_shift and d_add of one call, compared with the reference's for the same gradient.
// add and ReLU: the mask is bits; ReLU alone: it is computed again.
void expect_back(const Shape& shape, DType type, bool relu, bool with_add, bool given,
                 bool in_place) {
  SCOPED_TRACE(::testing::Message() << label(shape, type) << " relu " << relu << " add " << with_add
                                    << " given " << given);
  NormOn n(shape, type);
  n.given = given;
  const Tensor add = normal(shape, 31, type), dy = normal(shape, 32, type);
  const NormTail tail{.add = with_add ? &add : nullptr, .relu = relu};
  Tensor mask;
  const Tensor y = apply(passes(), n, tail, &mask);
  EXPECT_EQ(mask.defined(), relu && with_add);

  Tensor want_add = Tensor::empty(shape, type), up = dy.clone(), d_add = Tensor::empty(shape, type);
  const NormGrads want = grads_like(n);
  NormGrads got = grads_like(n);
  if (in_place) got.dx = up;
  backend("reference").norm_back(n, tail, y, dy, want, nullptr, &want_add);
  passes().norm_back(n, tail, mask, up, got, nullptr, &d_add);
  const double rows = static_cast<double>(dy.numel() / n.cols);
  expect_close(got.d_shift, want.d_shift, 1e-4, 1e-5 * rows, "d_shift");
  expect_close(got.d_scale, want.d_scale, 1e-4, 1e-5 * rows, "d_scale");
  expect_close(got.dx, want.dx, rounding(type), 1e-4, "dx");
  expect_same_bits(d_add, want_add, "d_add");
}

TEST(FusedNormBack, IsThatOfTheReferenceUnderEveryMask) {
  for (const Shape& shape : shapes()) {
    // two values: the gradient is zero up to rounding
    if (shape == Shape{2, 1}) continue;
    for (const DType type : kTypes)
      for (const bool given : {false, true}) {
        expect_back(shape, type, false, false, given, false);
        expect_back(shape, type, true, false, given, true);
        expect_back(shape, type, true, true, given, false);
      }
  }
}

TEST(FusedNormBack, TheShortcutsGradientMayTakeTheIncomingOnesPlace) {
  const NormOn n({3, 3, 3, 16}, DType::bf16);
  const Tensor dy = normal({3, 3, 3, 16}, 8, DType::bf16),
               zero = Tensor::zeros(dy.shape(), DType::bf16);
  const NormTail tail{.add = &zero, .relu = true};
  Tensor mask;
  apply(passes(), n, tail, &mask);
  const auto run = [&](Tensor dx, const Tensor& up, Tensor d_add) {
    NormGrads grads = grads_like(n);
    grads.dx = dx;
    passes().norm_back(n, tail, mask, up, grads, nullptr, &d_add);
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
    for (const i64 channels : {32, 10})
      for (const bool given : {false, true}) {
        const Shape shape{4, 3, 3, channels};
        NormOn one(shape, type), two(shape, type, {}, 50);
        two.given = given;
        const Tensor dy = normal(shape, 60, type);
        const NormTail joint{.second = &two, .relu = true}, alone{.relu = true};
        Tensor mask;
        apply(passes(), one, joint, &mask);
        const NormGrads a = grads_like(one), b = grads_like(two), c = grads_like(one),
                        d = grads_like(two);
        Tensor add[2] = {Tensor::empty(shape, type), Tensor::empty(shape, type)};
        passes().norm_back(one, joint, mask, dy, a, &b, &add[0]);
        passes().norm_back(one, alone, mask, dy, c, nullptr, &add[1]);
        passes().norm_back(two, alone, mask, dy, d, nullptr, nullptr);
        for (const auto& [got, want] : {std::pair{&a, &c}, std::pair{&b, &d}}) {
          expect_close(got->dx, want->dx, rounding(type), 1e-6, "dx");
          expect_close(got->d_scale, want->d_scale, 1e-5, 1e-5, "d_scale");
          expect_close(got->d_shift, want->d_shift, 1e-5, 1e-5, "d_shift");
        }
        expect_same_bits(add[0], add[1], "d_add");
      }
}

TEST(FusedNormBack, IsTheSlopeOfTheForwardPass) {
  // f = sum of w y, y = relu(norm(x) + norm(x2)), in steps of each input.
  const Shape shape{2, 3, 2, 5};
  NormOn one(shape, DType::f32, {}, 1, 0.2f, 1), two(shape, DType::f32, {}, 70, -0.1f, 1);
  const Tensor w = normal(shape, 80);
  const NormTail tail{.second = &two, .relu = true};
  const auto loss = [&] {
    passes().norm_statistics(one, NormOn::kEps, {});
    passes().norm_statistics(two, NormOn::kEps, {});
    const Tensor y = apply(passes(), one, tail);
    double sum = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(y.numel()); ++i)
      sum += static_cast<double>(y.span<float>()[i]) * static_cast<double>(w.span<float>()[i]);
    return sum;
  };
  Tensor mask;
  apply(passes(), one, tail, &mask);
  const NormGrads grads = grads_like(one), grads2 = grads_like(two);
  passes().norm_back(one, tail, mask, w, grads, &grads2, nullptr);
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
  expect_slopes(one.x, grads.dx, "x");
  expect_slopes(two.x, grads2.dx, "x2");
  expect_slopes(one.scale, grads.d_scale, "scale");
  expect_slopes(two.shift, grads2.d_shift, "shift2");
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
