// Workers that step together stop after the same step, so a run that was stopped and goes on ends
// with the same bits as one that was not, with each synchronous method.
#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/dist/method.h"

namespace gossamer::apps {
namespace {

std::vector<std::string> methods_in_step() {
  std::vector<std::string> names = dist::method_names();
  std::erase_if(names, [](const std::string& each) {
    const dist::MethodTraits& m = dist::method_traits(each);
    return !m.synchronous || m.simulated_only;
  });
  return names;
}

class CommonStop : public ProgramTest, public ::testing::WithParamInterface<std::string> {
 protected:
  // Six workers in a row: they may be five steps apart. They see unlike data.
  std::vector<std::string> arguments(const std::string& name) const {
    const std::string& method = GetParam();
    std::vector<std::string> all =
        tiny({"train.method=" + method, "train.graph=chain", "data.shard=dirichlet:.5",
              "train.batch=2", "train.epochs=6", "train.accumulate=2", "optim.learning_rate=0.01",
              "optim.name=" + dist::method_traits(method).usual_optimizer(), "run.name=" + name,
              "run.checkpoint_every=0", "--workers", "6"});
    return all;
  }
};

TEST_P(CommonStop, AndTheResumedRunEndsWithTheSameBits) {
  ASSERT_EQ(run(arguments("whole")).code, 0) << read_text(folder / "err");
  auto stopped = arguments("t");
  stopped.push_back(slowed(2, 2));  // 0 and 1 wait for nobody at first, then all for them
  stopped.insert(stopped.end(), {"--resume", "auto"});
  for (int leg = 0; leg < 2; ++leg) {
    const std::size_t before = events("step").size();
    start(stopped);
    ASSERT_TRUE(wait_for("step", before + 7)) << read_text(folder / "err");
    kill(running, SIGTERM);
    ASSERT_EQ(wait().code, 143) << read_text(folder / "err");
    std::map<double, int> samples;
    for (const Json& each : events("interrupted")) ++samples[each["samples"].get<double>()];
    for (const auto& [at, workers] : samples) EXPECT_EQ(workers, 6) << "at " << at << " images";
  }
  ASSERT_EQ(run(stopped).code, 0) << read_text(folder / "err");
  // what it has measured is in no checkpoint
  if (dist::method_traits(GetParam()).controls) return;
  expect_same_tensors(folder / "runs/whole/model.safetensors", folder / "runs/t/model.safetensors");
}

INSTANTIATE_TEST_SUITE_P(Each, CommonStop, ::testing::ValuesIn(methods_in_step()),
                         [](const auto& each) {
                           std::string name = each.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace gossamer::apps
