// FlatParams: layout, windows, gradients, compute copies, buffers.
#include "gossamer/core/flat.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/ops.h"

namespace gossamer {
namespace {

std::vector<float> list(const Tensor& t) {
  const Tensor wide = t.to(DType::f32);
  return {wide.span<float>().begin(), wide.span<float>().end()};
}

struct Model {
  Tensor w1 = Tensor::full({4, 3}, 1), b1 = Tensor::full({4}, 2), w2 = Tensor::full({2, 4}, 3),
         b2 = Tensor::full({2}, 4);
  std::vector<NamedTensor> named() { return {{"1.w", w1}, {"1.b", b1}, {"2.w", w2}, {"2.b", b2}}; }
  Tensor loss() {
    return sum(linear(relu(linear(Tensor::full({5, 3}, 1, w1.dtype()), w1, b1)), w2, b2));
  }
};

TEST(FlatParamsLayout, PutsMatricesFirstEachPartInReverseOrderOn128Bytes) {
  Model m;
  const FlatParams p(m.named());
  std::vector<std::string> names;
  std::vector<i64> offsets;
  for (const auto& e : p.entries()) {
    names.push_back(e.name);
    offsets.push_back(e.offset);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"2.w", "1.w", "2.b", "1.b"}));
  EXPECT_EQ(offsets, (std::vector<i64>{0, 32, 64, 96}));
  EXPECT_EQ(p.decayed(), 64);
  EXPECT_EQ(p.size(), 128);
  EXPECT_EQ(p.parameter_count(), 12 + 4 + 8 + 2);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p.values().data()) % 64, 0u);
}

TEST(FlatParamsLayout, KeepsTheValuesAndZeroPadding) {
  Model m;
  const FlatParams p(m.named());
  EXPECT_EQ(list(m.w2), (std::vector<float>(8, 3)));
  float total = 0;
  for (const float v : p.values().span<float>()) total += v;
  EXPECT_EQ(total, 12 * 1 + 4 * 2 + 8 * 3 + 2 * 4) << "the padding must be zero";
}

TEST(FlatParamsLayout, TheModelsTensorsAreWindowsAndLayersDoNotNotice) {
  Model m;
  Tensor handle = m.w1;
  const float before = m.loss().item();
  FlatParams p(m.named());
  EXPECT_EQ(m.loss().item(), before);
  Tensor(p.values()).fill(0);
  EXPECT_EQ(list(handle), (std::vector<float>(12, 0)));
  EXPECT_EQ(m.loss().item(), 0);
}

TEST(FlatParamsLayout, SaysWhichParameterIsWrong) {
  const auto error = [](std::vector<NamedTensor> named, FlatOptions o = {}) {
    try {
      FlatParams p(std::move(named), {}, o);
    } catch (const ShapeError& e) {
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(error({{"w", Tensor::zeros({2})}, {"w", Tensor::zeros({3})}}).find("\"w\""),
            std::string::npos);
  EXPECT_NE(error({{"labels", Tensor::zeros({2}, DType::i32)}}).find("\"labels\" is i32"),
            std::string::npos);
  EXPECT_NE(error({}, {.compute = DType::u8}).find("u8"), std::string::npos);
}

TEST(FlatParamsLayout, HoldsNoParametersToo) {
  const FlatParams p({});
  EXPECT_EQ(p.size(), 0);
  EXPECT_EQ(p.parameter_count(), 0);
}

TEST(FlatParamsGradients, ArriveInTheBlockAtTheirWindows) {
  Model m;
  FlatParams p(m.named());
  p.zero_grad();
  m.loss().backward();
  for (const NamedTensor& g : p.windows(p.grads())) {
    const Tensor& param = g.name == "1.w"   ? m.w1
                          : g.name == "1.b" ? m.b1
                          : g.name == "2.w" ? m.w2
                                            : m.b2;
    EXPECT_EQ(param.grad().data(), g.tensor.data()) << g.name;
  }
  EXPECT_EQ(list(m.b2.grad()), (std::vector<float>(2, 5)));
  EXPECT_EQ(list(m.b1.grad()), (std::vector<float>(4, 5 * 2 * 3)));
  m.loss().backward();  // without zero_grad they add up
  EXPECT_EQ(list(m.b2.grad()), (std::vector<float>(2, 10)));
  p.zero_grad();
  m.loss().backward();
  EXPECT_EQ(list(m.b2.grad()), (std::vector<float>(2, 5)));
}

TEST(FlatParamsGradients, ThatNoBackwardReachedAreZeroAfterSettling) {
  Model m;
  FlatParams p(m.named());
  Tensor(p.grads()).fill(9);
  p.zero_grad();
  sum(m.b2 * 3.0f).backward();
  EXPECT_FALSE(m.w1.grad().defined());
  p.settle_grads();
  EXPECT_EQ(list(m.b2.grad()), (std::vector<float>(2, 3)));
  for (const Tensor& t : {m.w1, m.b1, m.w2})
    EXPECT_EQ(list(t.grad()), (std::vector<float>(static_cast<std::size_t>(t.numel()), 0)));
}

TEST(FlatParamsGradients, CantBeTakenAwayWhileTheBlockLives) {
  Model m;
  {
    FlatParams p(m.named());
    try {
      m.w1.requires_grad(false);
      ADD_FAILURE() << "a gradient was taken from the block";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("belongs to a FlatParams"), std::string::npos);
    }
    m.w1.requires_grad();    // changes nothing
    m.w2.set_slot(nullptr);  // nor does a tape that drops it
    p.zero_grad();
    p.settle_grads();
    m.loss().backward();
    EXPECT_EQ(m.w1.grad().data(), p.windows(p.grads())[1].tensor.data());
  }
  m.w1.requires_grad(false);  // the tensor outlived the block
  EXPECT_FALSE(m.w1.grad().defined());
}

class FlatParamsIn16Bits : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, FlatParamsIn16Bits, testing::Values(DType::bf16, DType::f16),
                         [](const auto& test) { return name_of(test.param); });
TEST_P(FlatParamsIn16Bits, AreACopyForMatricesOnly) {
  Model m;
  FlatParams p(m.named(), {}, {.compute = GetParam()});
  EXPECT_TRUE(p.aliased());
  EXPECT_EQ(m.w1.dtype(), GetParam());
  EXPECT_EQ(m.b1.dtype(), DType::f32);
  EXPECT_EQ(list(m.w1), (std::vector<float>(12, 1)));
  Tensor(p.values()).fill(5);
  EXPECT_EQ(list(m.w1), (std::vector<float>(12, 1))) << "matrices are read from the copy";
  EXPECT_EQ(list(m.b1), (std::vector<float>(4, 5))) << "vectors are the values themselves";
  p.refresh();
  EXPECT_EQ(list(m.w1), (std::vector<float>(12, 5)));
  p.zero_grad();
  m.loss().backward();
  EXPECT_EQ(m.w1.grad().dtype(), DType::f32) << "gradients of 16-bit copies gather in f32";
}

TEST(FlatParamsCompute, SeparateLayersKeepTheirCopyUntilRefreshed) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    Model m;
    FlatParams p(m.named(), {}, {.compute = type, .separate = true});
    EXPECT_FALSE(p.aliased());
    Tensor(p.values()).fill(7);
    EXPECT_EQ(list(m.w1), (std::vector<float>(12, 1)));
    EXPECT_EQ(list(m.b2), (std::vector<float>(2, 4)));
    p.refresh();
    EXPECT_EQ(list(m.w1), (std::vector<float>(12, 7)));
    EXPECT_EQ(list(m.b2), (std::vector<float>(2, 7)));
  }
}

TEST(FlatParamsCompute, SeparateGivesLayersACopyWhileEverythingElseStays) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    Model m, separate;
    FlatParams p(m.named(), {}, {.compute = type});
    const FlatParams q(separate.named(), {}, {.compute = type, .separate = true});
    Tensor(p.values()).fill(3);  // not refreshed yet: separate() does
    const float* values = p.values().as<float>();
    p.separate();
    p.separate();
    EXPECT_FALSE(p.aliased());
    EXPECT_EQ(p.values().as<float>(), values) << "the master values do not move";
    EXPECT_EQ(list(m.w1), (std::vector<float>(12, 3)));
    EXPECT_EQ(list(m.b2), (std::vector<float>(2, 3)));
    EXPECT_EQ(m.w1.dtype(), separate.w1.dtype());
    EXPECT_EQ(m.b1.dtype(), separate.b1.dtype());
    Tensor(p.values()).fill(7);
    EXPECT_EQ(list(m.w1), (std::vector<float>(12, 3)));
    EXPECT_EQ(list(m.b2), (std::vector<float>(2, 3)));
    p.refresh();
    EXPECT_EQ(list(m.b2), (std::vector<float>(2, 7)));
    p.zero_grad();
    m.loss().backward();
    EXPECT_TRUE(m.w1.grad().defined());
    EXPECT_EQ(m.w1.grad().as<float>(),
              p.windows(p.grads())[p.entries()[0].name == "w1" ? 0 : 1].tensor.as<float>())
        << "gradients still gather in grads()";
  }
}

TEST(FlatParamsBuffers, FloatingOnesMoveIntoOneBlockAndIntegerOnesStay) {
  Model m;
  Tensor mean = Tensor::full({3}, 0.5f), var = Tensor::full({3}, 2),
         batches = Tensor::full({}, 11, DType::i64);
  void* counter = batches.data();
  const FlatParams p(m.named(), {{"mean", mean}, {"var", var}, {"num_batches_tracked", batches}});
  EXPECT_EQ(p.buffers().numel(), 64);
  EXPECT_EQ(p.buffer_entries().size(), 2u);
  EXPECT_EQ(list(mean), (std::vector<float>(3, 0.5f)));
  mean.fill(8);
  EXPECT_EQ(list(p.buffer_windows()[0].tensor), (std::vector<float>(3, 8)));
  EXPECT_EQ(p.buffer_windows()[1].name, "var");
  EXPECT_EQ(batches.data(), counter);
  EXPECT_EQ(batches.item(), 11);
}

TEST_P(FlatParamsIn16Bits, ReadFrozenMatricesRoundedAndKeepThemAsTheyWere) {
  Model m;
  m.w1.fill(1.001f);
  m.b1.fill(1.001f);
  const std::vector<NamedTensor> all = m.named();
  FlatParams p({all[2], all[3]}, {}, {.compute = GetParam()}, {all[0], all[1]});
  EXPECT_EQ(p.entries().size(), 2u);
  EXPECT_EQ(m.w1.dtype(), GetParam());
  EXPECT_EQ(m.b1.dtype(), DType::f32);
  ASSERT_EQ(p.frozen().size(), 2u);
  EXPECT_EQ(p.frozen()[0].name, "1.w");
  EXPECT_EQ(list(p.frozen()[0].tensor), std::vector<float>(12, 1.001f));
  EXPECT_EQ(list(m.w1), list(p.frozen()[0].tensor.to(GetParam())));
  Tensor(p.frozen()[0].tensor).fill(2);
  p.refresh();
  EXPECT_EQ(list(m.w1), std::vector<float>(12, 2));
  EXPECT_THROW(FlatParams({all[2]}, {}, {}, {all[2]}), ShapeError);
}

TEST(FlatParamsWindows, CarryNamesShapesAndAPrefixAndRefuseOtherLayouts) {
  Model m;
  const FlatParams p(m.named());
  const auto windows = p.windows(Tensor::zeros({p.size()}), "momentum.");
  EXPECT_EQ(windows[1].name, "momentum.1.w");
  EXPECT_EQ(windows[1].tensor.shape(), (Shape{4, 3}));
  EXPECT_THROW(p.windows(Tensor::zeros({p.size() + 1})), ShapeError);
}

TEST(FlatParamsFingerprint, TellsNamesAndShapesApartButNotValues) {
  const auto print = [](const std::string& name, Shape shape, float value) {
    return FlatParams({{name, Tensor::full(shape, value)}}).fingerprint();
  };
  EXPECT_EQ(print("w", {2, 3}, 1), print("w", {2, 3}, 9));
  EXPECT_NE(print("w", {2, 3}, 1), print("w", {3, 2}, 1));
  EXPECT_NE(print("w", {2, 3}, 1), print("v", {2, 3}, 1));
}

}  // namespace
}  // namespace gossamer
