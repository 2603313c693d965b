// Muon against golden values in f64 (golden/llama/muon.safetensors), its parts, and Adam for the
// rest.
#include "gossamer/nn/muon.h"

#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/ops/rearrange.h"
#include "support/error_of.h"
#include "support/golden_llama.h"
#include "support/use_backend.h"

namespace gossamer::nn {
namespace {

using ::testing::HasSubstr;

void expect_near(const Tensor& a, const Tensor& b, double within) {
  ASSERT_EQ(a.shape(), b.shape());
  for (std::size_t i = 0; i < a.span<float>().size(); ++i)
    ASSERT_NEAR(a.span<float>()[i], b.span<float>()[i], within) << i;
}
void set_gradient(FlatParams& params, std::size_t entry, const Tensor& to) {
  params.settle_grads();
  params.windows(params.grads())[entry].tensor.copy_from(to);
}
Tensor drawn(const Shape& shape, int seed) {
  Tensor t = Tensor::empty(shape);
  int i = seed;
  for (float& v : t.span<float>()) v = static_cast<float>(i = (i * 37 + 11) % 101) * .02f - 1;
  return t;
}

class Golden : public ::testing::TestWithParam<const char*> {
 protected:
  Tensor of(const std::string& name) const { return file.find(name)->clone(); }
  const SafeTensors file = read_safetensors(golden_llama("muon.safetensors"));
};

TEST_P(Golden, ThreeStepsOfAWideAndATallMatrix) {
  const UseBackend use(GetParam());
  for (const std::string name : {"wide", "tall"}) {
    SCOPED_TRACE(name);
    // the first step's U is a multiple of the gradient
    expect_near(orthogonal(of(name + ".grad.0")), of(name + ".orthogonal"), 1e-5);
    // scaled for f16's sake, which changes nothing
    for (const float loss_scale : {1.f, 64.f}) {
      Tensor w = of(name + ".weight");
      FlatParams params({{"q_proj.weight", w}}, {}, {.loss_scale = loss_scale});
      const auto muon = make_optimizer("muon", params, {.weight_decay = .1});
      EXPECT_STREQ(muon->name(), "muon");
      for (int step = 0; step < 3; ++step) {
        set_gradient(params, 0, mul(of(name + ".grad." + std::to_string(step)), 2 * loss_scale));
        muon->step(.02f, nullptr, {.factor = .5});
      }
      expect_near(w, of(name + ".after3"), 1e-5);
    }
  }
}

TEST_P(Golden, ByTheRootMeanSquareOfAdam) {
  const UseBackend use(GetParam());
  for (const std::string name : {"wide", "tall"}) {
    Tensor w = of(name + ".weight");
    FlatParams params({{"q_proj.weight", w}});
    const auto muon = make_optimizer("muon-rms", params);
    EXPECT_STREQ(muon->name(), "muon-rms");
    set_gradient(params, 0, of(name + ".grad.0"));
    muon->step(.01f);
    const float s = .2f * std::sqrt(20.f);  // of 12 and 20
    expect_near(w, sub(of(name + ".weight"), mul(of(name + ".orthogonal"), .01f * s)), 1e-5);
  }
}
INSTANTIATE_TEST_SUITE_P(Backends, Golden, ::testing::Values("reference", "cpu", "cuda_emulated"));

TEST(Orthogonal, HasSingularValuesNearOneAndZeroStaysZero) {
  // rows of rather different lengths
  const Tensor y = orthogonal(
      Tensor::from(std::vector<float>{3, 1, 0, 0, 2, .1f, -.4f, .2f, 0, .05f, .3f, 1}, {3, 4}));
  const Tensor products = linear(y, y);
  double trace = 0;
  for (i64 i = 0; i < 3; ++i) trace += static_cast<double>(products.span<float>()[i * 4]);
  EXPECT_GT(trace, 3 * .6 * .6);
  EXPECT_LT(trace, 3 * 1.25 * 1.25);
  const Tensor zero = orthogonal(Tensor::zeros({3, 5}));
  for (const float v : zero.span<float>()) EXPECT_EQ(v, 0);
  EXPECT_THAT(error_of([] { orthogonal(Tensor::zeros({3})); }), HasSubstr("wanted a matrix"));
}

// A model with what takes Adam: table, head, adapter, vector; and a convolution, which is a matrix.
struct Model {
  explicit Model(FlatOptions o = {})
      : params({{"embed_tokens.weight", table},
                {"layers.0.q_proj.weight", q},
                {"layers.0.q_proj.lora_A.weight", a},
                {"layers.0.conv.weight", conv},
                {"lm_head.weight", head},
                {"norm.weight", norm}},
               {}, o) {}
  void gradients(int step) {
    params.settle_grads();
    int i = 0;
    for (NamedTensor& g : params.windows(params.grads()))
      g.tensor.copy_from(drawn(g.tensor.shape(), 7 * step + i++));
  }
  Tensor table = drawn({9, 6}, 1), q = drawn({6, 6}, 2), a = drawn({2, 6}, 3),
         conv = drawn({6, 3, 3, 2}, 4), head = drawn({9, 6}, 5), norm = drawn({6}, 6);
  FlatParams params;
};

TEST(Muon, TheRestTakesAdamwAtItsOwnRate) {
  for (const std::string name : {"muon", "muon-rms"}) {
    SCOPED_TRACE(name);
    Model m, adamw;
    const double factor = name == "muon" ? .05 : 1;
    const auto muon = make_optimizer(name, m.params, {.weight_decay = .1});
    const auto adam = make_optimizer("adamw", adamw.params, {.weight_decay = .1});
    for (int step = 0; step < 4; ++step) {
      m.gradients(step), adamw.gradients(step);
      muon->step(.02f), adam->step(.02f * static_cast<float>(factor));
    }
    const auto same = [](const Tensor& x, const Tensor& y) {
      return std::memcmp(x.data(), y.data(), x.bytes()) == 0;
    };
    for (const auto& [x, y] : {std::pair{m.table, adamw.table},
                               {m.a, adamw.a},
                               {m.head, adamw.head},
                               {m.norm, adamw.norm}})
      EXPECT_TRUE(same(x, y));
    EXPECT_FALSE(same(m.q, adamw.q));
    EXPECT_FALSE(same(m.conv, adamw.conv));
  }
}

TEST(Muon, AConvolutionIsTheMatrixOfItsRows) {
  Tensor conv = drawn({6, 3, 3, 2}, 4), flat = conv.clone().reshape({6, 18});
  FlatParams a({{"conv", conv}}), b({{"flat", flat}});
  const auto of_a = make_optimizer("muon", a), of_b = make_optimizer("muon", b);
  set_gradient(a, 0, drawn({6, 3, 3, 2}, 9)), set_gradient(b, 0, drawn({6, 18}, 9));
  of_a->step(.02f), of_b->step(.02f);
  EXPECT_EQ(std::memcmp(conv.data(), flat.data(), conv.bytes()), 0);
}

TEST(Muon, PatternsAndFactorsSayOtherwise) {
  Model all, fixed;
  const auto adam = make_optimizer("adamw", all.params);
  const auto muon = make_optimizer("muon", fixed.params,
                                   {.factors = {parse_rate_factor("all=1")}, .adam_for = "all"});
  for (int step = 0; step < 3; ++step) {
    all.gradients(step), fixed.gradients(step);
    adam->step(.02f), muon->step(.02f);
  }
  EXPECT_EQ(std::memcmp(all.params.values().data(), fixed.params.values().data(),
                        all.params.values().bytes()),
            0);
  EXPECT_THAT(
      error_of<ConfigError>([&] { make_optimizer("muon", all.params, {.muon_momentum = 1}); }),
      HasSubstr("muon_momentum"));
}

TEST(Muon, InPiecesAndWithATwinItIsTheSameAndAPieceCutsNoMatrix) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    const FlatOptions flat{.compute = type, .separate = true};
    Model whole(flat), pieces(flat), twinned(flat);
    const auto a = make_optimizer("muon", whole.params), b = make_optimizer("muon", pieces.params),
               c = make_optimizer("muon", twinned.params);
    const Twin twin{twinned.params.values().clone(), 1, 0};
    const i64 border = whole.params.entries()[2].offset;
    for (int step = 0; step < 3; ++step) {
      whole.gradients(step), pieces.gradients(step), twinned.gradients(step);
      a->step(.02f, nullptr, {.5});
      b->begin_step({.5});
      b->update({border, -1}, .02f);
      b->update({0, border}, .02f);
      c->step(.02f, &twin, {.5});
    }
    const auto expect_same = [&](const Tensor& x) {
      EXPECT_EQ(std::memcmp(x.data(), whole.params.values().data(), x.bytes()), 0);
    };
    expect_same(pieces.params.values());
    expect_same(twinned.params.values());
    expect_same(twin.values);
    EXPECT_THAT(error_of([&] { b->update({0, 96}, .02f); }), HasSubstr("cuts a matrix"));
  }
}

}  // namespace
}  // namespace gossamer::nn
