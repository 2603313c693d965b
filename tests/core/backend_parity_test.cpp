// Every call of the CPU's backends, with and without oneDNN, against the reference backend, over
// many shapes, in f32, bf16 and f16.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "gossamer/core/backend.h"
#include "gossamer/core/cpu/direct_conv.h"
#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/cpu/pointwise_conv.h"
#include "gossamer/core/cpu/winograd.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/random.h"

namespace gossamer {
namespace {

// All but the plain loops, and `cuda_emulated`, whose convolutions are those of `cpu`.
std::vector<std::string> engines() {
  std::vector<std::string> names = backend_names();
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("cpu"); });
  return names;
}

Tensor random_tensor(Shape shape, DType type, std::uint64_t seed, float offset = 0) {
  Rng rng(seed);
  Tensor t = Tensor::empty(shape);
  for (float& v : t.span<float>()) v = rng.normal() + offset;
  return t.to(type);
}

// Each element within `relative` of the largest expected value; results of 16 bits may also differ
// by one rounding.
void expect_close(const Tensor& got, const Tensor& want, float relative, const std::string& what) {
  const Tensor a = got.to(DType::f32), b = want.to(DType::f32);
  float largest = 0;
  for (const float v : b.span<float>()) largest = std::max(largest, std::abs(v));
  const float rounding = got.dtype() == DType::bf16  ? 0x1p-7f
                         : got.dtype() == DType::f16 ? 0x1p-10f
                                                     : 0.0f;
  i64 bad = 0;
  for (i64 i = 0; i < a.numel(); ++i) {
    const float x = a.as<float>()[i], y = b.as<float>()[i];
    if (!(std::abs(x - y) <= relative * largest + rounding * std::abs(y)) && bad++ == 0) {
      ADD_FAILURE() << what << ": element " << i << " is " << x << ", expected " << y
                    << " (largest " << largest << ")";
    }
  }
  EXPECT_EQ(bad, 0) << what << ": of " << a.numel();
}

ConvGeometry geometry(i64 n, i64 h, i64 w, i64 c, i64 k, i64 r, i64 s, int stride, int padding,
                      int dilation = 1, int groups = 1) {
  const auto out = [&](i64 in, i64 taps) {
    return (in + 2 * padding - dilation * (taps - 1) - 1) / stride + 1;
  };
  return {n, h, w, c, k, r, s, out(h, r), out(w, s), stride, padding, dilation, groups};
}

std::string text(const ConvGeometry& g, DType t) {
  std::ostringstream s;
  s << t << " x " << Shape{g.n, g.h, g.w, g.c} << " w " << Shape{g.k, g.r, g.s, g.c / g.groups}
    << " stride " << g.stride << " padding " << g.padding << " dilation " << g.dilation
    << " groups " << g.groups;
  return s.str();
}

void compare_convolutions(const std::string& engine, const ConvGeometry& g, DType type) {
  Backend &fast = backend(engine), &slow = backend("reference");
  const Tensor x = random_tensor({g.n, g.h, g.w, g.c}, type, 1),
               w = random_tensor({g.k, g.r, g.s, g.c / g.groups}, type, 2);
  const Tensor dy = random_tensor({g.n, g.ho, g.wo, g.k}, type, 3);
  // Filled with junk: results must be written, not added to.
  Tensor y1 = Tensor::full(dy.shape(), 7, type), y2 = Tensor::full(dy.shape(), 9, type);
  Tensor dx1 = Tensor::full(x.shape(), 7, type), dx2 = Tensor::full(x.shape(), 9, type);
  Tensor dw1 = Tensor::full(w.shape(), 7), dw2 = Tensor::full(w.shape(), 9);
  fast.conv(g, x, w, y1);
  slow.conv(g, x, w, y2);
  expect_close(y1, y2, 2e-5f, "conv " + text(g, type));
  fast.conv_dx(g, dy, w, dx1);
  slow.conv_dx(g, dy, w, dx2);
  expect_close(dx1, dx2, 2e-5f, "conv_dx " + text(g, type));
  fast.conv_dw(g, x, dy, dw1);
  slow.conv_dw(g, x, dy, dw2);
  expect_close(dw1, dw2, 2e-5f, "conv_dw " + text(g, type));
  Tensor sum = x.clone();
  if (fast.conv_dx_add(g, dy, w, sum)) {
    Tensor want = Tensor::empty(x.shape());
    slow.conv_dx(g, dy.to(DType::f32), w.to(DType::f32), want);
    expect_close(sum, add(want, x.to(DType::f32)), 2e-5f, "conv_dx_add " + text(g, type));
  }
  // In inference, with what follows the sums. Some round the sums to 16 bits before.
  const Tensor bias = random_tensor({g.k}, DType::f32, 4);
  const auto fast_weights = fast.pack_conv(w), slow_weights = slow.pack_conv(w);
  for (const bool add : {false, true})
    for (const bool relu : {false, true}) {
      y1 = add ? dy.clone() : Tensor::full(dy.shape(), std::nanf(""), type);
      y2 = y1.clone();
      fast.conv_inference(g, x, *fast_weights, {bias, add, relu}, y1);
      slow.conv_inference(g, x, *slow_weights, {bias, add, relu}, y2);
      const std::string what = std::string(add ? " add" : "") + (relu ? " relu" : "");
      expect_close(y1, y2, type == DType::f32 ? 2e-5f : 0x1p-7f,
                   "conv_inference " + text(g, type) + what);
    }
}

// On every set of kernels that this CPU can run.
class Parity : public testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  void SetUp() override { cpu::limit_kernels(std::get<0>(GetParam())); }
  void TearDown() override {
    cpu::limit_kernels("");
    set_compute_threads(threads_);
  }
  int threads_ = compute_threads();
  static DType type() { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, Parity,
                         testing::Combine(testing::ValuesIn(cpu::kernel_sets()),
                                          testing::Values(DType::f32, DType::bf16, DType::f16)),
                         [](const auto& i) {
                           return std::get<0>(i.param) + "_" + name_of(std::get<1>(i.param));
                         });

// Of each engine.
class ConvParity : public testing::TestWithParam<std::tuple<std::string, DType, std::string>> {
 protected:
  void SetUp() override { cpu::limit_kernels(std::get<0>(GetParam())); }
  void TearDown() override {
    cpu::limit_kernels("");
    set_compute_threads(threads_);
  }
  int threads_ = compute_threads();
  static DType type() { return std::get<1>(GetParam()); }
  static std::string engine() { return std::get<2>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, ConvParity,
                         testing::Combine(testing::ValuesIn(cpu::kernel_sets()),
                                          testing::Values(DType::f32, DType::bf16, DType::f16),
                                          testing::ValuesIn(engines())),
                         [](const auto& i) {
                           return std::get<2>(i.param) + "_" + std::get<0>(i.param) + "_" +
                                  name_of(std::get<1>(i.param));
                         });

// One of our own convolutions, whatever the engine would choose.
struct OwnConv {
  const char* name;
  void (*conv)(const ConvGeometry&, const Tensor& x, const Tensor& w, Tensor& y);
  void (*conv_dx)(const ConvGeometry&, const Tensor& dy, const Tensor& w, Tensor& dx);
  void (*conv_dx_add)(const ConvGeometry&, const Tensor& dy, const Tensor& w, Tensor& dx);
  void (*conv_dw)(const ConvGeometry&, const Tensor& x, const Tensor& dy, Tensor& dw);
  cpu::PackedWeights (*pack)(const ConvGeometry&, const Tensor& w);
  void (*inference)(const ConvGeometry&, const Tensor& x, const cpu::PackedWeights&,
                    const ConvTail&, Tensor& y);
};
constexpr OwnConv kDirect{"direct",        cpu::direct_conv,    cpu::direct_conv_dx,
                          nullptr,         cpu::direct_conv_dw, cpu::direct_pack,
                          cpu::direct_conv};
constexpr OwnConv kPointwise{"pointwise",
                             cpu::pointwise_conv,
                             cpu::pointwise_conv_dx,
                             cpu::pointwise_conv_dx_add,
                             cpu::pointwise_conv_dw,
                             nullptr,
                             nullptr};
constexpr OwnConv kWinograd{"Winograd",
                            cpu::winograd_conv,
                            cpu::winograd_conv_dx,
                            cpu::winograd_conv_dx_add,
                            cpu::winograd_conv_dw,
                            cpu::winograd_pack,
                            cpu::winograd_conv};

void compare_alone(const OwnConv& own, const ConvGeometry& g) {
  const std::string what = std::string(own.name) + " of " + text(g, DType::f32);
  Backend& slow = backend("reference");
  const DType type = DType::f32;
  const Tensor x = random_tensor({g.n, g.h, g.w, g.c}, type, 1),
               w = random_tensor({g.k, g.r, g.s, g.c / g.groups}, type, 2),
               dy = random_tensor({g.n, g.ho, g.wo, g.k}, type, 3),
               bias = random_tensor({g.k}, type, 4);
  const auto junk = [](const Tensor& like) { return Tensor::full(like.shape(), std::nanf("")); };
  Tensor y1 = junk(dy), y2 = junk(dy), dx1 = junk(x), dx2 = junk(x), dw1 = junk(w), dw2 = junk(w);
  own.conv(g, x, w, y1);
  slow.conv(g, x, w, y2);
  expect_close(y1, y2, 2e-5f, "conv " + what);
  own.conv_dx(g, dy, w, dx1);
  slow.conv_dx(g, dy, w, dx2);
  expect_close(dx1, dx2, 2e-5f, "conv_dx " + what);
  if (own.conv_dx_add) {
    dx1.copy_from(x);
    own.conv_dx_add(g, dy, w, dx1);
    expect_close(dx1, add(dx2, x), 2e-5f, "conv_dx_add " + what);
  }
  own.conv_dw(g, x, dy, dw1);
  slow.conv_dw(g, x, dy, dw2);
  expect_close(dw1, dw2, 2e-5f, "conv_dw " + what);
  if (!own.pack || g.groups > 1) return;
  const cpu::PackedWeights packed = own.pack(g, w);
  const auto slow_weights = slow.pack_conv(w);
  for (const bool add : {false, true})
    for (const bool relu : {false, true}) {
      y1 = add ? dy.clone() : junk(dy);
      y2 = y1.clone();
      own.inference(g, x, packed, {bias, add, relu}, y1);
      slow.conv_inference(g, x, *slow_weights, {bias, add, relu}, y2);
      expect_close(y1, y2, 2e-5f,
                   "inference " + what + (add ? " add" : "") + (relu ? " relu" : ""));
    }
}

class Alone : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { cpu::limit_kernels(GetParam()); }
  void TearDown() override {
    cpu::limit_kernels("");
    set_compute_threads(threads_);
  }
  int threads_ = compute_threads();
};
INSTANTIATE_TEST_SUITE_P(All, Alone, testing::ValuesIn(cpu::kernel_sets()),
                         [](const auto& i) { return i.param; });

TEST_P(Alone, DirectConvolutionsOfAnyShape) {
  for (const int threads : {1, 3}) {
    set_compute_threads(threads);
    for (const auto& g :
         {geometry(3, 9, 7, 32, 64, 3, 3, 2, 1),       geometry(2, 8, 8, 64, 128, 1, 1, 2, 0),
          geometry(1, 32, 30, 3, 16, 7, 7, 2, 3),      geometry(3, 10, 9, 40, 24, 1, 1, 2, 0),
          geometry(2, 11, 8, 16, 16, 5, 5, 3, 2),      geometry(5, 8, 8, 272, 48, 3, 3, 2, 1),
          geometry(2, 7, 7, 400, 21, 1, 1, 1, 0),      geometry(1, 6, 6, 5, 7, 3, 2, 1, 1),
          geometry(2, 8, 8, 20, 12, 3, 3, 1, 2),       geometry(2, 6, 5, 1, 1, 3, 3, 1, 0),
          geometry(1, 10, 10, 16, 16, 3, 3, 1, 2),     geometry(2, 9, 9, 17, 33, 3, 3, 1, 2, 2),
          geometry(1, 12, 12, 24, 4, 3, 3, 2, 3, 3),   geometry(1, 1, 1, 16, 260, 1, 1, 1, 0),
          geometry(7, 16, 17, 3, 33, 3, 3, 1, 1),      geometry(2, 8, 9, 32, 32, 3, 3, 1, 1, 1, 2),
          geometry(2, 9, 7, 80, 40, 3, 3, 2, 1, 1, 2), geometry(1, 7, 7, 24, 24, 3, 3, 1, 1, 1, 24),
          geometry(2, 8, 8, 6, 9, 3, 3, 2, 1, 2, 3),   geometry(2, 5, 5, 64, 16, 1, 1, 1, 0, 1, 4)})
      compare_alone(kDirect, g);
  }
}

TEST_P(Alone, PointwiseConvolutionsWithAndWithoutAStride) {
  for (const int threads : {1, 3}) {
    set_compute_threads(threads);
    for (const auto& g :
         {geometry(2, 8, 8, 64, 128, 1, 1, 2, 0), geometry(3, 7, 9, 40, 24, 1, 1, 2, 0),
          geometry(2, 7, 7, 400, 21, 1, 1, 1, 0), geometry(3, 9, 7, 5, 16, 1, 1, 3, 0),
          geometry(1, 1, 1, 16, 260, 1, 1, 1, 0)})
      compare_alone(kPointwise, g);
  }
}

TEST_P(Alone, WinogradWithAndWithoutAStride) {
  for (const int threads : {1, 3}) {
    set_compute_threads(threads);
    for (const auto& g :
         {geometry(2, 8, 8, 32, 64, 3, 3, 2, 1), geometry(3, 9, 7, 16, 32, 3, 3, 2, 1),
          geometry(1, 13, 22, 48, 16, 3, 3, 2, 1), geometry(5, 1, 2, 16, 16, 3, 3, 2, 1),
          geometry(40, 7, 8, 16, 80, 3, 3, 2, 1), geometry(40, 6, 5, 32, 16, 3, 3, 1, 1)})
      compare_alone(kWinograd, g);
  }
}

// As the engines run them: each kernel that some layer of a ResNet needs.
TEST_P(ConvParity, ConvolutionsDoNotDependOnTheNumberOfThreads) {
  for (const auto& g :
       {geometry(16, 32, 32, 16, 16, 3, 3, 1, 1), geometry(40, 8, 8, 64, 64, 3, 3, 1, 1),
        geometry(1, 14, 14, 64, 96, 3, 3, 1, 1), geometry(1, 7, 7, 96, 80, 3, 3, 1, 1),
        geometry(9, 16, 16, 64, 128, 3, 3, 2, 1), geometry(9, 14, 14, 64, 96, 3, 3, 2, 1),
        geometry(9, 17, 16, 16, 32, 3, 3, 2, 1), geometry(9, 16, 16, 64, 128, 1, 1, 2, 0),
        geometry(9, 7, 7, 256, 64, 1, 1, 1, 0), geometry(9, 32, 32, 3, 64, 7, 7, 2, 3),
        geometry(9, 16, 16, 3, 16, 3, 3, 1, 1), geometry(9, 8, 8, 32, 32, 3, 3, 1, 1, 1, 4)}) {
    const Tensor x = random_tensor({g.n, g.h, g.w, g.c}, type(), 1),
                 w = random_tensor({g.k, g.r, g.s, g.c / g.groups}, type(), 2),
                 dy = random_tensor({g.n, g.ho, g.wo, g.k}, type(), 3);
    std::vector<std::vector<float>> first;
    for (const int threads : {1, 2, 3, 16}) {
      set_compute_threads(threads);
      std::array<Tensor, 3> all{Tensor::empty(dy.shape(), type()), Tensor::empty(x.shape(), type()),
                                Tensor::empty(w.shape())};
      Backend& used = backend(engine());
      used.conv(g, x, w, all[0]);
      used.conv_dx(g, dy, w, all[1]);
      used.conv_dw(g, x, dy, all[2]);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const Tensor result = all[i].to(DType::f32);
        const auto numbers = result.span<float>();
        if (threads == 1)
          first.emplace_back(numbers.begin(), numbers.end());
        else
          EXPECT_TRUE(std::ranges::equal(numbers, first[i]))
              << text(g, type()) << ", pass " << i << ", " << threads << " threads";
      }
    }
  }
}

TEST_P(ConvParity, ThreeByThreeConvolutionsOfResidualNetworks) {
  for (const auto& g :
       {geometry(3, 8, 8, 16, 16, 3, 3, 1, 1), geometry(2, 16, 16, 32, 32, 3, 3, 1, 1),
        geometry(5, 8, 8, 64, 64, 3, 3, 1, 1), geometry(4, 4, 4, 128, 128, 3, 3, 1, 1),
        geometry(2, 7, 7, 64, 32, 3, 3, 1, 1), geometry(1, 14, 9, 32, 96, 3, 3, 1, 1),
        geometry(2, 5, 6, 48, 80, 3, 3, 1, 1), geometry(3, 2, 3, 16, 32, 3, 3, 1, 1),
        geometry(1, 1, 1, 16, 16, 3, 3, 1, 1)})
    compare_convolutions(engine(), g, type());
}

TEST_P(ConvParity, ManyTilesAreSplitOverThreadsWithoutSeams) {
  for (const int threads : {1, 2, 3}) {
    set_compute_threads(threads);
    compare_convolutions(engine(), geometry(9, 12, 12, 16, 16, 3, 3, 1, 1), type());
    compare_convolutions(engine(), geometry(7, 6, 10, 32, 64, 3, 3, 1, 1), type());
    // fewer images than threads: rows are shared out
    compare_convolutions(engine(), geometry(1, 28, 27, 32, 64, 3, 3, 2, 1), type());
    compare_convolutions(engine(), geometry(1, 40, 37, 3, 64, 7, 7, 2, 3), type());
    compare_convolutions(engine(), geometry(1, 17, 16, 64, 128, 1, 1, 1, 0), type());
  }
}

// The forms of the weights are made when the first image needs them, from what is left of others.
TEST_P(ConvParity, PackedWeightsServeImagesOfAnySizeInAnyOrder) {
  Backend &fast = backend(engine()), &slow = backend("reference");
  for (const int window : {1, 3}) {
    const Tensor w = random_tensor({48, window, window, 32}, type(), 1),
                 bias = random_tensor({48}, DType::f32, 2);
    const auto weights = fast.pack_conv(w), slow_weights = slow.pack_conv(w);
    const auto compare = [&](i64 side) {
      const auto g = geometry(2, side, side, 32, 48, window, window, 1, window / 2);
      const Tensor x = random_tensor({g.n, side, side, 32}, type(), 3);
      Tensor y1 = Tensor::zeros({g.n, g.ho, g.wo, g.k}, type()), y2 = y1.clone();
      fast.conv_inference(g, x, *weights, {bias}, y1);
      slow.conv_inference(g, x, *slow_weights, {bias}, y2);
      expect_close(y1, y2, type() == DType::f32 ? 2e-5f : 0x1p-7f, text(g, type()));
    };
    for (const i64 side : {3, 24, 3, 5, 24}) compare(side);
    std::vector<std::thread> threads;
    for (const i64 side : {4, 28, 6, 20}) threads.emplace_back([&, side] { compare(side); });
    for (std::thread& t : threads) t.join();
    const Tensor same = weights->weights();
    EXPECT_EQ(same.shape(), w.shape());
    EXPECT_EQ(std::memcmp(same.data(), w.data(), w.bytes()), 0) << type();
  }
}

TEST_P(ConvParity, StridedConvolutions) {
  for (const auto& g :
       {geometry(2, 8, 8, 16, 32, 3, 3, 2, 1), geometry(3, 9, 7, 32, 64, 3, 3, 2, 1),
        geometry(2, 8, 8, 64, 128, 1, 1, 2, 0), geometry(1, 32, 32, 3, 16, 7, 7, 2, 3),
        geometry(2, 11, 8, 16, 16, 5, 5, 3, 2), geometry(2, 8, 8, 64, 96, 3, 3, 2, 1),
        geometry(3, 7, 7, 64, 112, 1, 1, 1, 0), geometry(2, 10, 10, 72, 64, 3, 3, 2, 1),
        geometry(3, 8, 16, 32, 64, 3, 3, 2, 1), geometry(2, 15, 7, 48, 32, 3, 3, 2, 1)})
    compare_convolutions(engine(), g, type());
}

TEST_P(ConvParity, StemPointwiseAndOddConvolutions) {
  for (const auto& g :
       {geometry(4, 16, 16, 3, 16, 3, 3, 1, 1), geometry(2, 9, 13, 3, 64, 3, 3, 1, 1),
        geometry(2, 7, 7, 64, 256, 1, 1, 1, 0), geometry(2, 6, 5, 1, 1, 3, 3, 1, 0),
        geometry(1, 6, 6, 5, 7, 3, 2, 1, 1), geometry(2, 8, 8, 20, 12, 3, 3, 1, 2),
        geometry(1, 10, 10, 16, 16, 3, 3, 1, 0), geometry(1, 10, 10, 16, 16, 3, 3, 1, 2)})
    compare_convolutions(engine(), g, type());
}

TEST_P(ConvParity, DilatedAndGroupedConvolutions) {
  for (const auto& g :
       {geometry(2, 9, 9, 16, 16, 3, 3, 1, 2, 2), geometry(1, 12, 12, 8, 4, 3, 3, 2, 3, 3),
        geometry(2, 8, 8, 32, 32, 3, 3, 1, 1, 1, 2), geometry(2, 8, 8, 64, 64, 3, 3, 1, 1, 1, 4),
        geometry(1, 7, 7, 24, 24, 3, 3, 1, 1, 1, 24), geometry(2, 6, 6, 6, 9, 3, 3, 2, 1, 1, 3)})
    compare_convolutions(engine(), g, type());
}

TEST_P(Parity, GemmWithTransposesAndAddition) {
  const DType type = this->type();
  for (const auto& [m, n, k] :
       {std::array<i64, 3>{128, 10, 64}, {1, 1, 1}, {7, 5, 3}, {33, 64, 17}, {10, 64, 128}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const bool add : {false, true})
          for (const DType out : {DType::f32, type}) {
            const Tensor a = random_tensor(ta ? Shape{k, m} : Shape{m, k}, type, 4),
                         b = random_tensor(tb ? Shape{n, k} : Shape{k, n}, type, 5);
            Tensor c1 = random_tensor({m, n}, out, 6), c2 = c1.clone();
            if (!add) c1.fill(std::nanf(""));
            backend("cpu").gemm(ta, tb, a, b, c1, add);
            backend("reference").gemm(ta, tb, a, b, c2, add);
            std::ostringstream s;
            s << "gemm " << type << " -> " << out << " " << m << " " << n << " " << k << " " << ta
              << tb << " add " << add;
            expect_close(c1, c2, 2e-6f, s.str());
          }
}

void compare_batch_norms(Shape shape, DType type, bool relu, bool with_add, float offset) {
  Backend &fast = backend("cpu"), &slow = backend("reference");
  const i64 c = shape[-1];
  std::ostringstream s;
  s << type << " " << shape << " relu " << relu << " add " << with_add << " offset " << offset
    << ": ";
  const std::string what = s.str();
  const Tensor add = random_tensor(shape, type, 2), dy = random_tensor(shape, type, 3, 0.5f);
  const auto vector = [&] { return Tensor::empty({c}); };
  const auto like = [&] { return Tensor::empty(shape, type); };
  Norm n1{random_tensor(shape, type, 1, offset),
          random_tensor({c}, DType::f32, 4),
          random_tensor({c}, DType::f32, 5),
          vector(),
          vector(),
          vector(),
          vector()};
  Norm n2{n1.x, n1.scale, n1.shift, vector(), vector(), vector(), vector()};
  const NormTail tail{.add = with_add ? &add : nullptr, .relu = relu};
  fast.norm_statistics(n1, 1e-5f, {});
  slow.norm_statistics(n2, 1e-5f, {});
  expect_close(n1.mean, n2.mean, 1e-5f, what + "mean");
  expect_close(n1.inv_std, n2.inv_std, 1e-5f, what + "inv_std");
  Tensor y1 = like(), y2 = like(), y3 = like();
  fast.norm_apply(n1, tail, true, y1);
  slow.norm_apply(n2, tail, true, y2);
  expect_close(y1, y2, 2e-5f, what + "y");
  fast.norm_apply(n2, tail, true, y3);
  expect_close(y3, y2, 2e-5f, what + "apply");

  for (const bool given : {false, true}) {
    n2.given = given;
    const NormGrads g1{like(), vector(), vector()}, g2{like(), vector(), vector()};
    Tensor da1 = like(), da2 = like();
    fast.norm_back(n2, tail, y2, dy, g1, nullptr, with_add ? &da1 : nullptr);
    slow.norm_back(n2, tail, y2, dy, g2, nullptr, with_add ? &da2 : nullptr);
    expect_close(g1.dx, g2.dx, 2e-5f, what + "dx");
    expect_close(g1.d_scale, g2.d_scale, 2e-5f, what + "d_scale");
    expect_close(g1.d_shift, g2.d_shift, 2e-5f, what + "d_shift");
    if (with_add) expect_close(da1, da2, 0, what + "d_add");
  }
}

TEST_P(Parity, BatchNormOfManyWidths) {
  for (const auto& shape :
       {Shape{4, 8, 8, 16}, Shape{2, 9, 7, 32}, Shape{3, 5, 5, 64}, Shape{2, 3, 3, 128},
        Shape{2, 4, 4, 512}, Shape{5, 3, 3, 24}, Shape{7, 3, 1, 3}, Shape{300, 7}, Shape{33, 80},
        Shape{64, 1}, Shape{129, 100}})
    for (const bool relu : {false, true})
      for (const bool add : {false, true}) compare_batch_norms(shape, type(), relu, add, 0);
}

TEST_P(Parity, BatchNormOnSeveralThreads) {
  for (const int threads : {2, 3}) {
    set_compute_threads(threads);
    for (const auto& shape : {Shape{16, 16, 17, 16}, Shape{8, 16, 16, 72}, Shape{11, 25, 25, 32}})
      compare_batch_norms(shape, type(), true, true, 0);
  }
}

TEST_P(Parity, BatchNormKeepsItsDigitsFarFromZero) {
  compare_batch_norms({16, 8, 8, 32}, type(), true, false, 100);
}

TEST_P(Parity, NotANumberIsNotHiddenByRelu) {
  Tensor x = random_tensor({8, 4, 4, 16}, DType::f32, 1);
  x.as<float>()[5] = std::nanf("");
  x = x.to(type());
  const Tensor one = Tensor::full({16}, 1), zero = Tensor::zeros({16});
  Tensor y = Tensor::empty(x.shape(), type());
  backend("cpu").norm_apply({x, one, zero, zero, one, one, zero}, {.relu = true}, true, y);
  EXPECT_TRUE(std::isnan(y.to(DType::f32).as<float>()[5]));
}

TEST_P(ConvParity, TwoThreadsMayConvolveAtOnce) {
  const auto g = geometry(4, 8, 8, 16, 32, 3, 3, 2, 1);
  const Tensor x = random_tensor({g.n, g.h, g.w, g.c}, type(), 1),
               w = random_tensor({g.k, g.r, g.s, g.c}, type(), 2);
  Tensor want = Tensor::empty({g.n, g.ho, g.wo, g.k}, type()),
         got[2] = {want.clone(), want.clone()};
  backend("reference").conv(g, x, w, want);
  const auto work = [&](Tensor& y) {
    set_compute_threads(1);
    for (int i = 0; i < 20; ++i) backend(engine()).conv(g, x, w, y);
  };
  std::thread other(work, std::ref(got[1]));
  work(got[0]);
  other.join();
  for (const Tensor& y : got) expect_close(y, want, 2e-5f, "conv of two threads");
}

TEST_P(ConvParity, ManyRowsDoNotBlurTheSums) {
  // A CIFAR layer of batch 32: 32,768 terms in each sum of the weight gradient.
  const auto g = geometry(32, 32, 32, 16, 16, 3, 3, 1, 1);
  const Tensor x = random_tensor({g.n, g.h, g.w, g.c}, type(), 1, 0.5f),
               dy = random_tensor({g.n, g.ho, g.wo, g.k}, type(), 2, 0.1f);
  Tensor got = Tensor::empty({g.k, g.r, g.s, g.c}), want = Tensor::empty(got.shape());
  backend(engine()).conv_dw(g, x, dy, got);
  backend("reference").conv_dw(g, x, dy, want);
  expect_close(got, want, 2e-5f, "conv_dw of many rows");
}

TEST_P(ConvParity, TheSameCallTwiceGivesTheSameBits) {
  set_compute_threads(2);
  const auto g = geometry(16, 8, 8, 32, 32, 3, 3, 1, 1);
  const Tensor x = random_tensor({g.n, g.h, g.w, g.c}, type(), 1),
               dy = random_tensor({g.n, g.ho, g.wo, g.k}, type(), 2);
  Tensor a = Tensor::empty({g.k, g.r, g.s, g.c}), b = Tensor::empty(a.shape());
  backend(engine()).conv_dw(g, x, dy, a);
  backend(engine()).conv_dw(g, x, dy, b);
  EXPECT_TRUE(std::ranges::equal(a.span<float>(), b.span<float>()));
}

}  // namespace
}  // namespace gossamer
