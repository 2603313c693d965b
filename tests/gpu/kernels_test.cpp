// Fused passes on a GPU against the same passes on a CPU, where other tests compare them with the
// reference; and what only a GPU can show: more than 2^31 elements, recorded graphs, no waiting.
#include <algorithm>

#include "core/kernel_cases.h"
#include "gossamer/core/cuda.h"

namespace gossamer {
namespace {

using namespace testing;
const Device kGpu = Device::cuda(0);

class GpuKernels : public ::testing::TestWithParam<KernelCase> {};

Tensor slack_of(const Results& slack, const std::string& name) {
  const auto found = std::ranges::find(slack, name, &std::pair<std::string, Tensor>::first);
  return found == slack.end() ? Tensor() : found->second;
}

void compare(const KernelCase& c, const Results& want, const Results& got) {
  ASSERT_EQ(want.size(), got.size());
  const Results slack = c.slack ? c.slack() : Results{};
  for (std::size_t k = 0; k < want.size(); ++k) {
    const Tensor here = got[k].second.to(Device::cpu());
    if (c.relative == 0)
      expect_same_bits(here, want[k].second, want[k].first);
    else
      expect_close(here, want[k].second, c.relative, c.absolute, want[k].first,
                   slack_of(slack, want[k].first));
  }
}

TEST_P(GpuKernels, AgreeWithTheCpu) {
  if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_none();
  compare(GetParam(), GetParam().run(Device::cpu()), GetParam().run(kGpu));
}
INSTANTIATE_TEST_SUITE_P(All, GpuKernels, ::testing::ValuesIn(kernel_cases()),
                         [](const auto& one) { return one.param.name; });

// Without a GPU the cases themselves must run: a mistake in one would show only there.
TEST_P(GpuKernels, RunOnACpuTwiceWithTheSameBits) {
  const Results a = GetParam().run(Device::cpu()), b = GetParam().run(Device::cpu());
  for (std::size_t k = 0; k < a.size(); ++k) expect_same_bits(a[k].second, b[k].second, a[k].first);
}

TEST(GpuKernelsLarge, IndicesBeyondTwoToThe31AreRight) {
  if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_none();
  const i64 rows = (i64{1} << 31) / 64 + 1000;
  if (cuda::free_memory(kGpu).free < std::size_t{24} << 30)
    GTEST_SKIP() << "needs 24 GiB of free memory on the GPU";
  Tensor x = Tensor::full({rows, 64}, 1, DType::bf16, kGpu),
         y = Tensor::empty({rows, 64}, DType::bf16, kGpu);
  x.slice(rows - 3, rows).fill(2);
  const auto vector = [&](float v) { return Tensor::full({64}, v, DType::f32, kGpu); };
  const Norm n{x, vector(1), vector(-1), vector(0), vector(1), vector(3), vector(-1)};
  passes(kGpu).norm_apply(n, {.relu = true}, false, y);
  const Tensor row = y.slice(rows - 4, rows - 3).to(Device::cpu()).to(DType::f32),
               last = y.slice(rows - 3, rows).to(Device::cpu()).to(DType::f32);
  for (const float v : row.span<float>()) ASSERT_EQ(v, 2);
  for (const float v : last.span<float>()) ASSERT_EQ(v, 5);
  const Norm second{y, n.scale, n.shift, n.mean, n.inv_std, n.a, n.b};
  const Tensor scale = vector(0), shift = vector(0);
  passes(kGpu).norm_back(second, {}, {}, y, {x, scale, shift}, nullptr, nullptr);
  EXPECT_NEAR(shift.to(Device::cpu()).span<float>()[63], 2.0 * static_cast<double>(rows),
              1e-3 * static_cast<double>(rows));
}

TEST(GpuKernelsGraph, ARecordedUpdateReadsTheNumbersOfItsStep) {
  if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_none();
  static constexpr i64 n = 32 * 64;
  struct Side {
    explicit Side(Device d)
        : w(on(d, normal({n}, 1)).reshape({32, 64})),
          params({{"w", w}}, {}, {.separate = true}),
          rule{Tensor::zeros({n}, DType::f32, d), 0.9f, 0.01f, false},
          blocks{on(d, normal({n}, 2)), on(d, normal({n}, 4)), on(d, normal({n}, 5))},
          numbers(step_numbers(d)) {
      params.settle_grads();
      Tensor(params.grads()).copy_from(on(d, normal({n}, 3)));
    }
    void pass() { sgd_pass(params, rule, numbers, blocks); }
    Tensor w;
    FlatParams params;
    SgdRule rule;
    UpdateBlocks blocks;
    Tensor numbers;
  };
  Side here(Device::cpu()), there(kGpu);
  const cuda::Graph graph = cuda::Graph::capture(kGpu, [&] { there.pass(); });
  EXPECT_EQ(graph.nodes(), 1u);
  for (int step = 0; step < 4; ++step) {
    const StepNumbers now{.learning_rate = 0.1f / static_cast<float>(step + 1),
                          .mix_c = 0.9f,
                          .mix_s = 0.1f,
                          .jump_x = 0.5f,
                          .jump_twin = 0.6f,
                          .jump = step % 2};
    there.numbers.copy_from(raw(kGpu, &now, sizeof now));
    graph.launch(cuda::current_stream(kGpu));
    here.numbers.copy_from(raw({}, &now, sizeof now));
    here.pass();
  }
  expect_same_bits(there.params.values().to(Device::cpu()), here.params.values(), "values");
  expect_same_bits(there.blocks.twin.to(Device::cpu()), here.blocks.twin, "twin");
  expect_same_bits(there.rule.momentum.to(Device::cpu()), here.rule.momentum, "momentum");
}

TEST(GpuKernelsStream, NoPassWaitsForTheDevice) {
  if (cuda::device_count() == 0) GTEST_SKIP() << cuda::why_none();
  const Shape shape{8, 14, 14, 64};
  NormOn n(shape, DType::bf16, kGpu);
  Tensor y = Tensor::empty(shape, DType::bf16, kGpu);
  const NormGrads grads = grads_like(n);
  const auto step = [&] {
    passes(kGpu).norm_statistics(n, NormOn::kEps, {});
    const Tensor mask = passes(kGpu).norm_apply(n, {.relu = true}, true, y);
    passes(kGpu).norm_back(n, {.relu = true}, mask, y, grads, nullptr, nullptr);
  };
  step();  // the cache of memory is filled
  const std::uint64_t before = cuda::waits();
  for (int k = 0; k < 3; ++k) step();
  EXPECT_EQ(cuda::waits(), before);
}

}  // namespace
}  // namespace gossamer
