// Every op that calls a backend, on every backend of this build, against the reference backend:
// results and all gradients. Elementwise ops against their formulas in double.
#include <algorithm>

#include <gtest/gtest.h>

#include "core/ops/op_cases.h"
#include "core/ops/op_results.h"
#include "gossamer/core/backend.h"
#include "gossamer/core/cpu/kernel_sets.h"

namespace gossamer::testing {
namespace {

std::vector<Tensor> results_on(const std::string& name, const OpCase& c,
                               const std::vector<Tensor>& inputs) {
  const UseBackend use(name);
  return results_of(c, inputs);
}

void compare_all(DType type) {
  for (const std::string& name : backend_names())
    for (const OpCase& c : op_cases()) {
      if (name == "reference" || !c.backend) continue;
      SCOPED_TRACE(name + ": " + label_of(c));
      const std::vector<Tensor> inputs = inputs_in(type, c);
      const auto want = results_on("reference", c, inputs), got = results_on(name, c, inputs);
      for (std::size_t k = 0; k < want.size(); ++k) {
        float top = 0.05f;
        for (const float v : want[k].span<float>()) top = std::max(top, std::fabs(v));
        // f32: eps times the root of the length of the sum; 16 bits: the results (and the y that a
        // ReLU masks with) are rounded once more.
        const float eps = type == DType::f32    ? 0x1p-21f * std::sqrt(static_cast<float>(c.terms))
                          : type == DType::bf16 ? 0x1p-7f
                                                : 0x1p-10f;
        for (std::size_t i = 0; i < static_cast<std::size_t>(want[k].numel()); ++i)
          ASSERT_NEAR(got[k].span<float>()[i], want[k].span<float>()[i], eps * top)
              << (k ? "gradient of input " : "result ") << k << ", element " << i;
      }
    }
}

TEST(OpParity, EveryBackendAgreesWithTheReferenceInFloat32) { compare_all(DType::f32); }
TEST(OpParity, EveryBackendAgreesWithTheReferenceInBfloat16) { compare_all(DType::bf16); }
TEST(OpParity, EveryBackendAgreesWithTheReferenceInFloat16) { compare_all(DType::f16); }

// Finite differences show that an op's gradient fits its formula, not that the formula is right.
TEST(OpParity, ElementwiseOpsAgreeWithTheirFormulaInDouble) {
  int compared = 0;
  for (const OpCase& c : op_cases()) {
    if (!c.formula) continue;
    SCOPED_TRACE(label_of(c));
    const std::vector<Tensor> inputs = draw_inputs(c, 41);
    const Tensor y = c.run(inputs);
    const auto a = inputs.front().span<float>(), b = inputs.back().span<float>();
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double want =
          c.formula(static_cast<double>(a[i]), static_cast<double>(b[i % b.size()]));
      ASSERT_NEAR(static_cast<double>(y.span<float>()[i]), want, 1e-6 * (1 + std::fabs(want)))
          << "element " << i;
    }
    ++compared;
  }
  EXPECT_GE(compared, 44);
}

Tensor random_normal(const Shape& shape, std::uint64_t seed) {
  Tensor t = Tensor::empty(shape);
  Rng rng(seed);
  for (float& v : t.span<float>()) v = rng.normal();
  return t;
}

// A backend that declines leaves dx alone. The CPU engine adds with kernels of its own, from every
// set that this CPU has.
class AddingInPlace : public ::testing::TestWithParam<std::string> {
  void SetUp() override { cpu::limit_kernels(GetParam()); }
  void TearDown() override { cpu::limit_kernels(""); }
};

TEST_P(AddingInPlace, AddsTheGradientOrDeclines) {
  struct Case {
    ConvGeometry g;
    bool engine_adds;
  };
  for (const auto& [g, engine_adds] : {Case{{2, 6, 5, 64, 32, 1, 1, 6, 5, 1, 0, 1, 1}, true},
                                       Case{{2, 6, 5, 64, 32, 1, 1, 3, 3, 2, 0, 1, 1}, true},
                                       Case{{2, 6, 5, 32, 16, 3, 3, 6, 5, 1, 1, 1, 1}, true},
                                       Case{{2, 8, 8, 32, 16, 3, 3, 4, 4, 2, 1, 1, 1}, true},
                                       Case{{2, 6, 5, 32, 16, 3, 3, 3, 3, 2, 1, 1, 1}, false},
                                       Case{{2, 6, 5, 8, 4, 3, 3, 6, 5, 1, 1, 1, 2}, false}}) {
    const Tensor dy = random_normal({g.n, g.ho, g.wo, g.k}, 1),
                 w = random_normal({g.k, g.r, g.s, g.c / g.groups}, 2),
                 before = random_normal({g.n, g.h, g.w, g.c}, 3);
    Tensor alone = Tensor::empty(before.shape());
    backend("reference").conv_dx(g, dy, w, alone);
    for (const std::string& name : backend_names()) {
      Tensor dx = before.clone();
      const bool done = backend(name).conv_dx_add(g, dy, w, dx);
      EXPECT_EQ(done, name == "cuda_emulated" || (name.starts_with("cpu") && engine_adds)) << name;
      for (std::size_t i = 0; i < static_cast<std::size_t>(dx.numel()); ++i)
        ASSERT_NEAR(dx.span<float>()[i],
                    before.span<float>()[i] + (done ? alone.span<float>()[i] : 0), 1e-3f)
            << name << ", element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, AddingInPlace, ::testing::ValuesIn(cpu::kernel_sets()),
                         [](const auto& set) { return set.param; });

// Of values that only the tape holds, batch norm puts the gradient in their memory; of others not.
TEST(BatchNormBack, InPlaceGivesTheSameBits) {
  const Shape shape{3, 6, 5, 16}, channels{16};
  // gradients of all leaves
  const auto run = [&](bool others_hold_it) {
    std::vector<Tensor> leaves, held;
    const auto leaf = [&](const Tensor& t) {
      return leaves.emplace_back(t.clone().requires_grad());
    };
    const auto norm = [&](const Tensor& of) {
      if (others_hold_it) held.push_back(of);
      return NormInput{
          of, leaf(Tensor::full(channels, 1.5f)), leaf(Tensor::full(channels, .5f)), {}, {}};
    };
    const auto input = [&](std::uint64_t seed) {
      return mul(leaf(random_normal(shape, seed)), 2.0f);
    };
    Tensor y = batch_norm_sum(norm(input(1)), norm(input(2)));
    {
      const NormInput in = norm(input(3));
      y = batch_norm(in.x, in.scale, in.shift, {}, {}, {.relu = true}, y);
    }
    y = batch_norm_pool(norm(mul(y, 3.0f)));
    sum(mul(y, random_normal(y.shape(), 4))).backward();
    std::vector<std::vector<float>> all;
    for (const Tensor& t : leaves)
      all.emplace_back(t.grad().span<float>().begin(), t.grad().span<float>().end());
    return all;
  };
  for (const std::string& name : backend_names()) {
    const UseBackend use(name);
    EXPECT_EQ(run(false), run(true)) << name;
  }
}

TEST(BackendTable, ListsTheReferenceAndRefusesUnknownNames) {
  const auto names = backend_names();
  EXPECT_EQ(std::ranges::count(names, "reference"), 1);
  EXPECT_STREQ(backend("reference").name(), "reference");
  for (const std::string& name : names) EXPECT_EQ(backend(name).name(), name);
  try {
    backend("nonsense");
    FAIL() << "an unknown name was accepted";
  } catch (const DeviceError& e) {
    EXPECT_NE(std::string(e.what()).find("nonsense"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("reference"), std::string::npos) << e.what();
  }
  EXPECT_THROW(use_cpu_backend("nonsense"), DeviceError);
  EXPECT_THROW(backend(Device::cuda(0)), DeviceError);
}

TEST(BackendTable, UseCpuBackendChangesTheOneInUse) {
  const UseBackend use("reference");
  EXPECT_STREQ(backend(Device::cpu()).name(), "reference");
}

}  // namespace
}  // namespace gossamer::testing
