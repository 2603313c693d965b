// Which steps run eagerly, which are captured and which are launched, with a fake graph: capturing
// runs the host's code and computes nothing; launching repeats the computation only, on the memory
// that was captured.
#include "gossamer/core/captured_step.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "support/error_of.h"

namespace gossamer {
namespace {

using ::testing::HasSubstr;

Tensor number(float value) { return Tensor::full({}, value); }

// The work adds its inputs to a sum and counts itself on the host.
struct Training {
  explicit Training(bool enabled = true) : step(options(enabled)) {}

  CapturedStep::Options options(bool enabled) {
    struct Fake final : CapturedGraph {
      Training& t;
      const std::vector<const float*> inputs;
      explicit Fake(Training& training) : t(training), inputs(training.reading) {}
      ~Fake() override { --t.alive; }
      void launch() override {
        ++t.launched;
        for (const float* x : inputs) t.sum += *x;
      }
    };
    const auto capture = [this](const StepWork& work) -> std::unique_ptr<CapturedGraph> {
      if (!fails.empty()) fail<DeviceError>(fails);
      ++captured, ++alive;
      const float before = sum;
      work();
      sum = before;
      return std::make_unique<Fake>(*this);
    };
    return {.graphs = {.capture = enabled ? GraphCapture(capture) : nullptr,
                       .on_failure = [this](const std::string& why) { told.push_back(why); }},
            .counters = {counter},
            .fixed = {parameter}};
  }
  void run(const std::vector<Tensor>& inputs, i64 rows = 4) {
    reading.clear();
    for (const Tensor& x : inputs) reading.push_back(x.as<float>());
    step.run({{rows}, inputs}, [this] {
      ++eager_or_captured;
      ++*counter.as<i64>();
      for (const float* x : reading) sum += *x;
    });
  }
  void run(float value, i64 rows = 4) {
    input.fill(value);
    run({input}, rows);
  }

  Tensor input = number(0);
  const Tensor parameter = number(0), counter = Tensor::zeros({1}, DType::i64);
  std::vector<const float*> reading;
  float sum = 0;
  int captured = 0, launched = 0, eager_or_captured = 0, alive = 0;
  std::string fails;
  std::vector<std::string> told;
  CapturedStep step;
};

TEST(CapturedStep, RunsAFewStepsEagerlyThenLaunchesTheGraph) {
  Training t;
  float want = 0;
  for (int k = 1; k <= 10; ++k) {
    t.run(static_cast<float>(k));
    want += static_cast<float>(k);
    EXPECT_EQ(t.sum, want) << k;
    EXPECT_EQ(*t.counter.as<i64>(), k) << "launches count as runs do";
    EXPECT_EQ(t.step.graphs(), k > CapturedStep::kEagerSteps ? 1u : 0u) << k;
  }
  EXPECT_EQ(t.captured, 1);
  EXPECT_EQ(t.launched, 10 - CapturedStep::kEagerSteps);
  EXPECT_EQ(t.eager_or_captured, CapturedStep::kEagerSteps + 1);
}

TEST(CapturedStep, AGraphFitsOnlyTheMemoryOfAllItsInputs) {
  Training t;
  const Tensor first = number(1), second = number(10);
  for (int k = 0; k < 5; ++k) t.run({first, second});
  EXPECT_EQ(t.launched, 2);
  EXPECT_EQ(t.sum, 55);
  // Only the second moves.
  const Tensor moved = number(100);
  t.run({first, moved});
  EXPECT_EQ(t.launched, 2) << "its graph would read where the second was";
  EXPECT_EQ(t.sum, 156);
  for (int k = 0; k < 3; ++k) t.run({first, moved});
  EXPECT_EQ(t.captured, 2);
  EXPECT_EQ(t.launched, 3);
  EXPECT_EQ(t.alive, 1) << "the graph of the memory before is gone";
  EXPECT_EQ(t.sum, 156 + 303);
}

TEST(CapturedStep, AGraphFitsOnlyTheMemoryOfWhatIsFixed) {
  Training t;
  for (int k = 0; k < 4; ++k) t.run(1);
  EXPECT_EQ(t.launched, 1);
  Tensor(t.parameter).rebind(number(2));
  for (int k = 0; k < 3; ++k) t.run(1);
  EXPECT_EQ(t.launched, 1);
  t.run(1);
  EXPECT_EQ(t.captured, 2);
  EXPECT_EQ(t.launched, 2);
}

TEST(CapturedStep, AGraphKeepsTheMemoryOfItsInputs) {
  Training t;
  int released = 0;
  float memory = 1;
  {
    const Tensor lent = Tensor::wrap(&memory, {}, DType::f32, [&] { ++released; });
    for (int k = 0; k < 3; ++k) t.run({lent});
  }
  EXPECT_EQ(released, 1) << "eager steps keep nothing";
  {
    const Tensor lent = Tensor::wrap(&memory, {}, DType::f32, [&] { ++released; });
    t.run({lent});
  }
  EXPECT_EQ(t.captured, 1);
  EXPECT_EQ(released, 1);
  for (int k = 0; k < 4; ++k) t.run(1);  // elsewhere: the graph leaves
  EXPECT_EQ(released, 2);
}

TEST(CapturedStep, EachShapeHasItsEagerStepsAndItsGraph) {
  Training t;
  for (int k = 0; k < 5; ++k) t.run(1);
  EXPECT_EQ(t.launched, 2);
  for (int k = 0; k < 3; ++k) {
    t.run(1, 3);
    EXPECT_EQ(t.launched, 2 + k) << "eager";
    t.run(1);
    EXPECT_EQ(t.launched, 3 + k) << "the graph is still good";
  }
  t.run(1, 3);
  EXPECT_EQ(t.captured, 2) << "though its steps did not follow each other";
  t.run(1);
  EXPECT_EQ(t.captured, 2);
  EXPECT_EQ(t.launched, 7);
  EXPECT_EQ(t.sum, 13);
  EXPECT_EQ(*t.counter.as<i64>(), 13);
}

TEST(CapturedStep, TheMostUsedShapesHaveTheGraphs) {
  Training t;
  constexpr auto kMost = static_cast<i64>(CapturedStep::kMostGraphs);
  for (int k = 0; k < 6; ++k)
    for (i64 rows = 1; rows <= kMost; ++rows)
      if (rows != 3 || k < 4) t.run(1, rows);  // shape 3 is the least used
  EXPECT_EQ(t.captured, kMost);
  // Shapes that are used alike do not take turns.
  for (int k = 0; k < 8; ++k) t.run(1, 100);
  EXPECT_EQ(t.captured, kMost);
  t.run(1, 100);  // 9 uses; shape 3 has 4
  EXPECT_EQ(t.captured, kMost + 1);
  EXPECT_EQ(t.alive, kMost);
  const int launched = t.launched;
  t.run(1, 3);
  EXPECT_EQ(t.launched, launched) << "its graph has left";
  for (i64 rows = 1; rows <= kMost; ++rows)
    if (rows != 3) t.run(1, rows);
  EXPECT_EQ(t.launched, launched + kMost - 1) << "the others stay";
}

TEST(CapturedStep, ShapesOfLongAgoGiveTheirGraphsBack) {
  Training t;
  for (int k = 0; k < 300; ++k) t.run(1, 1 + k % 8);
  EXPECT_EQ(t.alive, 8);
  for (int k = 0; k < 3000; ++k) t.run(1, 9);
  EXPECT_EQ(t.alive, 1);
}

TEST(CapturedStep, WorkThatCannotBeCapturedRunsEagerlyFromThenOn) {
  Training t;
  t.fails = "the work waits for the device";
  for (int k = 1; k <= 6; ++k) t.run(1);
  EXPECT_EQ(t.told, std::vector<std::string>{"the work waits for the device"});
  EXPECT_EQ(t.sum, 6);
  EXPECT_EQ(*t.counter.as<i64>(), 6);
  EXPECT_EQ(t.step.graphs(), 0u);
  t.step.forget();
  for (int k = 1; k <= 6; ++k) t.run(1);
  EXPECT_EQ(t.told.size(), 1u) << "it is not tried again";
}

TEST(CapturedStep, WorkThatDoesSomethingElseIsCapturedAnew) {
  Training t;
  for (int k = 0; k < 5; ++k) t.run(1);
  EXPECT_EQ(t.captured, 1);
  t.step.forget();
  EXPECT_EQ(t.alive, 0);
  for (int k = 0; k < CapturedStep::kEagerSteps; ++k) t.run(1);
  EXPECT_EQ(t.captured, 1);
  t.run(1);
  EXPECT_EQ(t.captured, 2);
}

TEST(CapturedStep, TheListenerMayThrow) {
  CapturedStep strict(
      {.graphs = {.capture = [](const StepWork&) -> std::unique_ptr<CapturedGraph> {
                    fail<DeviceError>("it waits");
                  },
                  .on_failure = [](const std::string& why) { fail<ConfigError>(why); }}});
  const auto step = [&] { strict.run({{4}, {}}, [] {}); };
  for (int k = 0; k < CapturedStep::kEagerSteps; ++k) step();
  EXPECT_THAT(error_of<ConfigError>(step), HasSubstr("it waits"));
}

TEST(CapturedStep, WithoutAListenerAFailureIsAnError) {
  CapturedStep step({.graphs = {[](const StepWork&) -> std::unique_ptr<CapturedGraph> {
                       fail<DeviceError>("it waits");
                     }}});
  for (int k = 0; k < CapturedStep::kEagerSteps; ++k) step.run({{4}, {}}, [] {});
  EXPECT_THAT(error_of<DeviceError>([&] { step.run({{4}, {}}, [] {}); }), HasSubstr("it waits"));
}

// On a launch no host code runs: what f returned at the capture is where the result lies.
TEST(CapturedStep, AFunctionOfATensorHasItsInputAndResultInTheMemoryOfItsGraph) {
  struct Doubles final : CapturedGraph {
    const Tensor in, out;
    Doubles(const Tensor& i, const Tensor& o) : in(i), out(o) {}
    void launch() override {
      for (i64 i = 0; i < in.numel(); ++i) out.as<float>()[i] = 2 * in.as<float>()[i];
    }
  };
  int calls = 0, captured = 0;
  std::vector<Tensor> made{{}, {}};  // the last input and result of f
  const auto f = [&](const Tensor& x) {
    ++calls;
    made = {x, Tensor::empty(x.shape())};
    Doubles(made[0], made[1]).launch();
    return made[1];
  };
  CapturedStep::Options options;
  options.graphs.capture = [&](const StepWork& work) -> std::unique_ptr<CapturedGraph> {
    ++captured;
    work();
    made[1].fill(NAN);  // nothing was computed
    return std::make_unique<Doubles>(made[0], made[1]);
  };
  CapturedStep step(std::move(options));
  for (int k = 1; k <= 6; ++k)
    for (const i64 rows : {1, 3}) {
      const Tensor x = Tensor::full({rows}, static_cast<float>(k * rows));
      const Tensor y = step.run(x, f);
      EXPECT_EQ(y.shape(), x.shape());
      for (const float v : y.span<float>()) EXPECT_EQ(v, static_cast<float>(2 * k * rows)) << k;
    }
  EXPECT_EQ(captured, 2);
  EXPECT_EQ(calls, 2 * (CapturedStep::kEagerSteps + 1));
}

TEST(CapturedStep, WithoutACaptureAllStepsRunEagerly) {
  Training off(false);
  for (int k = 0; k < 6; ++k) off.run(1);
  EXPECT_EQ(off.captured, 0);
  EXPECT_EQ(off.sum, 6);
}

}  // namespace
}  // namespace gossamer
