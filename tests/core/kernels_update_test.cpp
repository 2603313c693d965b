// The update pass, one and eight at a time, against the passes it stands for, bit for bit;
// snapshots and differences.
#include <limits>

#include "core/kernel_helpers.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/exchange.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/update.h"
#include "support/updates.h"

namespace gossamer {
namespace {

using namespace testing;

struct Model {
  Tensor w1 = normal({5, 7}, 1), b1 = normal({7}, 2), w2 = normal({33, 3, 2, 2}, 3),
         b2 = normal({40}, 4);
  FlatParams params;
  Tensor momentum, twin, own, received;
  AdamRule adam;
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
void expect_equal(const Model& a, const Model& b) {
  for (std::size_t k = 0; k < a.all().size(); ++k)
    expect_same_bits(a.all()[k].second, b.all()[k].second, a.all()[k].first);
}
// With a difference among the blocks eight neighbours are updated at a time, as on a GPU.
enum class Way { one, eight, with_difference };
UpdateBlocks blocks_of(const Model& m, bool with_twin, Way way) {
  const bool given = way != Way::one;
  return {with_twin ? m.twin : Tensor(), given ? m.own : Tensor(), given ? m.received : Tensor()};
}

TEST(UpdatePass, IsMixStepAndDifferenceBitForBit) {
  for (const FlatOptions o : {FlatOptions{DType::f32, false}, FlatOptions{DType::f32, true},
                              FlatOptions{DType::bf16, true}, FlatOptions{DType::f16, true}})
    for (const bool nesterov : {false, true})
      for (const bool with_twin : {false, true})
        for (const Way way : {Way::one, Way::eight, Way::with_difference}) {
          SCOPED_TRACE(::testing::Message()
                       << o.compute << " separate " << o.separate << " nesterov " << nesterov
                       << " twin " << with_twin << " way " << static_cast<int>(way));
          Model one(o), two(o);
          for (std::uint64_t k = 0; k < 3; ++k) {
            const float rate = 0.1f / static_cast<float>(k + 1),
                        c = 0.9f - 0.1f * static_cast<float>(k);
            for (Model* m : {&one, &two}) m->give_gradients(100 + k);
            const StepNumbers numbers{.learning_rate = rate,
                                      .grad_scale = 0.25f,
                                      .mix_c = c,
                                      .mix_s = 1 - c,
                                      .jump_x = 0.5f,
                                      .jump_twin = 0.7f,
                                      .jump = way == Way::with_difference};
            plain_sgd(one.params, {one.momentum, 0.9f, 0.02f, nesterov}, numbers,
                      blocks_of(one, with_twin, way));
            sgd_pass(two.params, {two.momentum, 0.9f, 0.02f, nesterov}, numbers_of(numbers),
                     blocks_of(two, with_twin, way));
            expect_equal(one, two);
          }
        }
}

TEST(UpdatePass, IsAdamInItsFormsBitForBit) {
  for (const bool decoupled : {false, true})
    for (const i64 period : {1, 3})
      for (const bool with_twin : {false, true})
        for (const Way way : {Way::one, Way::eight, Way::with_difference}) {
          SCOPED_TRACE(::testing::Message()
                       << "decoupled " << decoupled << " period " << period << " twin " << with_twin
                       << " way " << static_cast<int>(way));
          const DType half = with_twin ? DType::f16 : DType::bf16;
          Model one({half, true}), two({half, true});
          for (Model* m : {&one, &two}) {
            if (period == 1) m->adam.sum = Tensor();
            m->adam.weight_decay = 0.02f;
            m->adam.decoupled = decoupled;
          }
          for (i64 step = 1; step <= 4; ++step) {
            for (Model* m : {&one, &two}) m->give_gradients(200 + static_cast<std::uint64_t>(step));
            const StepNumbers numbers{
                .learning_rate = 0.01f,
                .mix_c = 0.8f,
                .mix_s = 0.2f,
                .jump_x = 0.5f,
                .jump_twin = 0.7f,
                .jump = way == Way::with_difference,
                .adam = AdamFactors<float>::at(step, period, static_cast<double>(0.01f), 0.9, 0.999,
                                               1e-8)};
            plain_adam(one.params, one.adam, numbers, blocks_of(one, with_twin, way));
            adam_pass(two.params, two.adam, numbers_of(numbers), blocks_of(two, with_twin, way));
            for (std::size_t k = 0; k < one.all().size(); ++k)
              if (one.all()[k].second.defined())
                expect_same_bits(one.all()[k].second, two.all()[k].second, one.all()[k].first);
          }
        }
}

TEST(UpdatePass, WantsBothSnapshotsOrNone) {
  Model m({});
  const Tensor numbers = numbers_of({});
  m.give_gradients(1);
  sgd_pass(m.params, {.momentum = m.momentum}, numbers);
  for (const UpdateBlocks& half : {UpdateBlocks{{}, m.own, {}}, UpdateBlocks{{}, {}, m.own}})
    EXPECT_THROW(sgd_pass(m.params, {.momentum = m.momentum}, numbers, half), ShapeError);
}

TEST(Snapshot, IsWhereTheDriftWouldBe) {
  Model m({});
  const i64 n = m.params.size();
  Tensor x = m.params.values().clone(), twin = m.twin.clone(), none;
  mix(x, twin, 0.7f, 0.3f);
  Tensor wide = Tensor::empty({n}), half = Tensor::empty({n}, DType::f16);
  const Tensor before = m.params.values().clone();
  take_snapshot(m.params.values(), m.twin, 0.7f, 0.3f, wide);
  take_snapshot(m.params.values(), m.twin, 0.7f, 0.3f, half);
  expect_same_bits(wide, x, "snapshot");
  expect_same_bits(m.params.values(), before, "values");
  for (i64 i = 0; i < n; ++i)
    ASSERT_NEAR(static_cast<float>(half.as<f16>()[i]), wide.as<float>()[i],
                std::fabs(wide.as<float>()[i]) / 2048 + 1e-7f);
  take_snapshot(m.params.values(), none, 1, 0, wide);
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
    for (const int k : {0, 1}) take_snapshot(x[k], {}, 1, 0, s[k]);
    Tensor y[2] = {x[0].clone(), x[1].clone()}, z[2] = {twin[0].clone(), twin[1].clone()};
    for (const int k : {0, 1}) apply_difference(x[k], twin[k], 0.5f, 0.9f, s[k], s[1 - k]);
    // the sum stays to the last digit of the additions, whatever the wire rounds
    for (i64 i = 0; i < n; ++i)
      EXPECT_NEAR(
          static_cast<double>(x[0].as<float>()[i]) + static_cast<double>(x[1].as<float>()[i]),
          before[static_cast<std::size_t>(i)], 1e-6);
    if (wire == DType::f32)
      for (const int k : {0, 1}) {
        for (i64 i = 0; i < n; ++i)
          jump_element(0.5f, 0.9f, s[k].as<float>()[i] - s[1 - k].as<float>()[i],
                       y[k].as<float>()[i], z[k].as<float>()[i]);
        expect_same_bits(x[k], y[k], "x");
        expect_same_bits(twin[k], z[k], "twin");
      }
  }
}

}  // namespace
}  // namespace gossamer
