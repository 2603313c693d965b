// Steps of every task as graphs, with a fake that does as CUDA graphs do (support/fake_graphs.h):
// what they train is what eager steps train, bit for bit.
#include <barrier>
#include <cstring>
#include <optional>

#include <gmock/gmock.h>

#include "apps/text_data.h"
#include "apps/translation_steps.h"
#include "dist/workers.h"
#include "gossamer/apps/train/common_stop.h"
#include "gossamer/apps/train/loop.h"
#include "gossamer/apps/train/milestones.h"
#include "gossamer/apps/train/step_log.h"
#include "gossamer/apps/train/worker.h"
#include "gossamer/nn/layers.h"
#include "support/fake_graphs.h"
#include "support/use_backend.h"

namespace gossamer::apps {
namespace {

using ::testing::ElementsAreArray;

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

void expect_same(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    EXPECT_TRUE(same_bits(a[i].tensor, b[i].tensor)) << a[i].name;
}

class StepGraphs : public ProgramTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    before_ = fs::current_path();
    fs::current_path(folder);
    if (!pictures()) make_texts(folder);
  }
  void TearDown() override {
    fs::current_path(before_);
    ProgramTest::TearDown();
  }
  bool pictures() const { return GetParam() == "pictures"; }

  // With all that changes steps: pictures of two sizes, mixup, CutMix and smaller last batches;
  // text with dropout, pairs of many shapes.
  Config config(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> keys{"train.threads=1", "train.device=cpu", "train.epochs=3",
                                  "run.name=t", "optim.label_smoothing=0.1"};
    const std::vector<std::string> of_task =
        pictures() ? std::vector<std::string>{"model.name=resnet8-cifar",
                                              "data.train=s/train",
                                              "data.val=s/val",

                                              "data.size=32",
                                              "data.sizes=[16]",
                                              "data.size_milestones=[0.5]",
                                              "train.batch=10",
                                              "train.mixup=0.3",
                                              "train.cutmix=1"}
                   : std::vector<std::string>{"task=" + GetParam(), "data.train=" + GetParam(),
                                              "data.length=32",     "model.layers=1",
                                              "model.width=16",     "model.heads=2",
                                              "model.dropout=0.1"};
    keys.insert(keys.end(), of_task.begin(), of_task.end());
    if (GetParam() == "language") keys.push_back("train.batch=8");
    if (GetParam() == "translation") keys.insert(keys.end(), {"train.batch=96", "model.ff=32"});
    keys.insert(keys.end(), more.begin(), more.end());
    return load_config(keys);
  }

  struct Trained {
    std::vector<NamedTensor> state;
    int captured = 0, launched = 0;
  };
  // The loop of `gossamer train`, up to its end.
  Trained train(const Config& c, bool graphs, const std::optional<fs::path>& resume = {}) const {
    std::optional<ResumePoint> from;
    if (resume) from = find_checkpoint(*resume);
    Worker w(c, {.json = true}, {}, from);
    FakeGraphs fakes{.net = *w.trainer.net, .params = *w.trainer.params};
    nn::GradientStep gradient = gradient_step(
        w.plan, w.journal, w.trainer,
        [&] { return w.plan.schedule(w.trainer.method->samples_seen()); },
        graphs ? fakes.capture() : GraphCapture());
    fakes.losses = &gradient.losses();
    StepLog log(w.plan, w.journal, w.trainer);
    Milestones milestones(w.plan, w.journal, w.trainer, w.checkpoints);
    CommonStop stop(*w.trainer.group, false, 0);
    train_loop(w.plan, w.trainer, gradient, log, milestones, stop);
    w.checkpoints.wait();
    return {nn::snapshot(w.trainer.state(), w.trainer.at).tensors, fakes.captured, fakes.launched};
  }

 private:
  fs::path before_;
};

INSTANTIATE_TEST_SUITE_P(Of, StepGraphs, ::testing::Values("pictures", "language", "translation"),
                         [](const auto& of) { return of.param; });

TEST_P(StepGraphs, TrainWhatEagerStepsTrain) {
  for (const char* accumulate : {"train.accumulate=1", "train.accumulate=3"}) {
    SCOPED_TRACE(accumulate);
    // evaluations between the steps, of the model and of its moving average
    const Config c = config({accumulate, "train.ema=0.9", "eval.every=0.4"});
    const Trained eager = train(c, false), graph = train(c, true);
    EXPECT_EQ(eager.launched, 0);
    EXPECT_GE(graph.captured, GetParam() == "language" ? 1 : 2) << "shapes";
    EXPECT_GE(graph.launched, 8);
    expect_same(eager.state, graph.state);
  }
}

TEST_P(StepGraphs, AResumedRunIsTheUninterruptedOne) {
  const Config c = config({"run.checkpoint_every=0.8", "run.keep=9", "train.ema=0.9"});
  const Trained whole = train(c, true);
  const std::vector<ResumePoint> points = list_checkpoints("runs/t");
  ASSERT_GE(points.size(), 2u);
  fs::rename("runs/t", "runs/whole");
  for (const bool graphs : {true, false}) {
    const fs::path from = "runs/whole/checkpoints" / points.back().checkpoint.filename();
    const Trained resumed =
        train(config({"run.name=" + std::string(graphs ? "graphs" : "eager"), "train.ema=0.9"}),
              graphs, from);
    EXPECT_EQ(resumed.launched > 0, graphs);
    expect_same(whole.state, resumed.state);
  }
}

// Every pass as a GPU does it, the steps launched as graphs.
TEST_P(StepGraphs, DeterministicTrainingOnAnEmulatedGpuIsRepeatedAndResumedBitForBit) {
  const UseBackend emulated("cuda_emulated");
  const auto as = [&](const std::string& name) {
    std::vector<std::string> keys{"train.deterministic=true", "train.epochs=1.5",
                                  "run.checkpoint_every=0.6", "run.keep=9", "run.name=" + name};
    if (pictures()) keys.insert(keys.end(), {"data.sizes=[]", "data.size_milestones=[]"});
    return config(keys);
  };
  const Trained first = train(as("first"), true);
  EXPECT_GE(first.launched, 3);
  expect_same(train(as("again"), true).state, first.state);
  const std::vector<ResumePoint> points = list_checkpoints("runs/first");
  ASSERT_GE(points.size(), 2u);
  expect_same(train(as("resumed"), true, points.back().checkpoint).state, first.state);
}

// Three workers sum their gradients, until one dies between two steps. All end their steps
// together, so that the death lies at the same place in each run.
TEST_P(StepGraphs, TrainWhatEagerStepsTrainWhenANeighbourDies) {
  constexpr int kWorkers = 3, kSteps = 16, kDeath = 8;
  const Config c = config();
  const auto train_together = [&](bool graphs) {
    std::vector<NamedTensor> state;
    int launched = 0;
    dist::LocalCluster cluster(kWorkers);
    std::barrier together(kWorkers);
    dist::on_workers(cluster, kWorkers, [&](int rank, dist::Group& group) {
      dist::LaunchInfo place;
      place.rank = rank, place.size = kWorkers;
      const Task task = make_task(c, place, Device());
      task.data->open_loader();
      task.data->seek({}, 0);
      std::vector<std::string> notes;
      const auto net = [&] {
        static std::mutex one;  // seeds are the process's
        const std::scoped_lock lock(one);
        return task.model->make(true, notes);
      }();
      for (nn::Module* module : net->modules())
        if (auto* drop = dynamic_cast<nn::Dropout*>(module)) drop->draw_for(rank);
      FlatParams params(net->parameters(), net->buffers(), {.separate = true});
      const auto optimizer = nn::make_optimizer("sgd", params, {});
      const auto method = dist::make_method("allreduce", params, *optimizer, group,
                                            dist::make_graph("ring", kWorkers), {});
      FakeGraphs fakes{.net = *net, .params = params};
      nn::GradientStep gradient(
          {.net = *net,
           .params = params,
           .loss_of = [&](const nn::StepBatch& batch,
                          const Tensor& numbers) { return task.model->loss(*net, batch, numbers); },
           .before_backward = [&] { method->prepare(.05); }},
          step_graph(graphs ? "on" : "off", fakes.capture()), graphs);
      fakes.losses = &gradient.losses();
      net->train();
      nn::Position at;
      for (int k = 0; k < kSteps; ++k, ++at.step) {
        nn::DrawnBatch batch = task.data->next(at, 0);
        if (batch.batch.empty()) {
          at = {0, at.epoch + 1, 0};
          batch = task.data->next(at, 0);
        }
        gradient.compute(batch);
        method->step(.05);
        gradient.step_ends();
        together.arrive_and_wait();
        if (k == kDeath && rank == kWorkers - 1) {
          cluster.kill(rank);
          together.arrive_and_drop();
          return;
        }
        if (k == kDeath) together.arrive_and_wait();
      }
      if (rank > 0) return;
      launched = fakes.launched;
      state = nn::snapshot({net->buffers(), params, *optimizer}, at).tensors;
    });
    EXPECT_EQ(launched > 0, graphs);
    return state;
  };
  expect_same(train_together(false), train_together(true));
}

// At the sixth step all tensors but the first move to more memory; the eighth then fits the graph
// in shape and in the place of its first tensor.
TEST(StepGraphsOfTranslation, AGraphIsNotLaunchedWhenOneOfItsInputsHasMoved) {
  for (const float dropout : {0.0f, 0.1f}) {
    TranslationSteps eager(Device(), dropout), graph(Device(), dropout);
    FakeGraphs fakes{.net = graph.net, .params = graph.params};
    graph.use_graphs(fakes.capture(), true);
    fakes.losses = &graph.gradient->losses();
    std::vector<int> launched;
    for (int k = 0; k < TranslationSteps::kSteps; ++k) {
      EXPECT_EQ(eager.step(k), graph.step(k)) << k;
      launched.push_back(fakes.launched);
    }
    EXPECT_THAT(launched, ElementsAreArray({0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 3}));
    EXPECT_TRUE(same_bits(eager.params.values(), graph.params.values()));
  }
}

}  // namespace
}  // namespace gossamer::apps
