// Fine-tuning by adapters of low rank, from outside: what is trained, sent, saved and resumed.
#include <cmath>
#include <cstring>

#include <gmock/gmock.h>

#include "apps/text_data.h"
#include "gossamer/core/io/safetensors.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class LoraProgram : public TextTest {
 protected:
  void SetUp() override {
    TextTest::SetUp();
    const Result r = run(with({"model.name=llama", "model.layers=1", "model.width=16",
                               "model.heads=2", "run.name=base"}));
    ASSERT_EQ(r.code, 0) << r.err;
  }
  static std::vector<std::string> with(std::vector<std::string> more) {
    std::vector<std::string> all{"train",
                                 "task=language",
                                 "data.train=language",
                                 "data.length=16",
                                 "train.batch=8",
                                 "train.epochs=1",
                                 "train.threads=1",
                                 "optim.name=adamw",
                                 "optim.learning_rate=0.01",
                                 "optim.warmup_epochs=0",
                                 "run.log_every=1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static std::vector<std::string> adapter(std::vector<std::string> more) {
    more.insert(more.begin(), {"model.init=runs/base", "model.lora_rank=2",
                               "model.lora_targets=o_proj,down_proj", "run.name=t"});
    return with(more);
  }
  double loss(const std::string& model) {
    const Result r = run({"eval", model, "data.val=language", "--json"});
    EXPECT_EQ(r.code, 0) << r.err;
    return r.code == 0 ? Json::parse(r.out)["loss"].get<double>() : NAN;
  }
  SafeTensors file(const fs::path& path) const { return read_safetensors(folder / path); }

  // A and B of o_proj [16, 16] and of down_proj [16, 64]
  static constexpr i64 kTrained = 2 * (16 + 16) + 2 * (16 + 64);
};

TEST_F(LoraProgram, ChangesOnlyTheTargetsAndItsAdapterCanBeTakenElsewhere) {
  const Result trained = run(adapter({"train.epochs=4", "--json"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr("224 numbers are trained beside 4400; an exchange sends 896 "
                                     "bytes in place of 17600 (f32)"));
  const double before = loss("runs/base"), after = loss("runs/t");
  EXPECT_LT(after, before - 0.05);
  EXPECT_NEAR(Json::parse(trained.out)["loss"], after, 1e-4);
  const SafeTensors base = file("runs/base/model.safetensors"),
                    made = file("runs/t/model.safetensors");
  ASSERT_EQ(made.tensors.size(), base.tensors.size());
  for (const NamedTensor& t : base.tensors) {
    const Tensor now = *made.find(t.name);
    const bool target =
        t.name.find("o_proj") != std::string::npos || t.name.find("down_proj") != std::string::npos;
    EXPECT_EQ(std::memcmp(now.data(), t.tensor.data(), now.bytes()) != 0, target) << t.name;
  }
  i64 numbers = 0;
  for (const NamedTensor& t : file("runs/t/model-adapter/adapter_model.safetensors").tensors)
    numbers += t.tensor.numel();
  EXPECT_EQ(numbers, kTrained);
  EXPECT_NEAR(loss("runs/t/model-adapter"), after, 1e-5) << "added to model.init again";
  fs::remove_all(folder / "runs/base");
  const Result alone = run({"eval", "runs/t/model-adapter", "data.val=language"});
  EXPECT_EQ(alone.code, 6);
  EXPECT_THAT(alone.err, HasSubstr("base_model_name_or_path is runs/base"));
  EXPECT_NEAR(loss("runs/t"), after, 0) << "the run's model needs it no more";
}

TEST_F(LoraProgram, WorkersExchangeTheAdapterAlone) {
  const Result r = run(adapter({"--workers", "2", "train.method=a2cid2", "train.epochs=8",
                                "run.log_exchanges=true", "--json"}));
  ASSERT_EQ(r.code, 0) << r.err;
  const Json s = Json::parse(r.out);
  EXPECT_LT(s["loss"].get<double>(), loss("runs/base") - 0.05);
  EXPECT_GT(s["exchanges"], 0);
  // Values in f32. An exchange that fails at the end may have sent nothing.
  const double bytes = s["bytes_sent"].get<double>() / s["exchanges"].get<double>();
  EXPECT_GT(bytes, 0.5 * 4 * kTrained);
  EXPECT_LE(bytes, 4 * kTrained);
}

TEST_F(LoraProgram, ResumedItIsBitForBitTheSame) {
  ASSERT_EQ(run(adapter({"train.epochs=2", "run.checkpoint_every=1", "run.keep=9"})).code, 0);
  const std::string whole = read_text(folder / "runs/t/model.safetensors");
  std::vector<fs::path> checkpoints;
  for (const auto& each : fs::directory_iterator(folder / "runs/t/checkpoints"))
    checkpoints.push_back(each.path());
  std::ranges::sort(checkpoints);
  ASSERT_GE(checkpoints.size(), 2u);
  fs::remove_all(checkpoints.back());
  fs::remove(folder / "runs/t/model.safetensors");
  fs::remove_all(folder / "runs/base");
  EXPECT_FALSE(std::isnan(loss("runs/t"))) << "a checkpoint is a model";
  const Result resumed = run({"train", "--resume", "runs/t"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(read_text(folder / "runs/t/model.safetensors"), whole);
}

TEST_F(LoraProgram, WrongKeysAreOneSentence) {
  const auto expect = [&](const std::vector<std::string>& arguments, const std::string& says) {
    const Result r = run(arguments);
    EXPECT_EQ(r.code, 2) << r.out << r.err;
    EXPECT_THAT(r.err, HasSubstr(says));
  };
  expect(with({"model.name=llama", "model.lora_rank=2"}), "0 without model.init");
  expect(with({"model.name=gpt2", "model.lora_rank=2"}), "0 with model.name = gpt2");
  expect(adapter({"model.freeze=norm"}), "left out with model.lora_rank");
  expect(adapter({"model.lora_targets=c_attn"}), "c_attn is no layer to adapt; known are q_proj");
}

}  // namespace
}  // namespace gossamer::apps
