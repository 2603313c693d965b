// The same numbers twice give the same bits: every row of the list of ops and every convolution of
// the models, on every backend of this build, with several threads. On a GPU:
// tests/gpu/repeat_test.cpp.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "core/cuda/model_convs.h"
#include "core/kernel_helpers.h"
#include "core/ops/op_cases.h"
#include "core/ops/op_results.h"
#include "gossamer/core/parallel.h"

namespace gossamer::testing {
namespace {

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};

class Repeats : public ::testing::Test {
 protected:
  void SetUp() override { set_compute_threads(3); }
  void TearDown() override { set_compute_threads(before_); }

 private:
  int before_ = compute_threads();
};

TEST_F(Repeats, EveryRowOfTheListOfOpsOnEveryBackend) {
  for (const std::string& name : backend_names()) {
    const UseBackend use(name);
    for (const DType type : kTypes)
      for (const OpCase& c : op_cases()) {
        const std::string what = name + ", " + name_of(type) + ": " + label_of(c);
        const std::vector<Tensor> inputs = inputs_in(type, c), first = results_of(c, inputs),
                                  other_memory{Tensor::empty({4099}), Tensor::empty({61})},
                                  second = results_of(c, inputs);
        ASSERT_EQ(first.size(), second.size()) << what;
        for (std::size_t k = 0; k < first.size(); ++k) expect_same_bits(second[k], first[k], what);
      }
  }
}

// Of small pictures: which loops a CPU runs depends on channels, filters and strides.
TEST_F(Repeats, EveryConvolutionOfTheModelsOnEveryBackend) {
  std::set<std::string> seen;
  each_conv_of_the_models(DType::f32, [&](const std::string&, const cudnn::ConvProblem& p) {
    const i64 side = std::min<i64>(p.h, p.c < 16 ? 16 : 5),
              out = (side + 2 * p.pad_before - p.r) / p.stride + 1;
    const ConvGeometry g{1,
                         side,
                         side,
                         p.c,
                         p.k,
                         p.r,
                         p.s,
                         out,
                         out,
                         static_cast<int>(p.stride),
                         static_cast<int>(p.pad_before),
                         1,
                         1};
    if (!seen.insert(cudnn::problem_of(cudnn::ConvOp::forward, p.type, g).key()).second) return;
    for (const std::string& name : backend_names())
      for (const DType type : {DType::f32, DType::bf16}) {
        Backend& b = backend(name);
        const Tensor x = normal({g.n, g.h, g.w, g.c}, 1, type),
                     w = normal({g.k, g.r, g.s, g.c}, 2, type),
                     dy = normal({g.n, g.ho, g.wo, g.k}, 3, type);
        const auto all = [&] {
          std::vector<Tensor> results{Tensor::empty(dy.shape(), type),
                                      Tensor::empty(x.shape(), type), Tensor::empty(w.shape()),
                                      x.clone()};
          b.conv(g, x, w, results[0]);
          b.conv_dx(g, dy, w, results[1]);
          b.conv_dw(g, x, dy, results[2]);
          b.conv_dx_add(g, dy, w, results[3]);
          return results;
        };
        const std::vector<Tensor> first = all(), second = all();
        for (std::size_t k = 0; k < first.size(); ++k)
          expect_same_bits(second[k], first[k], name + ", " + p.key());
      }
  });
  EXPECT_GT(seen.size(), 30u);
}

}  // namespace
}  // namespace gossamer::testing
