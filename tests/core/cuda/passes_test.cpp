// The fused stem, pooling, averages and loss against the ops on the CPU and the reference backend:
// emulated, through the same blocks and threads as on a GPU.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/kernel_helpers.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/cuda/stem.h"
#include "gossamer/core/ops.h"
#include "support/use_backend.h"

namespace gossamer {
namespace {

using namespace testing;

// Rows [0, h) and columns [0, w) of [N, H, W, C].
Tensor corner(const Tensor& x, i64 h, i64 w) {
  Tensor out = Tensor::empty({x.shape(0), h, w, x.shape(3)}, x.dtype());
  const std::size_t pixel = static_cast<std::size_t>(x.shape(3)) * size_of(x.dtype());
  for (i64 n = 0; n < x.shape(0); ++n)
    for (i64 i = 0; i < h; ++i)
      std::memcpy(
          static_cast<std::byte*>(out.data()) + static_cast<std::size_t>((n * h + i) * w) * pixel,
          static_cast<const std::byte*>(x.data()) +
              static_cast<std::size_t>((n * x.shape(1) + i) * x.shape(2)) * pixel,
          static_cast<std::size_t>(w) * pixel);
  return out;
}

TEST(Stem, OnPairsOfPixelsIsTheSameConvolution) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const i64 size : {8, 14, 10}) {
      const i64 n = 2, k = 5, half = size / 2, wide = size == 10 ? 4 : size;
      const Tensor x = normal({n, size, wide, 3}, 1, type),
                   w = type == DType::f32 ? normal({k, 7, 7, 3}, 2)
                                          : as_f32(normal({k, 7, 7, 3}, 2, type));
      Tensor pairs = Tensor::empty({n, half, wide / 2, stem::kChannels}, type),
             filters = Tensor::empty({k, 4, 4, stem::kChannels}, type);
      stem::pair_images(x, pairs);
      stem::pair_filters(w, filters);
      Tensor want = Tensor::empty({n, half, wide / 2, k}, type);
      backend("reference")
          .conv({n, size, wide, 3, k, 7, 7, half, wide / 2, 2, 3, 1, 1}, x,
                type == DType::f32 ? w : w.to(type), want);
      // Padded by 2 on both sides there is one line more behind: it is cut off.
      Tensor whole = Tensor::empty({n, half + 1, wide / 2 + 1, k}, type);
      backend("reference")
          .conv({n, half, wide / 2, 16, k, 4, 4, half + 1, wide / 2 + 1, 1, 2, 1, 1}, pairs,
                filters, whole);
      // sums in double of the same products
      expect_same_bits(corner(whole, half, wide / 2), want, name_of(type));
    }
}

TEST(Stem, TheFiltersGradientComesBackFromPairs) {
  const i64 n = 2, size = 12, half = 6, k = 4;
  const Tensor x = normal({n, size, size, 3}, 1), dy = normal({n, half, half, k}, 3);
  Tensor want = Tensor::empty({k, 7, 7, 3}), got = Tensor::empty({k, 7, 7, 3}),
         pairs = Tensor::empty({n, half, half, 16}), d_filters = Tensor::empty({k, 4, 4, 16});
  backend("reference").conv_dw({n, size, size, 3, k, 7, 7, half, half, 2, 3, 1, 1}, x, dy, want);
  stem::pair_images(x, pairs);
  // dy with the line that was cut off: no gradient there
  Tensor padded = Tensor::zeros({n, half + 1, half + 1, k});
  for (i64 i = 0; i < n * half; ++i)
    std::copy_n(dy.as<float>() + i * half * k, half * k,
                padded.as<float>() + (i / half * (half + 1) + i % half) * (half + 1) * k);
  backend("reference")
      .conv_dw({n, half, half, 16, k, 4, 4, half + 1, half + 1, 1, 2, 1, 1}, pairs, padded,
               d_filters);
  stem::unpair_filters(d_filters, got);
  expect_same_bits(got, want, "dw");
  Tensor back = Tensor::empty({k, 7, 7, 3}), there = Tensor::empty({k, 4, 4, 16});
  stem::pair_filters(want, there);
  stem::unpair_filters(there, back);
  expect_same_bits(back, want, "there and back");
}

struct Pooled : NormOn {
  Tensor y, taken;
  Pooled(const Shape& s, DType type)
      : NormOn(s, type, {}, 3, 0.3f, 1),
        y(Tensor::empty({s[0], (s[1] - 1) / 2 + 1, (s[2] - 1) / 2 + 1, s[3]}, type)) {
    taken = passes().norm_apply(*this, {.relu = true, .pool = true}, true, y);
  }
};
const Shape kStems[] = {{2, 8, 8, 64}, {1, 7, 9, 16}, {3, 5, 4, 3}, {1, 1, 1, 8}, {2, 2, 3, 13}};

// relu(norm(x)) in f32, and its pooling by the op.
Tensor normalised(const NormOn& n) {
  Norm wide = n;
  wide.x = as_f32(n.x);
  Tensor z = Tensor::empty(n.x.shape());
  passes().norm_apply(wide, {.relu = true}, false, z);
  return z;
}

TEST(StemPool, IsNormReluAndPoolingInOne) {
  for (const Shape& s : kStems)
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      if (s.numel() == s[-1]) continue;  // one pixel has no statistics
      const Pooled p(s, type);
      const Tensor want = max_pool2d(normalised(p), {.kernel = 3, .stride = 2, .padding = 1});
      expect_close(p.y, want, type == DType::f32 ? 0 : rounding(type) / 2, 0, s.str());
    }
}

TEST(StemPool, ItsGradientReachesTheStatistics) {
  for (const Shape& s : kStems)
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      if (s.numel() == s[-1]) continue;
      const Pooled p(s, type);
      const Tensor dy = normal(p.y.shape(), 9, type);
      // The same by parts: pooling's gradient by its op, then batch norm's under the ReLU.
      Tensor leaf = normalised(p);
      leaf.requires_grad();
      const Tensor pooled = max_pool2d(leaf, {.kernel = 3, .stride = 2, .padding = 1});
      sum(mul(pooled, as_f32(dy))).backward();
      Norm wide = p;
      wide.x = as_f32(p.x);
      const NormGrads want = grads_like(wide), got = grads_like(p);
      passes().norm_back(wide, {.relu = true}, {}, leaf.grad(), want, nullptr, nullptr);
      passes().norm_back(p, {.relu = true, .pool = true}, p.taken, dy, got, nullptr, nullptr);
      expect_close(got.dx, want.dx, rounding(type), 1e-4, "dx " + s.str());
      expect_close(got.d_scale, want.d_scale, 1e-4, 1e-3, "d_scale");
      expect_close(got.d_shift, want.d_shift, 1e-4, 1e-3, "d_shift");
    }
}

TEST(StemPool, ANanWinsAndAWindowOfNegativesHasNoTap) {
  const Tensor one = Tensor::full({8}, 1), zero = Tensor::zeros({8});
  const Norm n{Tensor::full({1, 4, 4, 8}, -1), one, zero, zero, one, one, zero};
  n.x.span<float>()[(3 * 4 + 3) * 8 + 2] = std::nanf("");
  Tensor y = Tensor::empty({1, 2, 2, 8});
  const Tensor taken = passes().norm_apply(n, {.relu = true, .pool = true}, true, y);
  for (std::size_t i = 0; i < 32; ++i) {
    if (i == 3 * 8 + 2) continue;
    EXPECT_EQ(y.span<float>()[i], 0);
    EXPECT_EQ(taken.span<std::uint8_t>()[i], 255);
  }
  EXPECT_TRUE(std::isnan(y.span<float>()[3 * 8 + 2]));
  EXPECT_EQ(taken.span<std::uint8_t>()[3 * 8 + 2], 8);
}

TEST(Pool, IsTheOpAndItsGradientForEveryWindow) {
  for (const Shape& s : {Shape{2, 8, 9, 16}, Shape{1, 7, 7, 5}, Shape{3, 3, 4, 8}})
    for (const PoolOptions o : {PoolOptions{.kernel = 3, .stride = 2, .padding = 1},
                                PoolOptions{.kernel = 2, .stride = 2, .padding = 0},
                                PoolOptions{.kernel = 3, .stride = 1, .padding = 1},
                                PoolOptions{.kernel = 3, .stride = 3, .padding = 0}})
      for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
        const i64 height = (s[1] + 2 * o.padding - o.kernel) / o.stride + 1,
                  width = (s[2] + 2 * o.padding - o.kernel) / o.stride + 1;
        const PoolGeometry p{s[0], s[1], s[2], s[3], height, width, o.kernel, o.stride, o.padding};
        SCOPED_TRACE(::testing::Message()
                     << s << " kernel " << o.kernel << " stride " << o.stride << " " << type);
        Tensor x = normal(s, 1, type);
        for (i64 i = 0; i < x.numel(); i += 5)  // ties: the first one counts
          if (type == DType::f32) x.as<float>()[i] = 0.5f;
        x.requires_grad();
        for (const bool maximum : {true, false}) {
          const Tensor want = maximum ? max_pool2d(x, o) : avg_pool2d(x, o);
          const Tensor dy = normal(want.shape(), 2, type);
          Tensor leaf = x.detach().clone();
          leaf.requires_grad();
          sum(mul(maximum ? max_pool2d(leaf, o) : avg_pool2d(leaf, o), dy)).backward();
          Tensor y = Tensor::empty(want.shape(), type),
                 taken = Tensor::empty(want.shape(), DType::u8), dx = Tensor::empty(s, type);
          if (maximum) {
            passes().max_pool(p, x.detach(), y, taken);
            passes().max_pool_back(p, dy, taken, dx);
            expect_same_bits(y, want, "max");
          } else {
            passes().avg_pool(p, x.detach(), y);
            passes().avg_pool_back(p, dy, dx);
            expect_close(y, want, rounding(type), 1e-6, "average");
          }
          expect_close(dx, leaf.grad(), rounding(type), 1e-6, "dx");
        }
      }
  Tensor big = Tensor::full({1, 4, 4, 8}, -std::numeric_limits<float>::infinity()),
         y = Tensor::empty({1, 2, 2, 8}), taken = Tensor::empty({1, 2, 2, 8}, DType::u8);
  passes().max_pool({1, 4, 4, 8, 2, 2, 3, 2, 1}, big, y, taken);
  EXPECT_EQ(taken.span<std::uint8_t>()[0], 4);  // the first tap inside, as the op
  EXPECT_EQ(taken.span<std::uint8_t>()[31], 0);
}

TEST(Pool, OfNoChannelsIsEmpty) {
  const UseBackend emulated("cuda_emulated");
  for (const auto pool : {max_pool2d, avg_pool2d}) {
    Tensor x = Tensor::zeros({2, 4, 4, 0}).requires_grad();
    const Tensor y = pool(x, {});
    EXPECT_EQ(y.shape(), Shape({2, 2, 2, 0}));
    sum(y).backward();
    EXPECT_EQ(x.grad().shape(), x.shape());
  }
}

// Padding by half a window can make more pixels than there were.
TEST(Pool, RefusesResultsOfTwoToThe32PixelsOrMore) {
  const i64 side = i64{1} << 16;
  const Tensor x = Tensor::wrap(nullptr, {1, side, side - 1, 1}, DType::f32);
  Tensor y = Tensor::wrap(nullptr, {1, side + 1, side, 1}, DType::f32);
  EXPECT_THROW(passes().avg_pool({1, side, side - 1, 1, side + 1, side, 2, 1, 1}, x, y),
               ShapeError);
}

TEST(GlobalAverage, IsTheOpAndItsGradient) {
  for (const Shape& s : {Shape{3, 7, 7, 64}, Shape{2, 1, 3, 11}, Shape{2, 2, 2, 8}})
    for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
      Tensor x = normal(s, 1, type);
      x.requires_grad();
      const Tensor want = global_avg_pool(x), dy = normal({s[0], s[3]}, 2, type);
      Tensor y = Tensor::empty({s[0], s[3]}, type), dx = Tensor::empty(s, type);
      passes().global_average(x.detach(), y);
      expect_close(y, want, rounding(type), 1e-6, s.str());
      sum(mul(want, dy)).backward();
      passes().global_average_back(dy, dx);
      expect_close(dx, x.grad(), rounding(type), 1e-7, s.str());
    }
}

TEST(SoftmaxLoss, IsTheOpWithItsGradient) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const i64 classes : {1000, 10, 257, 3, 5000, 2056})
      for (const float smoothing : {0.0f, 0.1f}) {
        const i64 rows = 37;
        // a large common part must not cost digits
        Tensor z = normal({rows, classes}, 5, type, 40, 3);
        std::vector<std::int32_t> wanted;
        for (i64 r = 0; r < rows; ++r)
          wanted.push_back(static_cast<std::int32_t>((7 * r + 1) % classes));
        const Tensor labels = Tensor::from(wanted, {rows});
        z.requires_grad();
        const Tensor loss = mul(cross_entropy(z, labels, {smoothing}), static_cast<float>(rows));
        loss.backward();
        Tensor losses = Tensor::empty({rows});
        const Tensor dz = Tensor::empty({rows, classes}, type);
        passes().softmax_loss(z.detach(), labels, {.label_smoothing = smoothing}, losses, dz);
        EXPECT_NEAR(sum(losses).item(), loss.item(), 1e-5f * (1 + std::fabs(loss.item())));
        // f16 has steps of 2^-24
        expect_close(dz, z.grad(), 2 * rounding(type), type == DType::f16 ? 0x1p-24 : 1e-7, "dz");
      }
}

// A power of two, so that it rounds nothing.
TEST(SoftmaxLoss, InTwoCallsHasTheSameBitsTimesTheFactor) {
  for (const DType type : {DType::f32, DType::bf16})
    for (const i64 classes : {1000, 257, 2056}) {
      const i64 rows = 37;
      const LossRows how{.label_smoothing = 0.1f, .ignores = true, .ignore = -1};
      const Tensor z = normal({rows, classes}, 5, type, 40, 3);
      std::vector<std::int32_t> wanted;
      for (i64 r = 0; r < rows; ++r)
        wanted.push_back(r % 5 == 0 ? -1 : static_cast<std::int32_t>(7 * r % classes));
      const Tensor labels = Tensor::from(wanted, {rows});
      Tensor want = Tensor::empty({rows}), losses = want.clone(), dz = z.clone(), kept = z.clone(),
             norms = Tensor::empty({rows, 2});
      passes().softmax_loss(z, labels, how, want, dz);
      passes().softmax_norms(kept, labels, how, losses, norms);
      expect_same_bits(losses, want, "losses");
      expect_same_bits(kept, z, "logits");
      passes().softmax_back(kept, labels, how, norms, Tensor::full({}, 0.5f),
                            Tensor::full({}, 0.25f));
      expect_same_bits(as_f32(kept), mul(as_f32(dz), 0.125f), "dz");
    }
}

// Short rows that share a block, rows of one and two groups a lane, more rows than blocks take at
// once, rows that are read again from memory.
TEST(FusedLayerNorm, IsThatOfTheReference) {
  for (const Shape& shape : {Shape{3, 8}, Shape{70, 24}, Shape{5000, 24}, Shape{70, 520},
                             Shape{1100, 768}, Shape{300, 1600}, Shape{300, 2056}, Shape{0, 24},
                             Shape{40, 4096}, Shape{9, 4104}, Shape{7, 13}, Shape{400, 5}})
    for (const DType type : {DType::f32, DType::bf16, DType::f16})
      for (const bool adds : {false, true}) {
        SCOPED_TRACE(shape.str() + " " + name_of(type) + (adds ? " of a sum" : ""));
        const i64 rows = shape[0], cols = shape[1];
        const Tensor x = normal(shape, 1, type, 3), add = normal(shape, 2, type),
                     dy = normal(shape, 6, type), before = normal(shape, 5, type),
                     scale = normal({cols}, 3), shift = adds ? Tensor() : normal({cols}, 4);
        struct Side {
          Tensor sum, y, dx, d_scale, d_shift, mean, inv_std;
        };
        const auto run = [&](Backend& engine) {
          Side s{Tensor::empty(shape, type), Tensor::empty(shape, type), before.clone(),
                 Tensor::empty({cols}),      Tensor::empty({cols}),      Tensor::empty({rows}),
                 Tensor::empty({rows})};
          RowNorm n{x, scale, shift, 1e-5f, s.mean, s.inv_std};
          engine.layer_norm(n, adds ? &add : nullptr, adds ? &s.sum : nullptr, s.y);
          if (adds) n.x = s.sum;
          engine.layer_norm_back(n, dy, adds, s.dx, s.d_scale, s.d_shift);
          return s;
        };
        const Side got = run(passes()), want = run(backend("reference"));
        if (adds) expect_same_bits(got.sum, want.sum, "sum");
        expect_close(got.mean, want.mean, 1e-5, 1e-5, "mean");
        expect_close(got.inv_std, want.inv_std, 1e-4, 0, "inv_std");
        const double near = 2e-5 + 2 * rounding(type);
        expect_close(got.y, want.y, rounding(type), near, "y");
        expect_close(got.dx, want.dx, rounding(type), near, "dx");
        const double many = 1e-5 * static_cast<double>(rows);
        expect_close(got.d_scale, want.d_scale, 1e-4, many, "d_scale");
        expect_close(got.d_shift, want.d_shift, 1e-4, many, "d_shift");
      }
}

TEST(SoftmaxLoss, ShowsWhatIsWrong) {
  Tensor z = normal({4, 6}, 1);
  z.span<float>()[6 + 2] = std::nanf("");
  // a class ruled out is no error
  z.span<float>()[12 + 1] = -std::numeric_limits<float>::infinity();
  const Tensor labels = Tensor::from(std::vector<std::int32_t>{0, 0, 0, 6}, {4});
  Tensor losses = Tensor::empty({4});
  const Tensor dz = Tensor::empty({4, 6});
  passes().softmax_loss(z, labels, {}, losses, dz);
  EXPECT_FALSE(std::isnan(losses.span<float>()[0]));
  EXPECT_TRUE(std::isnan(losses.span<float>()[1]));
  EXPECT_FALSE(std::isnan(losses.span<float>()[2]));
  EXPECT_EQ(dz.span<float>()[12 + 1], 0);
  // a label that is no class
  EXPECT_TRUE(std::isnan(losses.span<float>()[3]));
  for (std::size_t c = 0; c < 6; ++c) EXPECT_TRUE(std::isnan(dz.span<float>()[18 + c]));
  passes().softmax_loss(z, labels, {}, losses, {});
  EXPECT_TRUE(std::isnan(losses.span<float>()[3]));
  Tensor norms = Tensor::empty({4, 2});
  passes().softmax_norms(z, labels, {}, losses, norms);
  passes().softmax_back(z, labels, {}, norms, Tensor::full({}, 1), Tensor::full({}, 1));
  for (std::size_t c = 0; c < 6; ++c) {
    EXPECT_TRUE(std::isnan(z.span<float>()[6 + c]));
    EXPECT_TRUE(std::isnan(z.span<float>()[18 + c]));
  }
}

}  // namespace
}  // namespace gossamer
