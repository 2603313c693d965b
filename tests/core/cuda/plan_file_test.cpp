// The plan file: kept between runs, shared by processes, worthless when damaged. And the sums of
// products that check a convolution or a product of matrices.
#include "gossamer/core/cuda/plan_file.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/core/cuda.h"
#include "gossamer/core/cuda/conv_term.h"
#include "gossamer/core/cuda/cudnn_engine.h"
#include "gossamer/core/cuda/gemm_check.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "support/temp_folder.h"

namespace gossamer {
namespace {

class PlanFiles : public InTempFolder {};

TEST_F(PlanFiles, KeepsTextsBetweenRuns) {
  const std::string path = file("deep/plans.json");
  PlanFile(path).store("a \"quoted\" key", "{\"engine\": 1}");
  const PlanFile again(path);
  EXPECT_EQ(again.find("a \"quoted\" key"), "{\"engine\": 1}");
  EXPECT_EQ(again.find("another"), "");
}

TEST_F(PlanFiles, KeepsWhatAnotherProcessWroteMeanwhile) {
  const std::string path = file("plans.json");
  PlanFile one(path), two(path);
  one.store("a", "1");
  two.store("b", "2");
  EXPECT_EQ(PlanFile(path).find("a"), "1");
  EXPECT_EQ(PlanFile(path).find("b"), "2");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1)
      << "no half-written files stay";
}

// As the engines of two GPUs in one process do.
TEST_F(PlanFiles, ManyThreadsMayWriteOne) {
  const std::string path = file("plans.json");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      PlanFile plans(path);
      for (int i = 0; i < 20; ++i)
        EXPECT_NO_THROW(plans.store(std::to_string(100 * t + i), std::to_string(i)));
    });
  for (std::thread& thread : threads) thread.join();
  int whole = 0;  // the last one to write has all of its own
  for (int t = 0; t < 4; ++t) whole += PlanFile(path).find(std::to_string(100 * t + 19)) == "19";
  EXPECT_GE(whole, 1);
}

TEST_F(PlanFiles, ADamagedOneCountsAsEmpty) {
  const std::string path = file("plans.json");
  for (const char* text : {"", "{", "[1, 2]", "{\"format\": 2, \"plans\": {\"a\": \"1\"}}",
                           "{\"format\": 1, \"plans\": [\"a\"]}",
                           "{\"format\": 1, \"plans\": {\"a\": 1}}", "\xff\xfe\x00\x01"}) {
    std::ofstream(path, std::ios::trunc) << text;
    PlanFile plans(path);
    EXPECT_EQ(plans.find("a"), "") << text;
    plans.store("b", "2");
    EXPECT_EQ(PlanFile(path).find("b"), "2") << text;
  }
}

TEST_F(PlanFiles, WithoutAPathItIsKeptInMemory) {
  PlanFile plans("");
  plans.store("a", "1");
  EXPECT_EQ(plans.find("a"), "1");
}

TEST_F(PlanFiles, AFolderThatCannotBeWrittenIsNamed) {
  PlanFile plans("/proc/no/plans.json");
  try {
    plans.store("a", "1");
    FAIL();
  } catch (const IoError& e) {
    EXPECT_NE(std::string(e.what()).find("/proc/no/plans.json"), std::string::npos) << e.what();
  }
}

TEST(ConvTerm, SumsToWhatTheReferenceComputesInAllThreeDirections) {
  using namespace cudnn;
  const ConvGeometry cases[] = {{2, 7, 6, 8, 6, 3, 3, 4, 3, 2, 1, 1, 1},
                                {1, 9, 9, 4, 8, 3, 2, 5, 7, 1, 0, 2, 2},
                                {3, 5, 5, 6, 4, 1, 1, 3, 3, 2, 0, 1, 1}};
  for (const ConvGeometry& g : cases) {
    Rng rng(5);
    const auto draw = [&](Shape shape) {
      Tensor t = Tensor::empty(shape);
      for (float& v : t.span<float>()) v = rng.normal();
      return t;
    };
    Tensor x = draw({g.n, g.h, g.w, g.c}), w = draw({g.k, g.r, g.s, g.c / g.groups}),
           y = draw({g.n, g.ho, g.wo, g.k});
    Backend& reference = backend("reference");
    for (const ConvOp op : {ConvOp::forward, ConvOp::backward_data, ConvOp::backward_filter}) {
      const ConvProblem p = problem_of(op, DType::f32, g);
      ASSERT_EQ(p.ho(), g.ho);
      ASSERT_EQ(p.wo(), g.wo);
      Tensor rx = x.clone(), rw = w.clone(), ry = y.clone();
      if (op == ConvOp::forward) reference.conv(g, x, w, ry);
      if (op == ConvOp::backward_data) reference.conv_dx(g, y, w, rx);
      if (op == ConvOp::backward_filter) reference.conv_dw(g, x, y, rw);
      EXPECT_LT(conv_error(Device::cpu(), p, {rx.data(), rw.data(), ry.data()}, 1000), 1e-5)
          << p.key();
      Tensor& result = op == ConvOp::forward ? ry : op == ConvOp::backward_data ? rx : rw;
      result.as<float>()[0] += 1;  // the first element is always looked at
      EXPECT_GT(conv_error(Device::cpu(), p, {rx.data(), rw.data(), ry.data()}, 10), 1e-2)
          << p.key();
      result.as<float>()[0] = std::nanf("");
      EXPECT_FALSE(conv_error(Device::cpu(), p, {rx.data(), rw.data(), ry.data()}, 10) < 1)
          << "a NaN is an error";
    }
  }
}

TEST(ConvTerm, ChecksBiasSumAndReluBehindTheSums) {
  using namespace cudnn;
  const ConvGeometry g{2, 7, 6, 8, 6, 3, 3, 4, 3, 2, 1, 1, 1};
  Rng rng(7);
  const auto draw = [&](Shape shape) {
    Tensor t = Tensor::empty(shape);
    for (float& v : t.span<float>()) v = rng.uniform(-1, 1);
    return t;
  };
  const Tensor x = draw({g.n, g.h, g.w, g.c}), w = draw({g.k, g.r, g.s, g.c}), bias = draw({g.k}),
               add = draw({g.n, g.ho, g.wo, g.k});
  const auto packed = backend("reference").pack_conv(w);
  // What is asked for is right, and wrong for whoever asked for another thing.
  for (const int made : {0, 1, 2, 3})
    for (const int asked : {0, 1, 2, 3}) {
      Tensor y = made & 1 ? add.clone() : Tensor::empty(add.shape());
      backend("reference")
          .conv_inference(g, x, *packed, {bias, (made & 1) != 0, (made & 2) != 0}, y);
      ConvProblem p = problem_of(ConvOp::forward, DType::f32, g);
      p.bias = true, p.add = (asked & 1) != 0, p.relu = (asked & 2) != 0;
      const ConvMemory at{x.data(), w.data(), y.data(), bias.data(), add.data()};
      const double error = conv_error(Device::cpu(), p, at);
      if (made == asked)
        EXPECT_LT(error, 1e-5) << p.key();
      else
        EXPECT_GT(error, .1) << p.key() << ", made " << made;
    }
}

TEST(ConvTerm, ChecksThatAGradientWasAddedToWhatWasThere) {
  using namespace cudnn;
  const ConvGeometry g{2, 7, 6, 8, 6, 3, 3, 4, 3, 2, 1, 1, 1};
  Rng rng(6);
  const auto draw = [&](Shape shape) {
    Tensor t = Tensor::empty(shape);
    for (float& v : t.span<float>()) v = rng.uniform(-1, 1);
    return t;
  };
  const Tensor w = draw({g.k, g.r, g.s, g.c}), y = draw({g.n, g.ho, g.wo, g.k});
  Tensor x = Tensor::empty({g.n, g.h, g.w, g.c}), sums = x.clone();
  backend("reference").conv_dx(g, y, w, sums);
  ConvProblem p = problem_of(ConvOp::backward_data, DType::f32, g);
  const auto error = [&] { return conv_error(Device::cpu(), p, {x.data(), w.data(), y.data()}); };
  const auto prepare = [&] { prepare_check(Device::cpu(), p, {x.data(), w.data(), y.data()}); };
  for (const bool accumulate : {true, false}) {
    p.accumulate = accumulate;
    prepare();
    for (i64 i = 0; i < x.numel(); ++i) x.as<float>()[i] += sums.as<float>()[i];
    if (accumulate)
      EXPECT_LT(error(), 1e-5);
    else
      EXPECT_GT(error(), 0.5) << "it was added where it should have been overwritten";
    prepare();
    std::ranges::copy(sums.span<float>(), x.span<float>().begin());
    if (accumulate)
      EXPECT_GT(error(), 0.5) << "what was there is lost";
    else
      EXPECT_LT(error(), 1e-5);
  }
}

TEST(GemmCheck, IsSmallForWhatTheReferenceComputesAndLargeForAnythingElse) {
  Rng rng(7);
  const auto draw = [&](Shape shape, DType type = DType::f32) {
    Tensor t = Tensor::empty(shape);
    for (float& v : t.span<float>()) v = rng.normal();
    return t.to(type);
  };
  const i64 m = 37, n = 24, k = 50;
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        SCOPED_TRACE(::testing::Message() << name_of(type) << ta << tb);
        const Tensor a = draw(ta ? Shape{k, m} : Shape{m, k}, type),
                     b = draw(tb ? Shape{n, k} : Shape{k, n}, type);
        Tensor c = Tensor::empty({m, n});
        backend("reference").gemm(ta, tb, a, b, c, false);
        EXPECT_LT(cublas::gemm_error(ta, tb, a, b, c, {}, false, 1000), 1e-5);
        c.as<float>()[0] += 1;  // the first element is always looked at
        EXPECT_GT(cublas::gemm_error(ta, tb, a, b, c), 3e-2);
        c.as<float>()[0] = std::nanf("");
        EXPECT_FALSE(cublas::gemm_error(ta, tb, a, b, c) < 1) << "a NaN is an error";
        backend("reference").gemm(ta, tb, a, b, c, false);
        backend("reference").gemm(ta, tb, a, b, c, true);
        EXPECT_GT(cublas::gemm_error(ta, tb, a, b, c), .5) << "added where it should not be";
      }
  const Tensor x = draw({m, k}), w = draw({n, k}), bias = draw({n});
  for (const Activation f : {Activation::none, Activation::gelu_tanh}) {
    const bool gelu = f == Activation::gelu_tanh;
    EXPECT_LT(cublas::gemm_error(false, true, x, w, linear(x, w, bias, f), bias, gelu), 1e-5);
    EXPECT_GT(cublas::gemm_error(false, true, x, w, linear(x, w, {}, f), bias, gelu), 3e-2);
    EXPECT_GT(cublas::gemm_error(false, true, x, w, linear(x, w, bias, f), bias, !gelu), 3e-2);
  }
}

// A step whose gradients overflow in f16 is skipped; it is no reason to refuse a kernel.
TEST(GemmCheck, LooksAtNothingThatTheTypeCannotHold) {
  const Tensor a = Tensor::full({4, 8}, 200, DType::f16), b = Tensor::full({8, 4}, 200, DType::f16);
  Tensor c = Tensor::full({4, 4}, std::numeric_limits<float>::infinity(), DType::f16);
  EXPECT_EQ(cublas::gemm_error(false, false, a, b, c), 0);
  a.as<f16>()[0] = f16(std::nanf(""));
  EXPECT_EQ(cublas::gemm_error(false, false, a, b, c), 0);
}

}  // namespace
}  // namespace gossamer
