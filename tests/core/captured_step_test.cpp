// Which steps run eagerly, which are captured and which are launched, with a fake graph: capturing
// runs the host's code and computes nothing, launching repeats the computation only.
#include "gossamer/core/captured_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "support/error_of.h"

namespace gossamer {
namespace {

using ::testing::HasSubstr;

// The work adds the input to a sum and counts itself on the host.
struct Training {
  explicit Training(bool enabled = true) : step(options(enabled)) {}

  CapturedStep::Options options(bool enabled) {
    struct Fake final : CapturedGraph {
      Training& t;
      explicit Fake(Training& training) : t(training) {}
      void launch() override { ++t.launched, t.sum += *t.input; }
    };
    return {.enabled = enabled,
            .capture = [this](const StepWork& work) -> std::unique_ptr<CapturedGraph> {
              if (!fails.empty()) fail<DeviceError>(fails);
              ++captured;
              const float before = sum;
              work();
              sum = before;
              return std::make_unique<Fake>(*this);
            },
            .counters = {counter},
            .on_failure = [this](const std::string& why) { told.push_back(why); }};
  }
  void run(float value, i64 rows = 4) {
    *input = value;
    step.run({{rows}, input.get()}, [this] {
      ++eager_or_captured;
      ++*counter.as<i64>();
      sum += *input;
    });
  }

  std::unique_ptr<float> input = std::make_unique<float>();
  Tensor counter = Tensor::zeros({1}, DType::i64);
  float sum = 0;
  int captured = 0, launched = 0, eager_or_captured = 0;
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
    EXPECT_EQ(t.step.captured(), k > CapturedStep::kEagerSteps) << k;
  }
  EXPECT_EQ(t.captured, 1);
  EXPECT_EQ(t.launched, 10 - CapturedStep::kEagerSteps);
  EXPECT_EQ(t.eager_or_captured, CapturedStep::kEagerSteps + 1);
}

TEST(CapturedStep, AnotherShapeRunsEagerlyAndIsCapturedIfItPersists) {
  Training t;
  for (int k = 0; k < 5; ++k) t.run(1);
  t.run(1, 3);
  EXPECT_EQ(t.launched, 2) << "eager";
  t.run(1);
  EXPECT_EQ(t.launched, 3) << "the graph is still good";
  for (int k = 0; k < 5; ++k) t.run(1, 3);
  EXPECT_EQ(t.captured, 2);
  EXPECT_EQ(t.launched, 5);
  EXPECT_EQ(t.sum, 12);
  EXPECT_EQ(*t.counter.as<i64>(), 12);
}

TEST(CapturedStep, WorkThatCannotBeCapturedRunsEagerlyFromThenOn) {
  Training t;
  t.fails = "the work waits for the device";
  for (int k = 1; k <= 6; ++k) t.run(1);
  EXPECT_EQ(t.told, std::vector<std::string>{"the work waits for the device"});
  EXPECT_EQ(t.sum, 6);
  EXPECT_EQ(*t.counter.as<i64>(), 6);
  EXPECT_FALSE(t.step.captured());
}

TEST(CapturedStep, DisablingIsToldOnceAndTheListenerMayThrow) {
  Training t;
  t.step.disable("dropout");
  t.step.disable("again");
  EXPECT_EQ(t.told, std::vector<std::string>{"dropout"});
  for (int k = 0; k < 6; ++k) t.run(1);
  EXPECT_EQ(t.captured, 0);

  CapturedStep strict(
      {.enabled = true, .capture = {}, .counters = {}, .on_failure = [](const std::string& why) {
         fail<ConfigError>(why);
       }});
  EXPECT_THAT(error_of<ConfigError>([&] { strict.disable("dropout"); }), HasSubstr("dropout"));

  Training off(false);
  off.step.disable("dropout");
  for (int k = 0; k < 6; ++k) off.run(1);
  EXPECT_EQ(off.captured, 0);
  EXPECT_TRUE(off.told.empty()) << "nobody asked for a graph";
}

}  // namespace
}  // namespace gossamer
