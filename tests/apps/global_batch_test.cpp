// train.global_batch with the real program: the run is the same whoever computes which part of it.
#include <set>

#include <gmock/gmock.h>

#include "apps/program.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class GlobalBatch : public ProgramTest {
 protected:
  Result train(int workers, std::vector<std::string> more) {
    auto arguments = tiny({"train.method=allreduce", "train.batch=4", "train.global_batch=16",
                           "train.bn_batches=0", "optim.warmup_epochs=0",
                           "optim.learning_rate=0.02", "optim.scaling=none"});
    more.insert(more.end(), {"--workers", std::to_string(workers)});
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  // The largest difference of two models' parameters, as a part of the largest value.
  double difference(const std::string& a, const std::string& b) {
    const SafeTensors one = read_safetensors(folder / "runs" / a / "model.safetensors"),
                      other = read_safetensors(folder / "runs" / b / "model.safetensors");
    double most = 0, scale = 0;
    for (const NamedTensor& t : one.tensors) {
      if (t.tensor.dtype() != DType::f32 || t.name.find("running_") != std::string::npos) continue;
      const auto x = t.tensor.span<float>(), y = other.find(t.name)->span<float>();
      for (std::size_t i = 0; i < x.size(); ++i) {
        most = std::max(most, std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i])));
        scale = std::max(scale, std::abs(static_cast<double>(x[i])));
      }
    }
    return most / scale;
  }
};

TEST_F(GlobalBatch, ARunIsTheSameWithAnyNumberOfWorkers) {
  for (const int workers : {1, 2, 3}) {
    const Result r = train(workers, {"run.name=w" + std::to_string(workers)});
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_THAT(r.out + r.err, HasSubstr("batch 16 of all, by 4 at once"));
    EXPECT_EQ(summary("w" + std::to_string(workers))["samples"], 96);
  }
  EXPECT_LT(difference("w1", "w2"), 1e-3);
  EXPECT_LT(difference("w1", "w3"), 1e-3);
  ASSERT_EQ(train(1, {"run.name=other", "train.seed=1"}).code, 0);
  EXPECT_GT(difference("w1", "other"), 1e-2) << "or nothing is compared";
}

TEST_F(GlobalBatch, GoesOnExactlyWithAnotherNumberOfWorkers) {
  ASSERT_EQ(train(2, {"run.name=whole", "train.epochs=2"}).code, 0);
  ASSERT_EQ(train(2, {"run.name=part", "train.epochs=2", "run.checkpoint_every=48 samples",
                      "--inject", "kill:rank=0@step=5,kill:rank=1@step=5"})
                .code,
            5);
  const Result r = run({"train", "--resume", "runs/part", "--workers", "3", "dist.inject="});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out + r.err, ::testing::Not(HasSubstr("from the mean of")));
  EXPECT_EQ(summary("part")["samples"], 192);
  EXPECT_LT(difference("whole", "part"), 1e-3);
}

TEST_F(GlobalBatch, WhatALostWorkerHadNotBroughtIsDealtAgain) {
  const Result r = train(3, {"train.epochs=3", "--inject", "kill:rank=1@step=4"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json s = summary();
  EXPECT_EQ(s["workers_at_end"], 2);
  EXPECT_EQ(s["global_batch"], 16);
  EXPECT_EQ(s["dealt_again"], 4);  // of its step of 16 it had one batch of 4
  EXPECT_THAT(r.out + r.err,
              HasSubstr("4 images again, which a worker that is gone had not brought"));
  EXPECT_GE(s["samples"].get<double>(), 288);
  EXPECT_EQ(events("dealt").size(), 2u);
}

// Workers that fail stand at steps of their own; their files say together where all go on.
TEST_F(GlobalBatch, ARunThatFailsGoesOnWhereAllStood) {
  for (const char* method : {"allreduce", "dpsgd", "diloco"}) {
    SCOPED_TRACE(method);
    const std::string name = std::string("run.name=") + method;
    const Result failed =
        train(4, {std::string("train.method=") + method, name, "train.epochs=6", "train.period=2",
                  "dist.min_workers=4", "--inject", "kill:rank=1@step=6"});
    EXPECT_NE(failed.code, 0);
    const Result r = run({"train", "--resume", std::string("runs/") + method,
                          "dist.inject=", "run.checkpoint_every=0"});
    ASSERT_EQ(r.code, 0) << r.err;
    std::set<std::string> places;
    for (const auto& entry :
         fs::recursive_directory_iterator(folder / "runs" / method / "checkpoints")) {
      if (entry.path().extension() != ".safetensors") continue;
      if (entry.path().parent_path().filename().string().starts_with("interrupted")) continue;
      const auto header = read_safetensors(entry.path()).metadata;
      places.insert(header.at("epoch") + ":" + header.at("step") + " " + header.at("order.again"));
    }
    EXPECT_EQ(places.size(), 1u) << "all end at one place";
  }
}

TEST_F(GlobalBatch, OfGossipIsConstantOnAverage) {
  const Result r = train(3, {"train.method=a2cid2", "train.epochs=8"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json s = summary();
  EXPECT_NEAR(s["samples"].get<double>(), 768, 48);
  // 48 steps of 16 in batches of 4: workers 0 to 2 have 2, 1 and 1 of each
  EXPECT_NEAR(s["gradients"].get<double>(), 3 * 48, 36);
}

TEST_F(GlobalBatch, IsRefusedWithItsReason) {
  const auto error = [&](std::vector<std::string> more) {
    const Result r = train(2, std::move(more));
    EXPECT_EQ(r.code, 2);
    return r.err;
  };
  EXPECT_THAT(error({"train.method=a2cid2", "data.shard=true"}),
              HasSubstr("auto or false with train.global_batch"));
  EXPECT_THAT(error({"train.method=a2cid2", "run.record=r"}),
              HasSubstr("0 for a run that is recorded or repeated"));
  EXPECT_THAT(error({"train.global_batch=18"}), HasSubstr("a multiple of train.batch = 4"));
  EXPECT_THAT(error({"train.global_batch=4"}),
              HasSubstr("at least one train.batch of 4 for each of 2 workers"));
  EXPECT_THAT(error({"train.accumulate=2"}), HasSubstr("1 with train.global_batch"));
  EXPECT_THAT(error({"data.shard=false"}), HasSubstr("auto or true with train.global_batch"));
  const Result large = train(2, {"train.global_batch=128"});
  EXPECT_EQ(large.code, 3);
  EXPECT_THAT(large.err, HasSubstr("fewer than a step of all workers takes"));
}

}  // namespace
}  // namespace gossamer::apps
