// The update pass of GPUs against the passes it stands for, bit for bit, and the wire formats.
#include <limits>

#include "core/kernel_helpers.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/fused_update.h"

namespace gossamer {
namespace {

using namespace testing;
using fused::StepNumbers;

struct Model {
  Tensor w1 = normal({5, 7}, 1), b1 = normal({7}, 2), w2 = normal({33, 3, 2, 2}, 3),
         b2 = normal({40}, 4);
  FlatParams params;
  Tensor momentum, twin, own, received;
  AdamState adam;
  explicit Model(FlatOptions o) : params({{"w1", w1}, {"b1", b1}, {"w2", w2}, {"b2", b2}}, {}, o) {
    const i64 n = params.size();
    momentum = normal({n}, 10);
    twin = normal({n}, 11);
    own = normal({n}, 12);
    received = normal({n}, 13);
    adam = {normal({n}, 14), Tensor::full({n}, 0.3f), normal({n}, 15)};
  }
  void give_gradients(std::uint64_t seed) {
    Tensor(params.grads()).copy_from(normal({params.size()}, seed));
    for (Tensor* t : {&w1, &b1, &w2, &b2}) t->slot()->stale = false;
  }
  std::vector<std::pair<const char*, Tensor>> all() const {
    return {{"values", params.values()},
            {"twin", twin},
            {"momentum", momentum},
            {"first", adam.first},
            {"second", adam.second},
            {"sum", adam.sum},
            {"compute",
             params.options().compute != DType::f32 ? params.compute_half() : params.compute_f32()},
            {"vectors", params.compute_f32()}};
  }
};
void write(const Tensor& numbers, const StepNumbers& n) {
  std::memcpy(numbers.data(), &n, sizeof n);
}
void expect_equal(const Model& a, const Model& b) {
  for (std::size_t k = 0; k < a.all().size(); ++k)
    expect_same_bits(a.all()[k].second, b.all()[k].second, a.all()[k].first);
}
// The difference arrives after the step; the copy that layers read follows it at once in the pass,
// here by hand.
void late_jump(Model& m, bool with_twin) {
  Tensor none;
  jump(const_cast<Tensor&>(m.params.values()), with_twin ? m.twin : none, 0.5f, 0.7f, m.own,
       m.received);
  m.params.refresh();
}

TEST(UpdatePass, IsMixStepAndLateJumpBitForBit) {
  for (const FlatOptions o : {FlatOptions{DType::f32, false}, FlatOptions{DType::f32, true},
                              FlatOptions{DType::bf16, true}, FlatOptions{DType::f16, true}})
    for (const bool nesterov : {false, true})
      for (const bool with_twin : {false, true})
        for (const bool with_jump : {false, true}) {
          SCOPED_TRACE(::testing::Message()
                       << o.compute << " frozen " << o.frozen << " nesterov " << nesterov
                       << " twin " << with_twin << " jump " << with_jump);
          Model one(o), two(o);
          const auto groups = fused::parameter_groups(two.params, 0.02f);
          const Tensor numbers = fused::step_numbers({});
          fused::UpdateBuffers buffers = fused::buffers_of(two.params);
          if (with_twin) buffers.twin = two.twin;
          buffers.own = two.own;
          buffers.received = two.received;
          for (std::uint64_t k = 0; k < 3; ++k) {
            const float rate = 0.1f / static_cast<float>(k + 1),
                        c = 0.9f - 0.1f * static_cast<float>(k);
            for (Model* m : {&one, &two}) m->give_gradients(100 + k);
            const Twin twin{one.twin, c, 1 - c};
            sgd_update(one.params, one.momentum,
                       {.learning_rate = rate,
                        .momentum = 0.9f,
                        .weight_decay = 0.02f,
                        .nesterov = nesterov,
                        .grad_scale = 0.25f},
                       with_twin ? &twin : nullptr);
            if (with_jump) late_jump(one, with_twin);
            write(numbers, {.learning_rate = rate,
                            .momentum = 0.9f,
                            .grad_scale = 0.25f,
                            .mix_c = c,
                            .mix_s = 1 - c,
                            .jump_x = 0.5f,
                            .jump_twin = 0.7f,
                            .jump = with_jump});
            fused::sgd_pass(buffers, two.momentum, groups, nesterov, numbers);
            expect_equal(one, two);
          }
        }
}

TEST(UpdatePass, IsAdamInItsFormsBitForBit) {
  for (const bool decoupled : {false, true})
    for (const i64 period : {1, 3})
      for (const bool with_twin : {false, true}) {
        SCOPED_TRACE(::testing::Message()
                     << "decoupled " << decoupled << " period " << period << " twin " << with_twin);
        const DType half = with_twin ? DType::f16 : DType::bf16;
        Model one({half, true}), two({half, true});
        if (period == 1) one.adam.sum = two.adam.sum = Tensor();
        const auto groups = fused::parameter_groups(two.params, 0.02f);
        const Tensor numbers = fused::step_numbers({});
        fused::UpdateBuffers buffers = fused::buffers_of(two.params);
        if (with_twin) buffers.twin = two.twin;
        buffers.own = two.own;
        buffers.received = two.received;
        for (i64 step = 1; step <= 4; ++step) {
          for (Model* m : {&one, &two}) m->give_gradients(200 + static_cast<std::uint64_t>(step));
          const Twin twin{one.twin, 0.8f, 0.2f};
          adam_update(one.params, one.adam,
                      {.learning_rate = 0.01f,
                       .weight_decay = 0.02f,
                       .decoupled = decoupled,
                       .step = step,
                       .period = period},
                      with_twin ? &twin : nullptr);
          late_jump(one, with_twin);
          const auto factors =
              AdamFactors<float>::at(step, period, static_cast<double>(0.01f), 0.9, 0.999, 1e-8);
          write(numbers, {.learning_rate = 0.01f,
                          .mix_c = 0.8f,
                          .mix_s = 0.2f,
                          .jump_x = 0.5f,
                          .jump_twin = 0.7f,
                          .jump = 1,
                          .adam = factors});
          fused::adam_pass(buffers, two.adam, groups,
                           decoupled ? fused::Decay::decoupled : fused::Decay::coupled, numbers);
          for (std::size_t k = 0; k < one.all().size(); ++k)
            if (one.all()[k].second.defined())
              expect_same_bits(one.all()[k].second, two.all()[k].second, one.all()[k].first);
        }
      }
}

class UpdatePassIn16Bits : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, UpdatePassIn16Bits, ::testing::Values(DType::bf16, DType::f16),
                         [](const auto& test) { return name_of(test.param); });
TEST_P(UpdatePassIn16Bits, TakesGradientsAndGroupsOfTheirOwn) {
  Model one({}), two({});
  const Tensor rounded = normal({one.params.size()}, 7).to(GetParam());
  one.give_gradients(1);
  Tensor(one.params.grads()).copy_from(rounded.to(DType::f32));
  fused::UpdateBuffers buffers = fused::buffers_of(two.params);
  buffers.grads = rounded;
  // The last group: b2 with half the rate and decay.
  const auto groups = fused::parameter_groups(
      two.params, {{.weight_decay = 0.02f}, {}, {.weight_decay = 0.5f, .rate = 0.5f}},
      [&](std::size_t k) {
        const auto& e = two.params.entries()[k];
        return e.name == "b2" ? 2 : e.shape.rank() >= 2 ? 0 : 1;
      });
  const Tensor numbers = fused::step_numbers({});
  write(numbers, {.learning_rate = 0.1f, .momentum = 0.9f});
  const float
      before = two.b2.span<float>()[5],
      g = as_f32(rounded).span<float>()[static_cast<std::size_t>(two.b2.as<float>() -
                                                                 two.params.values().as<float>()) +
                                        5],
      m = two.momentum.span<float>()[static_cast<std::size_t>(two.b2.as<float>() -
                                                              two.params.values().as<float>()) +
                                     5];
  fused::sgd_pass(buffers, two.momentum, groups, false, numbers);
  sgd_update(one.params, one.momentum,
             {.learning_rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.02f});
  expect_same_bits(two.w1, one.w1, "w1");
  expect_same_bits(two.b1, one.b1, "b1");
  EXPECT_NEAR(two.b2.span<float>()[5], before - 0.05f * (0.9f * m + g + 0.5f * before), 1e-6f);
  EXPECT_THROW(fused::parameter_groups(two.params, {{}}, [](std::size_t) { return 1; }),
               ConfigError);
}

TEST(UpdatePass, DoesNotTouchSnapshotsWithoutAJump) {
  Model m({});
  fused::UpdateBuffers buffers = fused::buffers_of(m.params);
  const Tensor numbers = fused::step_numbers({});
  m.give_gradients(1);
  // own and received do not exist
  fused::sgd_pass(buffers, m.momentum, fused::parameter_groups(m.params, 0), false, numbers);
  buffers.own = m.own;
  EXPECT_THROW(
      fused::sgd_pass(buffers, m.momentum, fused::parameter_groups(m.params, 0), false, numbers),
      ShapeError);
}

TEST(Snapshot, IsWhereTheDriftWouldBe) {
  Model m({});
  const i64 n = m.params.size();
  Tensor x = m.params.values().clone(), twin = m.twin.clone(), none;
  mix(x, twin, 0.7f, 0.3f);
  Tensor wide = Tensor::empty({n}), half = Tensor::empty({n}, DType::f16);
  const Tensor before = m.params.values().clone();
  fused::snapshot(m.params.values(), m.twin, 0.7f, 0.3f, wide);
  fused::snapshot(m.params.values(), m.twin, 0.7f, 0.3f, half);
  expect_same_bits(wide, x, "snapshot");
  expect_same_bits(m.params.values(), before, "values");
  for (i64 i = 0; i < n; ++i)
    ASSERT_NEAR(static_cast<float>(half.as<f16>()[i]), wide.as<float>()[i],
                std::fabs(wide.as<float>()[i]) / 2048 + 1e-7f);
  fused::snapshot(m.params.values(), none, 1, 0, wide);
  expect_same_bits(wide, before, "plain");
}

TEST(Difference, IsOppositeOnBothSidesInEitherFormat) {
  for (const DType wire : {DType::f32, DType::f16}) {
    const i64 n = 64;
    Tensor x[2] = {normal({n}, 1), normal({n}, 2)}, twin[2] = {normal({n}, 3), normal({n}, 4)},
           s[2] = {Tensor::empty({n}, wire), Tensor::empty({n}, wire)};
    std::vector<double> before;
    for (i64 i = 0; i < n; ++i)
      before.push_back(static_cast<double>(x[0].as<float>()[i]) +
                       static_cast<double>(x[1].as<float>()[i]));
    for (const int k : {0, 1}) fused::snapshot(x[k], {}, 1, 0, s[k]);
    Tensor y[2] = {x[0].clone(), x[1].clone()}, z[2] = {twin[0].clone(), twin[1].clone()};
    for (const int k : {0, 1}) fused::apply_difference(x[k], twin[k], 0.5f, 0.9f, s[k], s[1 - k]);
    // the sum stays to the last digit of the additions, whatever the wire rounds
    for (i64 i = 0; i < n; ++i)
      EXPECT_NEAR(
          static_cast<double>(x[0].as<float>()[i]) + static_cast<double>(x[1].as<float>()[i]),
          before[static_cast<std::size_t>(i)], 1e-6);
    if (wire == DType::f32)
      for (const int k : {0, 1}) {
        jump(y[k], z[k], 0.5f, 0.9f, s[k], s[1 - k]);
        expect_same_bits(x[k], y[k], "x");
        expect_same_bits(twin[k], z[k], "twin");
      }
  }
}

}  // namespace
}  // namespace gossamer
