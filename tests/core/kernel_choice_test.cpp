// Which kernels the CPU engine runs: its own, from the best set that this CPU has and a limit
// allows, wherever the tables of core/cpu/engine.cpp say that they are faster. A kernel that is not
// chosen computes the same, so no other test would see it.
#include <sstream>

#include <gtest/gtest.h>

#include "gossamer/core/backend.h"
#include "gossamer/core/cpu/kernel_sets.h"
#include "gossamer/core/cpu/onednn_calls.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/parallel.h"

namespace gossamer {
namespace {

using cpu::Kernel;

// The best set that CPUID allows; the build has all of them.
std::string best_of_cpu() {
#if defined(__x86_64__)
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512cd");
  return avx512 ? "avx512" : "avx2";
#else
  return "neon";
#endif
}

// One image.
ConvGeometry conv_of(i64 side, i64 c, i64 k, int kernel, int stride) {
  const int padding = kernel / 2;
  const i64 out = (side + 2 * padding - kernel) / stride + 1;
  return {1, side, side, c, k, kernel, kernel, out, out, stride, padding, 1, 1};
}

struct Choice : ::testing::TestWithParam<std::string> {
  Choice() { cpu::limit_kernels(GetParam()); }
  ~Choice() override { cpu::limit_kernels(""); }

  // What ran `kernel` during `call`, which must be of the set in use.
  static void expect_ours(Kernel kernel, const std::string& what, FunctionRef<void()> call) {
    cpu::forget_runs();
    call();
    EXPECT_EQ(cpu::ran_from(kernel), GetParam()) << what;
  }
  static void expect_onednn(const std::string& what, FunctionRef<void()> call) {
    cpu::forget_runs();
    call();
    for (const Kernel k : {Kernel::product, Kernel::direct, Kernel::winograd})
      EXPECT_EQ(cpu::ran_from(k), "") << what;
  }

  Backend& engine = backend("cpu");
};
INSTANTIATE_TEST_SUITE_P(Sets, Choice, ::testing::ValuesIn(cpu::kernel_sets()),
                         [](const auto& set) { return set.param; });

TEST(KernelChoice, StartsWithTheBestSetOfTheCpu) {
  EXPECT_EQ(cpu::kernel_sets().front(), best_of_cpu());
  EXPECT_EQ(cpu::kernel_set(), best_of_cpu());
}

TEST_P(Choice, ConvolutionsOfOurOwn) {
  const auto run = [&](const ConvGeometry& g, Kernel forward, Kernel dx, Kernel dw) {
    const Tensor x = Tensor::zeros({g.n, g.h, g.w, g.c}), w = Tensor::zeros({g.k, g.r, g.s, g.c}),
                 dy = Tensor::zeros({g.n, g.ho, g.wo, g.k});
    Tensor y = dy.clone(), d = x.clone(), e = w.clone();
    std::ostringstream what;
    what << g.r << "x" << g.s << " / " << g.stride << ", " << g.h << " pixels, " << g.c << " to "
         << g.k;
    const auto expect = [&](Kernel kernel, const char* form, FunctionRef<void()> call) {
      if (kernel == Kernel::count)
        expect_onednn(what.str() + form, call);
      else
        expect_ours(kernel, what.str() + form, call);
    };
    expect(forward, " forward", [&] { engine.conv(g, x, w, y); });
    expect(dx, " dx", [&] { engine.conv_dx(g, dy, w, d); });
    expect(dw, " dw", [&] { engine.conv_dw(g, x, dy, e); });
  };
  const bool avx2 = GetParam() == "avx2", avx512 = GetParam() == "avx512",
             onednn = cpu::has_onednn();
  const Kernel on_avx2 = avx2 || !onednn ? Kernel::direct : Kernel::count,
               on_x86 = avx2 || avx512 || !onednn ? Kernel::direct : Kernel::count;
  for (const i64 channels : {16, 64, 512})
    run(conv_of(8, channels, channels, 3, 1), Kernel::winograd, Kernel::winograd, Kernel::winograd);
  run(conv_of(56, 64, 128, 3, 2), Kernel::winograd, Kernel::winograd, Kernel::winograd);
  run(conv_of(14, 256, 512, 3, 2), on_avx2, on_avx2, on_x86);
  for (const int stride : {1, 2})
    run(conv_of(7, 512, 2048, 1, stride), Kernel::product, Kernel::product, Kernel::product);
}

// The stem of a ResNet, groups, dilation, and a stride that does not fit.
TEST_P(Choice, WithoutOneDnnEveryConvolutionIsOurs) {
  Backend& own = backend(cpu::has_onednn() ? "cpu_own" : "cpu");
  ConvGeometry grouped = conv_of(8, 16, 16, 3, 1), dilated = conv_of(9, 16, 16, 3, 1);
  grouped.groups = 4;
  dilated.dilation = dilated.padding = 2;
  for (const ConvGeometry& g : {conv_of(32, 3, 64, 7, 2), conv_of(14, 256, 512, 3, 2),
                                conv_of(9, 40, 24, 5, 3), grouped, dilated}) {
    const Tensor x = Tensor::zeros({g.n, g.h, g.w, g.c}),
                 w = Tensor::zeros({g.k, g.r, g.s, g.c / g.groups}),
                 dy = Tensor::zeros({g.n, g.ho, g.wo, g.k}), bias = Tensor::zeros({g.k});
    Tensor y = dy.clone(), d = x.clone(), e = w.clone();
    expect_ours(Kernel::direct, "forward", [&] { own.conv(g, x, w, y); });
    expect_ours(Kernel::direct, "dx", [&] { own.conv_dx(g, dy, w, d); });
    expect_ours(Kernel::direct, "dw", [&] { own.conv_dw(g, x, dy, e); });
    expect_ours(Kernel::direct, "inference",
                [&] { own.conv_inference(g, x, *own.pack_conv(w), {bias}, y); });
  }
}

TEST_P(Choice, ProductsOfOurOwn) {
  const Tensor x = Tensor::zeros({32, 64}), w = Tensor::zeros({96, 64}), bias = Tensor::zeros({96});
  Tensor y = Tensor::zeros({32, 96});
  expect_ours(Kernel::product, "with a bias",
              [&] { EXPECT_TRUE(engine.linear(x, w, bias, Activation::gelu, y, {})); });
  for (const i64 rows : {1, 8, 32})
    expect_ours(Kernel::product, "rows of f32", [&] {
      Tensor some = y.slice(0, rows);
      engine.gemm(false, true, x.slice(0, rows), w, some, false);
    });
  for (const DType type : {DType::bf16, DType::f16}) {
    const Tensor half = x.to(type), weights = w.to(type);
    Tensor out = y.to(type);
    const auto product = [&] { engine.gemm(false, true, half, weights, out, false); };
    if (type == DType::bf16 && GetParam() == "avx512" && cpu::multiplies_bf16_tiles())
      expect_ours(Kernel::bf16_tiles, "bf16", product);
    else if (type == DType::bf16 && GetParam() != "avx2" && cpu::multiplies_bf16_pairs())
      expect_ours(Kernel::bf16_pairs, "bf16", product);
    else
      expect_ours(Kernel::product, type == DType::bf16 ? "bf16" : "f16", product);
  }
}

TEST_P(Choice, Norms) {
  const Tensor x = Tensor::zeros({4, 4, 4, 16});
  Norm n;
  n.x = x;
  for (Tensor* t : {&n.scale, &n.shift, &n.mean, &n.inv_std, &n.a, &n.b}) *t = Tensor::zeros({16});
  Tensor y = x.clone(), mask;
  expect_ours(Kernel::batch_norm, "statistics", [&] { engine.norm_statistics(n, 1e-5f, {}); });
  expect_ours(Kernel::batch_norm, "forward",
              [&] { mask = engine.norm_apply(n, {.relu = true}, true, y); });
  const NormGrads grads{x.clone(), Tensor::zeros({16}), Tensor::zeros({16})};
  expect_ours(Kernel::batch_norm, "backward",
              [&] { engine.norm_back(n, {.relu = true}, mask, y, grads, nullptr, nullptr); });

  const Tensor rows = Tensor::zeros({8, 32}), scale = Tensor::zeros({32});
  const RowNorm row{rows, scale, scale, 1e-5f, Tensor::zeros({8}), Tensor::zeros({8})};
  Tensor out = rows.clone(), dx = rows.clone();
  expect_ours(Kernel::layer_norm, "forward",
              [&] { engine.layer_norm(row, nullptr, nullptr, out); });
  expect_ours(Kernel::layer_norm, "backward",
              [&] { engine.layer_norm_back(row, out, false, dx, scale.clone(), scale.clone()); });
}

TEST_P(Choice, AttentionAndLoss) {
  const Tensor q = Tensor::zeros({1, 8, 32}), labels = Tensor::zeros({8}, DType::i32);
  const PackedRows rows{q, 0, 32};
  const Attention a{.batch = 1,
                    .heads = 2,
                    .kv_heads = 2,
                    .queries = 8,
                    .keys = 8,
                    .size = 16,
                    .causal = true,
                    .first = 0,
                    .window = 0,
                    .dropout = 0,
                    .seed = 0,
                    .stream = {},
                    .q = rows,
                    .k = rows,
                    .v = rows,
                    .lengths = {},
                    .begins = {}};
  Tensor y = q.clone(), sums = Tensor::zeros({1, 2, 8});
  expect_ours(Kernel::attention, "forward", [&] { engine.attention(a, y, sums); });
  const PackedRows gradient{q.clone(), 0, 32};
  expect_ours(Kernel::attention, "backward",
              [&] { engine.attention_back(a, y, sums, q, gradient, gradient, gradient); });
  const Tensor logits = Tensor::zeros({8, 10});
  Tensor losses = Tensor::zeros({8});
  expect_ours(Kernel::loss, "loss",
              [&] { engine.softmax_loss(logits, labels, {}, losses, logits.clone()); });
}

}  // namespace
}  // namespace gossamer
