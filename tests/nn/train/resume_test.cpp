// Training as a library, without the program: a run that is stopped and goes on from its file is
// the uninterrupted one, bit for bit, and so is its evaluation with the moving average.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/layers.h"
#include "gossamer/nn/optim.h"
#include "gossamer/nn/schedule.h"
#include "gossamer/nn/train/classification.h"
#include "gossamer/nn/train/gradient_step.h"
#include "gossamer/nn/train/train_state.h"
#include "gossamer/nn/train/worker_models.h"
#include "support/error_of.h"

namespace gossamer::nn {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr i64 kBatch = 6, kSteps = 4;  // of an epoch

// Every batch is a function of its place.
DrawnBatch batch_at(const Position& at) {
  Rng rng(static_cast<std::uint64_t>(at.epoch * kSteps + at.step));
  Tensor images = Tensor::empty({kBatch, 16, 16, 3}), labels = Tensor::empty({kBatch}, DType::i32);
  for (float& v : images.span<float>()) v = rng.normal();
  for (i64 i = 0; i < kBatch; ++i) labels.as<std::int32_t>()[i] = static_cast<std::int32_t>(i % 4);
  return {{{images, labels}, {}, images.shape()}, {0.7f, 0.3f}};
}

struct Trainee {
  explicit Trainee(const std::string& optimizer_name, std::uint64_t seed)
      : net(models::make("resnet8-cifar", {.classes = 4, .seed = seed})),
        params(net->parameters(), net->buffers()),
        optimizer(make_optimizer(optimizer_name, params, {.weight_decay = 1e-3, .period = 3})),
        ema(params, .9),
        gradient({.net = *net,
                  .params = params,
                  .loss_of =
                      [this](const StepBatch& b, const Tensor& shares) {
                        return mixed_cross_entropy((*net)(b.tensors[0]), b.tensors[1], shares, .1f);
                      },
                  .batches = 2}) {}
  TrainState state() { return {net->buffers(), params, *optimizer, &ema}; }
  // So many batches, two of which are one gradient.
  void train(i64 batches) {
    net->train();
    for (i64 k = 0; k < batches; ++k) {
      if (at.step == kSteps) at = {at.samples, at.epoch + 1, 0};
      if (gradient.compute(batch_at(at))) {
        optimizer->step(static_cast<float>(schedule(at.samples)));
        ema.update(params);
        at.samples += 2 * kBatch;
      }
      gradient.step_ends();
      ++at.step;
    }
    loss += gradient.losses().take();
  }
  Tensor evaluate_ema() {
    const EmaInPlace in_place(ema, params);
    const NoGrad no_grad;
    net->eval();
    const DrawnBatch batch = batch_at({.epoch = 99});
    return classification_scores((*net)(batch.batch.tensors[0]), batch.batch.tensors[1], 2);
  }
  std::unique_ptr<Module> net;
  FlatParams params;
  std::unique_ptr<Optimizer> optimizer;
  Ema ema;
  GradientStep gradient;
  Schedule schedule = make_schedule({.peak = .05, .total = 200, .warmup = 24});
  Position at;
  double loss = 0;
};

void expect_same_bits(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].name, b[i].name);
    ASSERT_EQ(a[i].tensor.shape(), b[i].tensor.shape());
    EXPECT_EQ(std::memcmp(a[i].tensor.data(), b[i].tensor.data(), a[i].tensor.bytes()), 0)
        << a[i].name;
  }
}

class StateOfTraining : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "gossamer-state-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { fs::remove_all(folder); }
  fs::path folder;
};

TEST_F(StateOfTraining, GoesOnFromItsFileAsIfItHadNotStopped) {
  for (const std::string optimizer : {"sgd", "adamw", "accum-adam", "muon"}) {
    SCOPED_TRACE(optimizer);
    Trainee whole(optimizer, 1), first(optimizer, 1), second(optimizer, 2);
    whole.train(14);
    first.train(6);
    save_state(folder / "state", first.state(), first.at);
    second.at = load_state(folder / "state", second.state());
    EXPECT_EQ(second.at.samples, 36);
    EXPECT_EQ(second.at.epoch, 1);
    EXPECT_EQ(second.at.step, 2);
    second.train(8);
    expect_same_bits(windows_of(whole.state()), windows_of(second.state()));
    EXPECT_GT(whole.loss, 0);
    const Tensor wanted = whole.evaluate_ema(), got = second.evaluate_ema();
    EXPECT_EQ(std::memcmp(wanted.data(), got.data(), wanted.bytes()), 0);
    expect_same_bits(windows_of(whole.state()), windows_of(second.state()));
  }
}

// The batches of an unfinished gradient are computed again.
TEST_F(StateOfTraining, ASnapshotInAGradientIsOfBeforeItsFirstBatch) {
  Trainee whole("sgd", 1), stopped("sgd", 1), second("sgd", 2);
  whole.train(8);
  stopped.train(5);
  stopped.gradient.abandon();
  --stopped.at.step;
  save_state(folder / "state", stopped.state(), stopped.at);
  second.at = load_state(folder / "state", second.state());
  second.train(4);
  expect_same_bits(windows_of(whole.state()), windows_of(second.state()));
}

TEST_F(StateOfTraining, ASnapshotStaysWhileTrainingGoesOn) {
  Trainee run("sgd", 1), other("sgd", 2);
  run.train(4);
  const TrainSnapshot copy = snapshot(run.state(), run.at, {{"model", "m"}}, {{"note", "n"}});
  run.train(4);
  write_safetensors(folder / "state", copy.tensors, copy.header);
  load_state(folder / "state", other.state());
  expect_same_bits(copy.tensors, windows_of(other.state()));
  EXPECT_EQ(copy.header.at("note"), "n");
  EXPECT_EQ(model_header_in(copy.header), (Header{{"model", "m"}}));
}

TEST_F(StateOfTraining, SaysWhatDoesNotFit) {
  Trainee run("sgd", 1);
  save_state(folder / "state", run.state(), {});
  const std::string name = (folder / "state").string();
  Trainee adam("adam", 1);
  EXPECT_THAT(error_of<IoError>([&] { load_state(name, adam.state()); }),
              AllOf(HasSubstr(name), HasSubstr("\"optim.first_moment."), HasSubstr("has no")));
  const auto other = models::make("resnet8-cifar", {.classes = 5});
  FlatParams params(other->parameters(), other->buffers());
  Sgd sgd(params);
  EXPECT_THAT(error_of<OtherShapes>([&] {
                load_state(name, {other->buffers(), params, sgd});
              }),
              AllOf(HasSubstr(name), HasSubstr("[4, 64]"), HasSubstr("[5, 64]")));
  Tensor(run.params.values()).fill(NAN);
  EXPECT_THAT(error_of<Error>([&] { save_state(name, run.state(), {}); }), HasSubstr("not finite"));
  EXPECT_NO_THROW(check_safetensors(name)) << "the good one is still there";
  std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(fs::file_size(name)) / 2).put('x');
  file.close();
  EXPECT_THAT(error_of<IoError>([&] { load_state(name, run.state()); }), HasSubstr("checksum"));
}

TEST_F(StateOfTraining, TheModelOfSeveralWorkersIsTheirMean) {
  Trainee one("sgd", 1), two("sgd", 2), mean("sgd", 3);
  save_state(folder / "1", one.state(), {});
  save_state(folder / "2", two.state(), {});
  load_mean_of_workers({folder / "1", folder / "2"}, mean.params);
  const auto a = one.params.values().span<float>(), b = two.params.values().span<float>(),
             c = mean.params.values().span<float>();
  for (std::size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c[i], (a[i] + b[i]) / 2, 1e-6);
}

}  // namespace
}  // namespace gossamer::nn
