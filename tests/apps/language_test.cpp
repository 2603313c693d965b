// Language models from outside: from a text to a model that goes on with it, by several methods,
// evaluated, and what is said of wrong input.
#include <cmath>

#include <gmock/gmock.h>

#include "apps/text_data.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Language : public TextTest {
 protected:
  static std::vector<std::string> small(std::vector<std::string> more) {
    std::vector<std::string> all{"train",
                                 "task=language",
                                 "data.train=language",
                                 "data.length=16",
                                 "model.layers=1",
                                 "model.width=16",
                                 "model.heads=2",
                                 "train.batch=8",
                                 "train.epochs=2",
                                 "train.threads=1",
                                 "optim.name=adamw",
                                 "optim.learning_rate=0.01",
                                 "optim.warmup_epochs=0",
                                 "run.log_every=1",
                                 "run.name=t"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(Language, FromATextToASentence) {
  const Result trained = run(small({"train.epochs=12", "eval.every=3", "--json"}));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Json s = Json::parse(trained.out);
  EXPECT_LT(s["loss"], 0.5) << "the text repeats itself";
  EXPECT_NEAR(s["perplexity"], std::exp(s["loss"].get<double>()), 1e-3);
  EXPECT_NEAR(s["bits_per_byte"], s["loss"].get<double>() / std::log(2.0), 1e-2)
      << "a character is a byte";
  EXPECT_GT(s["tokens_per_s"], 0);
  EXPECT_EQ(s["model"], "gpt2");
  EXPECT_FALSE(events("eval").empty());
  EXPECT_TRUE(s.contains("best"));
  for (const char* name : {"model.safetensors", "config.json", "characters.json", "report.html"})
    EXPECT_TRUE(fs::exists(folder / "runs/t" / name)) << name;
  const Json config = Json::parse(read_text(folder / "runs/t/config.json"));
  EXPECT_EQ(config["n_layer"], 1);
  EXPECT_EQ(config["model_type"], "gpt2");

  const Result eval = run({"eval", "runs/t", "data.val=language", "data.length=16", "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_NEAR(Json::parse(eval.out)["loss"], s["loss"].get<double>(), 1e-4);
  const Json sliding = Json::parse(
      run({"eval", "runs/t", "data.val=language", "--stride", "4", "eval.batch=7", "--json"}).out);
  EXPECT_EQ(sliding["tokens"], Json::parse(eval.out)["tokens"]);
  EXPECT_LT(sliding["loss"], s["loss"].get<double>()) << "each id has seen more";

  const std::vector<std::string> command{"generate", "runs/t", "--prompt",      "the cat",
                                         "--tokens", "60",     "--temperature", "0"};
  const Result text = run(command);
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, StartsWith("the cat sat on"));
  auto without = command;
  without.push_back("--no-cache");
  EXPECT_EQ(run(without).out, text.out) << "beyond the 16 positions, too";
  const std::vector<std::string> drawn{"generate", "runs/t/model.safetensors",
                                       "--tokens", "30",
                                       "--seed",   "3",
                                       "--top-k",  "5",
                                       "--top-p",  "0.9",
                                       "--json"};
  const Json once = Json::parse(run(drawn).out), again = Json::parse(run(drawn).out);
  EXPECT_EQ(once["ids"], again["ids"]);
  EXPECT_EQ(once["ids"].size(), 30u);
  write_text(folder / "prompt.txt", "the dog");
  EXPECT_THAT(run({"generate", "runs/t", "--file", "prompt.txt", "--tokens", "5"}).out,
              StartsWith("the dog"));
}

TEST_F(Language, EveryMethodTrainsIt) {
  for (const char* method : {"a2cid2", "allreduce", "dpsgd"}) {
    SCOPED_TRACE(method);
    const Result r = run(small({"--workers", "2", std::string("train.method=") + method,
                                "train.epochs=4", "eval.every=2", "eval.of=mean", "--json"}));
    ASSERT_EQ(r.code, 0) << r.err;
    const Json s = Json::parse(r.out);
    EXPECT_LT(s["loss"], 2.3);
    EXPECT_EQ(s["workers_at_end"], 2);
    fs::remove_all(folder / "runs");
  }
}

TEST_F(Language, AModelGoesOnFromAFile) {
  ASSERT_EQ(run(small({})).code, 0);
  const Result r =
      run({"train", "task=language", "data.train=language", "data.length=8",
           "model.init=runs/t/model.safetensors", "train.batch=8", "run.name=next",
           "optim.name=adamw", "optim.learning_rate=1e-6", "train.epochs=0.2", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_LT(Json::parse(r.out)["loss"], 2.5);
  EXPECT_EQ(Json::parse(read_text(folder / "runs/next/config.json"))["n_positions"], 16);
}

TEST_F(Language, WrongInputIsOneSentence) {
  const auto expect = [&](const std::vector<std::string>& arguments, int code,
                          const std::string& says) {
    const Result r = run(arguments);
    EXPECT_EQ(r.code, code) << r.out << r.err;
    EXPECT_THAT(r.err, HasSubstr(says));
    EXPECT_EQ(std::ranges::count(r.err, '\n'), 1) << r.err;
  };
  expect(small({"model.name=resnet20-cifar"}), 2, "with task=language");
  expect({"train", "model.name=gpt2"}, 2, "task=language must be said");
  expect(small({"model.heads=3"}), 2, "no multiple of its 3 heads");
  expect(small({"data.shard=dirichlet:0.3"}), 2, "use documents");
  expect(small({"model.classes=3"}), 2, "model.classes");
  expect(small({"data.train=none-there"}), 3, "none-there");
  expect(small({"data.length=100000"}), 3, "ids");
  expect(small({"train.mixup=0.2"}), 2, "train.mixup");
  expect({"eval", "language", "data.val=language"}, 6, "model.safetensors");
  expect({"generate", "language", "--prompt", "a"}, 6, "model.safetensors");
  expect({"generate", "runs", "--prompt", "a", "--top-p", "2"}, 2, "top-p = 2");
}

}  // namespace
}  // namespace gossamer::apps
