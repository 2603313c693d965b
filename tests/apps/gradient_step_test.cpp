// A training step as a captured graph, with a fake that does as CUDA graphs do
// (support/fake_graphs.h). The losses are those of eager steps, bit for bit.
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dist/workers.h"
#include "gossamer/apps/train/loop.h"
#include "gossamer/apps/train/picture_step.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/local/local_cluster.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/layers.h"
#include "gossamer/nn/optim.h"
#include "support/error_of.h"
#include "support/fake_graphs.h"
#include "support/updates.h"
#include "support/use_backend.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

data::Batch batch_of(i64 rows, int side, std::uint64_t seed) {
  Rng rng(seed);
  data::Batch b{Tensor::empty({rows, side, side, 3}, DType::u8), Tensor::empty({rows}, DType::i32)};
  for (auto& v : b.images.span<std::uint8_t>()) v = static_cast<std::uint8_t>(rng.below(256));
  for (auto& v : b.labels.span<std::int32_t>()) v = static_cast<std::int32_t>(rng.below(4));
  return b;
}

Config config_with(double mixup, double cutmix) {
  Config c;
  c.model.name = "resnet8-cifar";
  c.train.mixup = mixup;
  c.train.cutmix = cutmix;
  c.optim.label_smoothing = 0.1;
  return c;
}

// passes: an optimizer as on a GPU.
std::unique_ptr<Optimizer> sgd_for(FlatParams& params, bool passes) {
  const UseBackend use(passes ? "cuda_emulated" : backend(Device::cpu()).name());
  return nn::make_optimizer("sgd", params, {.weight_decay = 1e-3});
}

// The loop: all of it but methods and files.
struct Training {
  Training(const Config& c, const std::string& mode, bool fixed, int batches = 1)
      : config(c),
        net(models::make(c.model.name, {.classes = 4, .seed = 3})),
        params(net->parameters(), net->buffers(), {.separate = true}),
        sgd(sgd_for(params, fixed)),
        prepare(pictures(c)),
        picture(prepare, TrainingLoss(c, 1)),
        graphs{.net = *net, .params = params},
        gradient({.net = *net,
                  .params = params,
                  .loss_of =
                      [this](const nn::StepBatch& batch, const Tensor& numbers) {
                        return picture.loss(*net, batch, numbers);
                      },
                  .before_backward =
                      [this] {
                        if (before_backward) before_backward();
                      },
                  .batches = batches},
                 step_graph(mode, graphs.capture(),
                            [this](const std::string& line) { said.push_back(line); }),
                 fixed) {
    graphs.losses = &gradient.losses();
    net->train();
  }
  double step(i64 k, i64 rows = 6, int side = 16) {
    gradient.compute(drawn(k, rows, side));
    const double loss = gradient.losses().take();
    sgd->step(0.05f / static_cast<float>(1 + k));  // another learning rate each time
    gradient.step_ends();
    return loss;
  }
  nn::DrawnBatch drawn(i64 k, i64 rows = 6, int side = 16) const {
    return picture.drawn(batch_of(rows, side, static_cast<std::uint64_t>(100 + k)),
                         {0, k / 7, k % 7});
  }
  std::vector<Tensor> state() {
    std::vector<Tensor> out{params.values(), params.buffers(), sgd->state()[0].tensor};
    for (const Tensor& c : net->counters()) out.push_back(c);
    return out;
  }
  Config config;
  std::unique_ptr<nn::Module> net;
  FlatParams params;
  std::unique_ptr<Optimizer> sgd;
  Pictures prepare;
  PictureStep picture;
  FakeGraphs graphs;
  std::function<void()> before_backward;
  std::vector<std::string> said;
  nn::GradientStep gradient;
};

void expect_same(Training& a, Training& b) {
  const auto x = a.state(), y = b.state();
  ASSERT_EQ(x.size(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_EQ(std::memcmp(x[i].data(), y[i].data(), x[i].bytes()), 0) << "state " << i;
}

TEST(StepGraph, GivesTheLossesOfEagerSteps) {
  for (const auto& [mixup, cutmix] : {std::pair{0.0, 0.0}, std::pair{0.3, 1.0}}) {
    SCOPED_TRACE(mixup);
    Training eager(config_with(mixup, cutmix), "off", false),
        graph(config_with(mixup, cutmix), "on", true);
    for (i64 k = 0; k < 10; ++k) ASSERT_EQ(eager.step(k), graph.step(k)) << k;
    expect_same(eager, graph);
    EXPECT_EQ(graph.graphs.captured, 1);
    EXPECT_EQ(graph.graphs.launched, 10 - CapturedStep::kEagerSteps);
    EXPECT_EQ(eager.graphs.captured, 0);
    EXPECT_EQ(*graph.net->counters()[0].as<i64>(), 10) << "batches that batch norm has seen";
  }
}

// --- several batches of one gradient

// Without batch norm, whose statistics are those of one batch.
struct TwoLayers : nn::Module {
  nn::Conv2d& conv = add("conv", nn::Conv2d(3, 8, {.padding = 1}));
  nn::Linear& linear = add("linear", nn::Linear(8, 4));
  Tensor forward(const Tensor& x) override { return linear(global_avg_pool(relu(conv(x)))); }
};

data::Batch rows_of(const data::Batch& all, i64 begin, i64 end) {
  return {all.images.slice(begin, end), all.labels.slice(begin, end)};
}

TEST(AccumulatedGradient, IsThatOfOneLargeBatch) {
  const Config c = config_with(0, 0);
  const Pictures prepare = pictures(c);
  const PictureStep picture(prepare, TrainingLoss(c, 0));
  TwoLayers net;
  FlatParams params(net.parameters(), net.buffers());
  int prepared = 0;
  const auto step_of = [&](int batches) {
    return nn::GradientStep(
        {.net = net,
         .params = params,
         .loss_of = [&](const nn::StepBatch& batch,
                        const Tensor& numbers) { return picture.loss(net, batch, numbers); },
         .before_backward = [&] { ++prepared; },
         .batches = batches},
        {});
  };
  const data::Batch all = batch_of(12, 16, 5);
  nn::GradientStep whole = step_of(1), pieces = step_of(4);
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_TRUE(whole.compute(picture.drawn(all, {})));
    whole.step_ends();
    const double loss = whole.losses().take();
    const Tensor wanted = params.grads().clone();
    prepared = 0;
    for (i64 k = 0; k < 4; ++k) {
      EXPECT_EQ(pieces.begun(), k > 0);
      EXPECT_EQ(pieces.compute(picture.drawn(rows_of(all, 3 * k, 3 * k + 3), {0, 0, k})), k == 3);
      EXPECT_EQ(prepared, k == 3) << "the method hears of the last one only";
      pieces.step_ends();
    }
    EXPECT_NEAR(pieces.losses().take(), loss, 1e-6);
    const auto got = params.grads().span<float>(), want = wanted.span<float>();
    double most = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
      most = std::max(most, std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
    EXPECT_LT(most, 1e-6);
    EXPECT_GT(squared_norm(wanted), 1e-4) << "it says something";
  }
}

TEST(AccumulatedGradient, IsTheSameFromGraphs) {
  const auto run = [](const std::string& mode) {
    Training t(config_with(0.3, 1), mode, mode == "on", 3);
    std::vector<double> losses;
    for (i64 k = 0; k < 30; ++k) {
      const bool last = t.gradient.compute(t.drawn(k));
      if (last) {
        losses.push_back(t.gradient.losses().take());
        t.sgd->step(0.05f);
      }
      t.gradient.step_ends();
    }
    // of the first batches, and of the later ones
    EXPECT_EQ(t.graphs.captured, mode == "on" ? 2 : 0);
    EXPECT_EQ(t.graphs.launched, mode == "on" ? 30 - 2 * CapturedStep::kEagerSteps : 0);
    const auto x = t.params.values().span<float>();
    losses.insert(losses.end(), x.begin(), x.end());
    return losses;
  };
  EXPECT_EQ(run("on"), run("off"));
}

TEST(StepGraph, ABatchMayBeBroughtBeforeTheUpdate) {
  for (const bool fixed : {false, true}) {
    const std::string mode = fixed ? "on" : "off";
    Training late(config_with(0.3, 1), mode, fixed), early(config_with(0.3, 1), mode, fixed);
    const auto bring = [&](i64 k) { early.gradient.bring(early.drawn(k)); };
    EXPECT_THAT(error_of<Error>([&] { early.gradient.compute(); }), HasSubstr("was not brought"));
    bring(0);
    for (i64 k = 0; k < 10; ++k) {
      early.gradient.compute();
      bring(k + 1);
      if (k == 0)
        EXPECT_THAT(error_of<Error>([&] { bring(k + 2); }),
                    HasSubstr("before the step of an earlier one has ended"));
      const double loss = early.gradient.losses().take();
      early.sgd->step(0.05f / static_cast<float>(1 + k));
      early.gradient.step_ends();
      ASSERT_EQ(late.step(k), loss) << k;
    }
    expect_same(late, early);
  }
}

TEST(StepGraph, ASmallerLastBatchRunsEagerlyAndAnotherSizeIsCaptured) {
  Training eager(config_with(0.2, 0), "off", false), graph(config_with(0.2, 0), "auto", true);
  const auto step = [&](i64 k, i64 rows, int side) {
    ASSERT_EQ(eager.step(k, rows, side), graph.step(k, rows, side)) << k;
  };
  for (i64 k = 0; k < 5; ++k) step(k, 6, 16);
  EXPECT_EQ(graph.graphs.launched, 2);
  step(5, 4, 16);
  EXPECT_EQ(graph.graphs.launched, 2) << "eager";
  for (i64 k = 6; k < 9; ++k) step(k, 6, 16);
  EXPECT_EQ(graph.graphs.launched, 5);
  EXPECT_EQ(graph.graphs.captured, 1) << "and the graph is still good";
  for (i64 k = 9; k < 15; ++k) step(k, 6, 24);
  EXPECT_EQ(graph.graphs.captured, 2);
  EXPECT_EQ(graph.graphs.launched, 8);
  for (i64 k = 15; k < 20; ++k) step(k, 6, 16);  // back, in other memory
  EXPECT_EQ(graph.graphs.captured, 3);
  expect_same(eager, graph);
}

TEST(StepGraph, AResumedRunIsTheUninterruptedOne) {
  const Config c = config_with(0.2, 1);
  Training whole(c, "on", true), first(c, "on", true), second(c, "on", true);
  for (i64 k = 0; k < 12; ++k) whole.step(k);
  for (i64 k = 0; k < 6; ++k) first.step(k);
  const auto from = first.state(), to = second.state();
  for (std::size_t i = 0; i < from.size(); ++i) Tensor(to[i]).copy_from(from[i]);
  second.params.refresh();
  for (i64 k = 6; k < 12; ++k) second.step(k);
  expect_same(whole, second);
}

TEST(StepGraph, LossesAreLookedAtWhenAskedFor) {
  Training each(config_with(0, 0), "off", false), seldom(config_with(0, 0), "on", true);
  EXPECT_TRUE(each.gradient.losses().free_to_read());
  EXPECT_FALSE(seldom.gradient.losses().free_to_read());
  double sum = 0;
  for (i64 k = 0; k < 6; ++k) {
    sum += each.step(k);
    seldom.gradient.compute(seldom.drawn(k));
    seldom.sgd->step(0.05f / static_cast<float>(1 + k));
    seldom.gradient.step_ends();
  }
  EXPECT_NEAR(seldom.gradient.losses().take(), sum, 1e-5 * sum);
  EXPECT_EQ(seldom.gradient.losses().take(), 0) << "they count once";
}

TEST(StepGraph, WhatCannotBeCapturedIsAnErrorOrALineOfTheLog) {
  for (const int batches : {1, 2}) {
    Training run(config_with(0, 0), "auto", true, batches);
    run.graphs.fails = "the work waits for the device";
    for (i64 k = 0; k < 12; ++k) run.step(k);
    ASSERT_EQ(run.said.size(), 1u) << batches;
    EXPECT_THAT(run.said[0], HasSubstr("the work waits for the device"));
    EXPECT_EQ(*run.net->counters()[0].as<i64>(), 12) << "each batch counts once";
  }
  {
    Training run(config_with(0, 0), "on", true);
    run.graphs.fails = "the work waits for the device";
    for (i64 k = 0; k < CapturedStep::kEagerSteps; ++k) run.step(k);
    try {
      run.step(3);
      ADD_FAILURE();
    } catch (const ConfigError& e) {
      EXPECT_THAT(e.what(), HasSubstr("train.cuda_graph=on"));
      EXPECT_THAT(e.what(), HasSubstr("the work waits for the device"));
    }
  }
}

// Marks are part of the graph; that a bucket is ready is said after each launch, in the
// captured order, if it was asked for.
TEST(StepGraph, MarksBucketsInTheGraphAndSaysTheyAreReadyAfterEachLaunch) {
  Training run(config_with(0, 0), "on", true), plain(config_with(0, 0), "off", false);
  std::vector<std::pair<char, std::size_t>> calls;
  const std::vector<FlatRange> buckets = run.params.buckets(1 << 16);
  ASSERT_GT(buckets.size(), 2u);
  run.params.on_ready(
      buckets, [&](std::size_t b) { calls.emplace_back('r', b); },
      [&](std::size_t b) { calls.emplace_back('m', b); });
  bool asked = true;
  run.before_backward = [&] {
    if (asked) run.params.arm_ready();
  };
  std::vector<std::size_t> order;  // of an eager step
  for (i64 k = 0; k < 9; ++k) {
    calls.clear();
    asked = k != 2 && k != 6;
    const bool small = k == 7, recording = k == 3;
    ASSERT_EQ(run.step(k, small ? 4 : 6), plain.step(k, small ? 4 : 6)) << k;
    const bool launched = k >= 3 && !small;
    std::vector<std::pair<char, std::size_t>> want;
    if (k == 0) {
      for (const auto& [what, bucket] : calls)
        if (what == 'r') order.push_back(bucket);
      ASSERT_EQ(order.size(), buckets.size());
    }
    if (!launched && asked)
      for (const std::size_t b : order) want.insert(want.end(), {{'m', b}, {'r', b}});
    if (launched && recording)
      for (const std::size_t b : order) want.emplace_back('m', b);  // in the capture
    if (launched) {
      for (const std::size_t b : order) want.emplace_back('m', b);  // the fake's device
      if (asked)
        for (const std::size_t b : order) want.emplace_back('r', b);
    }
    EXPECT_EQ(calls, want) << "step " << k;
  }
  EXPECT_EQ(run.graphs.captured, 1);
  EXPECT_EQ(run.graphs.launched, 5);
  expect_same(run, plain);
}

// The whole step of two workers whose gradients are summed under backward, launched and not, with a
// smaller batch on the way.
TEST(StepGraph, GradientsOfWorkersAreSummedUnderALaunchAsInEagerSteps) {
  const auto train = [](const std::string& mode, bool overlap) {
    std::vector<std::vector<float>> x(2);
    std::vector<std::unique_ptr<Training>> runs;
    for (int rank = 0; rank < 2; ++rank)
      runs.push_back(std::make_unique<Training>(config_with(0, 0), mode, mode == "on"));
    dist::LocalCluster cluster(2);
    dist::on_workers(cluster, 2, [&](int rank, dist::Group& group) {
      Training& run = *runs[static_cast<std::size_t>(rank)];
      dist::MethodOptions options;
      options.settings.set("overlap", overlap);
      options.settings.set("bucket_mb", 1 / 16.);
      options.clip_norm = .5;
      const auto method = dist::make_method("allreduce", run.params, *run.sgd, group,
                                            dist::make_graph("ring", 2), options);
      run.before_backward = [&] { method->prepare(.05); };
      for (i64 k = 0; k < 9; ++k) {
        run.gradient.compute(run.picture.drawn(
            batch_of(k == 6 ? 4 : 6, 16, static_cast<std::uint64_t>(100 * rank + k)), {0, 0, k}));
        (void)run.gradient.losses().take();
        method->step(.05);
        run.gradient.step_ends();
      }
      EXPECT_EQ(run.graphs.launched, mode == "on" ? 5 : 0);
      x[static_cast<std::size_t>(rank)].assign(run.params.values().span<float>().begin(),
                                               run.params.values().span<float>().end());
    });
    EXPECT_EQ(x[0], x[1]);
    return x[0];
  };
  const std::vector<float> after = train("off", false);
  EXPECT_EQ(train("off", true), after);
  EXPECT_EQ(train("on", true), after);
}

// The update is one launch whose numbers are in device memory: a recording of it takes what was
// written there last.
TEST(RecordedUpdate, ReadsItsNumbersAnew) {
  const auto net = models::make("resnet8-cifar", {.classes = 4, .seed = 3}),
             other = models::make("resnet8-cifar", {.classes = 4, .seed = 3});
  FlatParams params(net->parameters(), net->buffers()), want(other->parameters(), other->buffers());
  Tensor momentum = Tensor::zeros({params.size()}), theirs = Tensor::zeros({params.size()}),
         numbers = step_numbers(Device::cpu());
  const auto recorded = [&] { sgd_pass(params, {momentum, .9f, .01f, true}, numbers); };
  for (int k = 0; k < 4; ++k) {
    for (FlatParams* p : {&params, &want}) {
      p->settle_grads();
      Tensor(p->grads()).fill(0.1f * static_cast<float>(k + 1));
    }
    const float rate = 0.1f / static_cast<float>(k + 1);
    write_numbers(numbers, {.learning_rate = rate});
    recorded();
    testing::plain_sgd(want, {theirs, .9f, .01f, true}, {.learning_rate = rate});
    ASSERT_EQ(std::memcmp(params.values().data(), want.values().data(), want.values().bytes()), 0)
        << k;
  }
}

}  // namespace
}  // namespace gossamer::apps
