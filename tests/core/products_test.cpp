// Products on the CPU by our own kernels, of every set that this CPU can run, against the reference
// backend: shapes that fill no block and no panel, every type, every tail.
#include "gossamer/core/cpu/products.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <tuple>

#include <gtest/gtest.h>

#include "gossamer/core/backend.h"
#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/random.h"

namespace gossamer {
namespace {

struct Products : ::testing::TestWithParam<std::string> {
  Products() { cpu::limit_kernels(GetParam()); }
  ~Products() override { cpu::limit_kernels(""); }
};
INSTANTIATE_TEST_SUITE_P(Sets, Products, ::testing::ValuesIn(cpu::kernel_sets()),
                         [](const auto& set) { return set.param; });

Tensor normal(Shape shape, DType type, std::uint64_t seed) {
  Tensor t = Tensor::empty(shape);
  Rng rng(seed);
  for (float& v : t.span<float>()) v = rng.normal();
  return t.to(type);
}

void expect_close(const Tensor& got, const Tensor& want, i64 terms, const std::string& what) {
  const Tensor a = got.to(DType::f32), b = want.to(DType::f32);
  const float step = got.dtype() == DType::f32    ? 0x1p-21f
                     : got.dtype() == DType::bf16 ? 0x1p-7f
                                                  : 0x1p-10f;
  const float size = std::sqrt(static_cast<float>(terms));
  for (std::size_t i = 0; i < static_cast<std::size_t>(a.numel()); ++i) {
    const float allowed =
        step * (size * (got.dtype() == DType::f32 ? size : 1) + std::fabs(b.span<float>()[i]));
    ASSERT_NEAR(a.span<float>()[i], b.span<float>()[i], allowed) << what << ", element " << i;
  }
}

struct Case {
  i64 m, n, k;
  bool ta, tb;
  DType type, out;
  std::string str() const {
    std::ostringstream s;
    s << m << " x " << n << " x " << k << (ta ? " ta" : "") << (tb ? " tb " : " ") << type << " -> "
      << out;
    return s.str();
  }
  Tensor a() const { return normal(ta ? Shape{k, m} : Shape{m, k}, type, 1); }
  Tensor b() const { return normal(tb ? Shape{n, k} : Shape{k, n}, type, 2); }
};

void compare(const Case& c) {
  const Tensor a = c.a(), b = c.b();
  for (const bool add : {false, true}) {
    Tensor got = normal({c.m, c.n}, c.out, 3), want = got.clone();
    if (!add) got.fill(std::nanf(""));
    cpu::product(c.ta, c.tb, a, b, got, {.add = add});
    backend("reference").gemm(c.ta, c.tb, a, b, want, add);
    expect_close(got, want, c.k, c.str() + (add ? " added" : ""));
  }
}

TEST_P(Products, OfEveryOddShapeFormAndTypeAgreeWithTheReference) {
  for (const i64 m : {1, 3, 17, 100})
    for (const i64 n : {1, 3, 17, 100})
      for (const i64 k : {1, 3, 17, 100})
        for (const bool ta : {false, true})
          for (const bool tb : {false, true})
            for (const DType type : {DType::f32, DType::bf16, DType::f16})
              for (const DType out : {type, DType::f32}) {
                compare({m, n, k, ta, tb, type, out});
                if (HasFatalFailure()) return;
              }
}

// More rows than a thread takes at a time, more columns than it packs, several k-blocks of the
// sum.
TEST_P(Products, OfLargeShapesAgreeWithTheReference) {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      compare({203, 77, 700, ta, tb, DType::f32, DType::f32});
      compare({131, 300, 2100, ta, tb, DType::f32, DType::f32});
      compare({131, 600, 515, ta, tb, DType::bf16, DType::bf16});
      compare({131, 80, 640, ta, tb, DType::bf16, DType::bf16});  // whole tiles, where they exist
      compare({131, 80, 640, ta, tb, DType::bf16, DType::f32});
      compare({101, 150, 7001, ta, tb, DType::f16, DType::f32});
      compare({101, 150, 7001, ta, tb, DType::bf16, DType::f32});
    }
}

// Columns of b from four places at once, then those that are left.
TEST_P(Products, OfFewRowsAgreeWithTheReference) {
  for (const i64 m : {1, 2, 6, 7, 15})
    for (const i64 n : {128, 300})
      for (const DType type : {DType::f32, DType::bf16, DType::f16})
        for (const DType out : {type, DType::f32}) compare({m, n, 515, m == 1, true, type, out});
}

// An odd row ends in the middle of a pair, whose other half must not come from the next row.
TEST_P(Products, OfARowSeeNoOtherRow) {
  const float nan = std::nanf("");
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const i64 m : {2, 40})
      for (const i64 k : {3, 64, 301}) {
        const i64 n = 20;
        Tensor a = normal({m, k}, DType::f32, 1), b = normal({n, k}, DType::f32, 2);
        for (Tensor* t : {&a, &b}) t->slice(1, 2).fill(nan);
        Tensor c = Tensor::empty({m, n});
        cpu::product(false, true, a.to(type), b.to(type), c, {});
        for (i64 i = 0; i < m; ++i)
          for (i64 j = 0; j < n; ++j)
            ASSERT_EQ(std::isnan(c.as<float>()[i * n + j]), i == 1 || j == 1)
                << type << ", k " << k;
      }
}

TEST_P(Products, AreFollowedByBiasAndActivation) {
  Tensor (*const ops[])(const Tensor&) = {relu, gelu, gelu_tanh};
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const auto& [m, n, k] :
         {std::array<i64, 3>{3, 17, 20}, {100, 33, 300}, {7, 64, 1}, {7, 290, 30}})
      for (const Activation activation :
           {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh})
        for (const DType bias_type : {DType::f32, type})
          for (const bool keep : {false, true}) {
            const Case c{m, n, k, false, true, type, type};
            const Tensor a = c.a(), b = c.b(), bias = normal({n}, bias_type, 5);
            Tensor y = Tensor::empty({m, n}, type), z, sums = Tensor::empty({m, n});
            if (keep) z = Tensor::empty({m, n}, type);
            cpu::product(false, true, a, b, y, {.bias = bias, .activation = activation, .z = z});
            backend("reference").gemm(false, true, a, b, sums, false);
            sums = add(sums, bias.to(DType::f32));
            if (keep) expect_close(z, sums.to(type), k, c.str() + " argument");
            const auto which = static_cast<std::size_t>(activation);
            expect_close(y, (which > 0 ? ops[which - 1](sums) : sums).to(type), k, c.str());
            if (HasFatalFailure()) return;
          }
}

TEST_P(Products, DoNotDependOnTheNumberOfThreads) {
  const int before = compute_threads();
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      for (const auto& [m, n, type] : {std::tuple{260, 200, DType::f32},
                                       {7, 900, DType::f32},
                                       {900, 20, DType::f32},
                                       {260, 200, DType::bf16}}) {
        const Case c{m, n, 600, ta, tb, type, DType::f32};
        const Tensor a = c.a(), b = c.b();
        std::vector<Tensor> results;
        for (const int threads : {1, 2, 3, 7}) {
          set_compute_threads(threads);
          results.push_back(Tensor::empty({m, n}));
          cpu::product(ta, tb, a, b, results.back(), {});
        }
        set_compute_threads(before);
        for (const Tensor& r : results)
          EXPECT_TRUE(std::ranges::equal(r.span<float>(), results[0].span<float>())) << c.str();
      }
}

}  // namespace
}  // namespace gossamer
