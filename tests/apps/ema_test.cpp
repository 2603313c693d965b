// The moving average of a model: its numbers, in checkpoints, and at the end of a run.
#include "gossamer/apps/train/ema.h"

#include <cmath>
#include <cstring>

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/core/safetensors.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

struct OneBlock {
  Tensor weight = Tensor::full({4, 2}, 1.0f), mean = Tensor::full({3}, 10.0f);
  FlatParams params{{{"weight", weight}}, {{"mean", mean}}};
  void set(float w, float m) {
    Tensor values = params.values(), buffers = params.buffers();
    for (float& v : values.span<float>()) v = w;
    for (float& v : buffers.span<float>()) v = m;
    params.refresh();
  }
  float value() const { return params.values().span<float>()[0]; }
  float buffer() const { return params.buffers().span<float>()[0]; }
};

TEST(EmaDecay, IsThatOfTimm) {
  // ModelEmaV3(decay=0.9999, use_warmup=True).get_decay(step) of timm 1.0
  EXPECT_EQ(Ema::decay_at(0.9999, 1), 0);
  EXPECT_NEAR(Ema::decay_at(0.9999, 2), 0.37003947505256340, 1e-12);
  EXPECT_NEAR(Ema::decay_at(0.9999, 10), 0.78455653099681160, 1e-12);
  EXPECT_NEAR(Ema::decay_at(0.9999, 1000), 0.99, 1e-12);
  EXPECT_EQ(Ema::decay_at(0.9, 1000), 0.9);
}

TEST(EmaOf, ParametersAndRunningStatisticsFollowsTheFormula) {
  OneBlock model;
  Ema ema(model.params, 0.5);
  double w = 0, m = 0;
  for (int t = 1; t <= 5; ++t) {
    model.set(static_cast<float>(t * t), static_cast<float>(-t));
    ema.update(model.params);
    const double d = Ema::decay_at(0.5, t);
    w = d * w + (1 - d) * t * t, m = d * m + (1 - d) * -t;
  }
  {
    const EmaInPlace average(ema, model.params);
    EXPECT_NEAR(model.value(), w, 1e-5);
    EXPECT_NEAR(model.buffer(), m, 1e-5);
    EXPECT_NEAR(model.weight.span<float>()[7], w, 1e-5) << "layers compute with it";
  }
  EXPECT_EQ(model.value(), 25) << "and the model is back";
  EXPECT_EQ(model.buffer(), -5);
  EXPECT_EQ(model.weight.span<float>()[7], 25);
}

TEST(EmaOf, ItsStateIsNamedLikeTheModelAndRestartsThere) {
  OneBlock model;
  Ema ema(model.params, 0.5);
  model.set(3, 4);
  ema.update(model.params);
  std::vector<std::string> names;
  for (const NamedTensor& t : ema.state(model.params, "ema.")) names.push_back(t.name);
  EXPECT_THAT(names, ::testing::ElementsAre("ema.weight", "ema.mean", "ema.updates"));
  EXPECT_EQ(*ema.state(model.params, "")[2].tensor.as<i64>(), 1);
  model.set(5, 6);
  ema.restart(model.params);
  EXPECT_EQ(*ema.state(model.params, "")[2].tensor.as<i64>(), 0);
  EXPECT_EQ(ema.state(model.params, "")[0].tensor.span<float>()[0], 5);
}

class EmaRun : public ProgramTest {
 protected:
  void expect_same(const std::string& file, const std::string& run) const {
    const SafeTensors wanted = read_safetensors(folder / "runs/whole" / file);
    const SafeTensors got = read_safetensors(folder / "runs" / run / file);
    for (const NamedTensor& t : wanted.tensors)
      EXPECT_EQ(std::memcmp(t.tensor.data(), got.find(t.name)->data(), t.tensor.bytes()), 0)
          << file << " " << t.name;
  }
};

TEST_F(EmaRun, ResumesBitForBitAndItsFileHasTheAccuracyThatWasSaid) {
  const Result whole = run(tiny({"train.epochs=2", "train.ema=0.8", "train.accumulate=2",
                                 "run.checkpoint_every=0.5", "run.keep=99", "run.name=whole"}));
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_THAT(whole.out, HasSubstr("\nema      top-1 "));
  const Json s = summary("whole");
  const Result eval = run({"eval", "runs/whole/model-ema.safetensors", "data.val=s/val", "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_EQ(Json::parse(eval.out)["top1"], s["ema_top1"]);
  EXPECT_NEAR(Json::parse(eval.out)["loss"].get<double>(), s["ema_loss"].get<double>(), 1e-5);
  EXPECT_NE(s["ema_loss"], s["loss"]);
  for (const char* label : {"samples-000000000048", "samples-000000000144"}) {
    const Result r = run({"train", "runs/whole/config.toml", std::string("run.name=") + label,
                          "--resume", std::string("runs/whole/checkpoints/") + label});
    ASSERT_EQ(r.code, 0) << r.err;
    expect_same("model.safetensors", label);
    expect_same("model-ema.safetensors", label);
  }
}

TEST_F(EmaRun, IsEvaluatedOnTheWayAndMayBeTheBest) {
  const std::vector<std::string> keys{"train.epochs=3", "train.ema=0.7"};
  const auto named = [&](const std::string& name, std::vector<std::string> more) {
    more.insert(more.end(), keys.begin(), keys.end());
    more.push_back("run.name=" + name);
    return run(tiny(more));
  };
  ASSERT_EQ(named("whole", {}).code, 0);
  const Result r = named("t", {"eval.every=0.5", "run.keep_best=99"});
  ASSERT_EQ(r.code, 0) << r.err;
  expect_same("model.safetensors", "t");
  expect_same("model-ema.safetensors", "t");
  EXPECT_THAT(r.out, HasSubstr(": EMA: top-1 "));
  double best = 0;
  int of_ema = 0;
  for (const Json& e : events("eval")) {
    best = std::max(best, e["top1"].get<double>());
    of_ema += e.value("ema", false);
  }
  EXPECT_EQ(of_ema, 6);
  EXPECT_EQ(summary()["best"]["top1"].get<double>(), best);
  int files = 0;
  for (const auto& entry : fs::directory_iterator(folder / "runs/t/best")) {
    const auto metadata = read_safetensors_metadata(entry.path());
    const bool ema = entry.path().stem().string().ends_with("-ema");
    EXPECT_EQ(metadata.at("of"), ema ? "ema" : "model");
    files += ema;
    if (!ema) continue;
    const Result eval = run({"eval", entry.path(), "data.val=s/val", "train.threads=1", "--json"});
    EXPECT_EQ(Json::parse(eval.out)["top1"].get<double>(), std::stod(metadata.at("top1")));
  }
  EXPECT_EQ(files, 6);
  EXPECT_THAT(read_text(folder / "runs/t/report.html"), HasSubstr("top-1 of the EMA"));
  EXPECT_THAT(read_text(folder / "runs/t/log.csv"), HasSubstr("\neval-ema,0,"));
}

TEST_F(EmaRun, WorkersMeetToEvaluateTheAverageOfTheirs) {
  const Result r = run(tiny({"train.epochs=4", "train.ema=0.5", "eval.every=1", "eval.of=mean",
                             "train.method=adpsgd", "--workers", "2"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("average of 2 EMAs: top-1 "));
  const auto evals = events("eval");
  ASSERT_EQ(evals.size(), 8u);
  for (const Json& e : evals) EXPECT_EQ(e["images"], 40);
}

TEST_F(EmaRun, ACheckpointWithoutOneIsRefusedInWords) {
  ASSERT_EQ(run(tiny({"run.checkpoint_every=0.5"})).code, 0);
  const Result r = run({"train", "train.epochs=2", "train.ema=0.9", "--resume", "runs/t"});
  EXPECT_EQ(r.code, 6);
  EXPECT_THAT(r.err, HasSubstr("it was written without train.ema"));
}

TEST_F(EmaRun, WorkersKeepTheirOwnAndTheEndAveragesThem) {
  for (const std::string method : {"a2cid2", "allreduce", "dpsgd"}) {
    const Result r = run(tiny({"train.epochs=3", "train.ema=0.5", "train.method=" + method,
                               "run.name=" + method, "--workers", "2"}));
    ASSERT_EQ(r.code, 0) << r.err;
    const Json s = summary(method);
    // A short memory: close to the model itself.
    EXPECT_NEAR(s["ema_loss"].get<double>(), s["loss"].get<double>(), 0.5) << method;
    EXPECT_TRUE(fs::exists(folder / "runs" / method / "model-ema.safetensors"));
  }
}

}  // namespace
}  // namespace gossamer::apps
