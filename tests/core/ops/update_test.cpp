// Updates against plain loops in double: SGD in all its forms, mixing, differences, norms.
#include "gossamer/core/update.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/exchange.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/random.h"
#include "support/updates.h"

namespace gossamer {
namespace {

using testing::SgdStep, testing::sgd_update;

Tensor normal(Shape shape, std::uint64_t seed) {
  Tensor t = Tensor::empty(shape);
  Rng rng(seed);
  for (float& v : t.span<float>()) v = rng.normal();
  return t;
}

// Two matrices and two vectors whose sizes leave padding behind each.
struct Model {
  Tensor w1 = normal({5, 7}, 1), b1 = normal({7}, 2), w2 = normal({3, 3, 2, 2}, 3),
         b2 = normal({40}, 4);
  FlatParams params;
  explicit Model(FlatOptions o = {})
      : params({{"w1", w1}, {"b1", b1}, {"w2", w2}, {"b2", b2}}, {}, o) {}

  // Random values in every window of a flat block; padding stays zero.
  void fill(const Tensor& flat, std::uint64_t seed) {
    for (const NamedTensor& p : params.windows(flat))
      Tensor(p.tensor).copy_from(normal(p.tensor.shape(), seed++));
  }
  void give_gradients(std::uint64_t seed) {
    fill(params.grads(), seed);
    for (Tensor* t : {&w1, &b1, &w2, &b2}) t->slot()->stale = false;
  }
  bool padding_is_zero(const Tensor& flat) {
    std::vector<bool> used(static_cast<std::size_t>(params.size()));
    for (const auto& e : params.entries())
      for (i64 i = 0; i < e.shape.numel(); ++i) used[static_cast<std::size_t>(e.offset + i)] = true;
    for (std::size_t i = 0; i < static_cast<std::size_t>(flat.numel()); ++i)
      if (!used[i] && flat.to(DType::f32).span<float>()[i] != 0) return false;
    return true;
  }
};

// The same in double, one formula a line.
void naive_step(const Model& m, std::vector<double>& x, std::vector<double>& v,
                std::vector<double>* twin, const SgdStep& o, double c, double s) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (twin) {
      const double a = x[i], b = (*twin)[i];
      x[i] = c * a + s * b;
      (*twin)[i] = s * a + c * b;
    }
    double g =
        static_cast<double>(o.grad_scale) * static_cast<double>(m.params.grads().span<float>()[i]);
    if (static_cast<i64>(i) < m.params.decayed()) g += static_cast<double>(o.weight_decay) * x[i];
    v[i] = static_cast<double>(o.momentum) * v[i] + g;
    const double u = o.nesterov ? g + static_cast<double>(o.momentum) * v[i] : v[i];
    x[i] -= static_cast<double>(o.learning_rate) * u;
    if (twin) (*twin)[i] -= static_cast<double>(o.learning_rate) * u;
  }
}

std::vector<double> wide(const Tensor& t) {
  return {t.span<float>().begin(), t.span<float>().end()};
}
void expect_near(const Tensor& got, const std::vector<double>& want, const char* what) {
  for (std::size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(static_cast<double>(got.span<float>()[i]), want[i], 2e-6 * (1 + std::fabs(want[i])))
        << what << " " << i;
}

TEST(SgdUpdate, MatchesThePlainLoopInEveryForm) {
  for (const DType compute : {DType::f32, DType::bf16, DType::f16})
    for (const bool separate : {false, true})
      for (const bool nesterov : {false, true})
        for (const bool with_twin : {false, true})
          for (const float mu : {0.9f, 0.0f}) {
            SCOPED_TRACE(::testing::Message() << compute << (separate ? " separate" : "")
                                              << (nesterov ? " nesterov" : "")
                                              << (with_twin ? " twin" : "") << " mu " << mu);
            Model m({compute, separate});
            const SgdStep step{.learning_rate = 0.05f,
                               .momentum = mu,
                               .weight_decay = 0.1f,
                               .nesterov = nesterov,
                               .grad_scale = 0.5f};
            const Tensor momentum = Tensor::zeros({m.params.size()});
            Twin twin{Tensor::zeros({m.params.size()}), 0.8f, 0.2f};
            m.fill(twin.values, 50);
            std::vector<double> x = wide(m.params.values()), v(x.size()), other = wide(twin.values);
            for (std::uint64_t k = 0; k < 4; ++k) {
              m.give_gradients(100 + 10 * k);
              sgd_update(m.params, momentum, step, with_twin ? &twin : nullptr);
              naive_step(m, x, v, with_twin ? &other : nullptr, step, static_cast<double>(twin.c),
                         static_cast<double>(twin.s));
            }
            expect_near(m.params.values(), x, "values");
            if (with_twin) expect_near(twin.values, other, "twin");
            expect_near(momentum, v, "momentum");
            EXPECT_TRUE(m.padding_is_zero(momentum));
            EXPECT_TRUE(m.padding_is_zero(m.params.values()));
            EXPECT_TRUE(m.padding_is_zero(twin.values));
            // What layers read is the new value, in the type they read.
            for (const NamedTensor& p : m.params.windows(m.params.values())) {
              const Tensor& layer = p.name == "w1"   ? m.w1
                                    : p.name == "b1" ? m.b1
                                    : p.name == "w2" ? m.w2
                                                     : m.b2;
              EXPECT_EQ(layer.dtype(), layer.rank() >= 2 ? compute : DType::f32);
              const Tensor read = layer.to(DType::f32),
                           value = p.tensor.to(layer.dtype()).to(DType::f32);
              for (std::size_t i = 0; i < static_cast<std::size_t>(p.tensor.numel()); ++i) {
                ASSERT_EQ(read.span<float>()[i], value.span<float>()[i]) << p.name << " " << i;
              }
            }
            if (compute != DType::f32) {
              EXPECT_TRUE(m.padding_is_zero(m.params.compute_half()));
            }
          }
}

TEST(SgdUpdate, TreatsGradientsThatNeverCameAsZero) {
  Model m;
  m.give_gradients(5);
  m.params.zero_grad();  // the numbers are still there, but count as zero
  const auto before = wide(m.params.values());
  Tensor momentum = Tensor::zeros({m.params.size()});
  sgd_update(m.params, momentum, {.learning_rate = 1, .momentum = 0.9f});
  expect_near(m.params.values(), before, "values");
}

TEST(SgdUpdate, WithATwinThatIsNotMixedIsPlainSgdBitForBit) {
  Model plain, decentralised;
  Tensor m1 = Tensor::zeros({plain.params.size()}), m2 = m1.clone();
  Twin twin{decentralised.params.values().clone()};
  for (std::uint64_t k = 0; k < 5; ++k) {
    plain.give_gradients(k * 10);
    decentralised.give_gradients(k * 10);
    const SgdStep step{.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f};
    sgd_update(plain.params, m1, step);
    sgd_update(decentralised.params, m2, step, &twin);
  }
  EXPECT_EQ(wide(plain.params.values()), wide(decentralised.params.values()));
  EXPECT_EQ(wide(m1), wide(m2));
  EXPECT_EQ(wide(twin.values), wide(plain.params.values()));
}

TEST(Mix, FollowsTheFlowAndKeepsTheSum) {
  Tensor x = normal({1000}, 1), y = normal({1000}, 2);
  const auto x0 = wide(x), y0 = wide(y);
  const auto k = MixCoefficients<float>::over(0.3f, 1.7f);
  EXPECT_NEAR(k.c + k.s, 1, 1e-6f);
  EXPECT_NEAR(k.c - k.s, std::exp(-2 * 0.3f * 1.7f), 1e-6f);
  mix(x, y, k.c, k.s);
  for (std::size_t i = 0; i < 1000; ++i) {
    const double a = static_cast<double>(x.span<float>()[i]),
                 b = static_cast<double>(y.span<float>()[i]);
    ASSERT_NEAR(a, static_cast<double>(k.c) * x0[i] + static_cast<double>(k.s) * y0[i], 1e-6);
    ASSERT_NEAR(a + b, x0[i] + y0[i], 2e-6);
  }
}

TEST(Difference, MovesBothCopiesByTheirShare) {
  Tensor x = normal({80}, 1), y = normal({80}, 2);
  const Tensor own = normal({80}, 3), received = normal({80}, 4);
  const auto x0 = wide(x), y0 = wide(y), a = wide(own), b = wide(received);
  apply_difference(x, y, 0.5f, 1.25f, own, received);
  for (std::size_t i = 0; i < 80; ++i) {
    ASSERT_NEAR(static_cast<double>(x.span<float>()[i]), x0[i] - 0.5 * (a[i] - b[i]), 1e-6);
    ASSERT_NEAR(static_cast<double>(y.span<float>()[i]), y0[i] - 1.25 * (a[i] - b[i]), 1e-6);
  }
  Tensor none, z = x.clone();
  apply_difference(z, none, 0.5f, 9, own, received);
  for (std::size_t i = 0; i < 80; ++i)
    ASSERT_NEAR(static_cast<double>(z.span<float>()[i]),
                static_cast<double>(x.span<float>()[i]) - 0.5 * (a[i] - b[i]), 1e-6);
}

TEST(Norms, AddUpInDoubleAndSeeEveryElement) {
  const Tensor a = normal({12345}, 1), b = normal({12345}, 2);
  double norm = 0, distance = 0;
  for (std::size_t i = 0; i < 12345; ++i) {
    const double u = static_cast<double>(a.span<float>()[i]),
                 v = static_cast<double>(b.span<float>()[i]);
    norm += u * u;
    distance += (u - v) * (u - v);
  }
  EXPECT_NEAR(squared_norm(a), norm, 1e-9 * norm);
  EXPECT_NEAR(squared_distance(a, b), distance, 1e-9 * distance);
  Tensor left = Tensor::zeros({3});
  squared_distance_to(a, b, left.slice(1, 2));
  EXPECT_EQ(left.span<float>()[1], static_cast<float>(squared_distance(a, b)));
  EXPECT_EQ(left.span<float>()[0], 0);
  EXPECT_THROW(squared_distance_to(a, b, left), ShapeError);
  EXPECT_EQ(squared_norm(Tensor::empty({0})), 0);
}

// splitmix64, one bit of it for each element: workers of different builds draw the same signs.
std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

TEST(CountSketch, AddsElementsWithTheirSignsInPiecesAsInOneRow) {
  for (const i64 n : {i64{0}, i64{1}, i64{63}, i64{1024}, i64{5000}, 256 * kSketchWidth,
                      600 * kSketchWidth + 77}) {
    const Tensor x = n > 0 ? normal({n}, 4) : Tensor::empty({0});
    std::vector<double> want(kSketchWidth, 0.0), got(kSketchWidth, 1.0), other(kSketchWidth);
    for (i64 i = 0; i < n; ++i) {
      const std::uint64_t signs = scramble(scramble(9) ^ static_cast<std::uint64_t>(i - i % 64));
      const double v = static_cast<double>(x.span<float>()[static_cast<std::size_t>(i)]);
      want[static_cast<std::size_t>(i % kSketchWidth)] += (signs >> (i % 64) & 1) ? -v : v;
    }
    count_sketch(x, 9, got);
    for (std::size_t j = 0; j < want.size(); ++j)
      ASSERT_NEAR(got[j], want[j], 1e-12 * static_cast<double>(n)) << n << " " << j;
    count_sketch(x, 10, other);
    EXPECT_EQ(other == got, n == 0) << "another stream, other signs";
  }
  std::vector<double> few(10);
  EXPECT_THROW(count_sketch(Tensor::zeros({5}), 1, few), ShapeError);
}

TEST(AllFinite, FindsASingleBadElementAnywhere) {
  for (const i64 n : {1, 7, 4096, 9001}) {
    Tensor x = normal({n}, 3);
    EXPECT_TRUE(all_finite(x));
    for (const i64 at : {i64{0}, n / 2, n - 1})
      for (const float bad :
           {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
            std::numeric_limits<float>::quiet_NaN()}) {
        float& v = x.span<float>()[static_cast<std::size_t>(at)];
        const float before = v;
        v = bad;
        EXPECT_FALSE(all_finite(x)) << at << " of " << n;
        v = before;
      }
  }
  EXPECT_TRUE(all_finite(Tensor::full({3}, std::numeric_limits<float>::max())));
}

TEST(Spans, ScaleAxpyAndAccumulateDoWhatTheySay) {
  Tensor x = normal({50}, 1), y = normal({50}, 2);
  const auto x0 = wide(x), y0 = wide(y);
  axpy(y, 3, x);
  for (std::size_t i = 0; i < 50; ++i)
    ASSERT_NEAR(static_cast<double>(y.span<float>()[i]), y0[i] + 3 * x0[i], 1e-5);
  scale(x, -2);
  for (std::size_t i = 0; i < 50; ++i)
    ASSERT_EQ(static_cast<double>(x.span<float>()[i]), -2 * x0[i]);
  for (const DType to : {DType::f32, DType::bf16, DType::f16})
    for (const DType from : {DType::f32, DType::bf16, DType::f16}) {
      Tensor a = Tensor::full({50}, 1.5f, to);
      if (to != DType::f32 && from != DType::f32 && to != from) {
        EXPECT_THROW(accumulate(a, Tensor::full({50}, 2.25f, from)), ShapeError)
            << "bf16 and f16 do not meet";
        continue;
      }
      accumulate(a, Tensor::full({50}, 2.25f, from));
      EXPECT_EQ(a.dtype(), to);
      const Tensor sums = a.to(DType::f32);
      for (const float v : sums.span<float>()) ASSERT_EQ(v, 3.75f);
    }
}

}  // namespace
}  // namespace gossamer
