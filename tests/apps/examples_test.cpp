// Fine-tuning by examples, from outside: JSON lines become ids of which some are learnt, the loss
// is the mean of those, also over several batches of an update, and models learn to answer.
#include "gossamer/data/text/examples.h"

#include <gmock/gmock.h>

#include "apps/text_data.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/ops.h"
#include "gossamer/models/llama_file.h"
#include "gossamer/nn/init.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Examples : public LanguageTest {
 protected:
  // Sums of two digits, some with long answers, so that windows differ in what is learnt; and the
  // model to tune, whose tokenizer knows the marks of chats.
  void SetUp() override {
    LanguageTest::SetUp();
    std::string pairs, chats;
    for (int i = 0; i < 96; ++i) {
      const int a = i % 8, b = i / 8;
      const std::string asked = std::to_string(a) + "+" + std::to_string(b) + "=",
                        answer =
                            std::to_string(a + b) + (i % 3 ? "" : ", and the cat sat on the mat");
      pairs += Json{{"prompt", asked}, {"completion", answer}}.dump() + "\n";
      chats += Json{{"messages",
                     {{{"role", "user"}, {"content", asked}},
                      {{"role", "assistant"}, {"content", answer}}}}}
                   .dump() +
               "\n";
    }
    write_text(folder / "pairs.jsonl", pairs);
    write_text(folder / "chats.jsonl", chats);
    std::string text;
    for (int i = 0; i < 60; ++i)
      text += "the cat sat on the mat, 1+2=3, 4+5=9, 6+7=13, 8+0=8\n<|endoftext|>\n";
    write_text(folder / "digits.txt", text);
    ASSERT_EQ(run({"data", "tokenize", "digits.txt", "--tokenizer", "bpe:280", "--val-fraction",
                   "0.1", "--out", "base"})
                  .code,
              0);
  }
  Result tokenize(std::vector<std::string> more) {
    more.insert(more.begin(), {"data", "tokenize"});
    more.insert(more.end(), {"--examples", "--tokenizer", "base"});
    return run(more);
  }
  static std::vector<std::string> small(std::vector<std::string> more) {
    more.insert(more.begin(), "model.name=llama");
    return LanguageTest::small(std::move(more));
  }
  static std::vector<std::string> tune(std::vector<std::string> more) {
    more.insert(more.begin(), {"data.train=pairs", "data.length=40"});
    return small(std::move(more));
  }
  // The mean loss of the learnt ids, each example by itself.
  double loss_by_hand(const std::string& model, const std::string& file) {
    const NoGrad off;
    const nn::NoInitialValues none;
    models::Llama net(models::read_llama_config(read_text(folder / model / "config.json"), model));
    models::load_llama(
        models::llama_weights(nn::read_weights(folder / model / "model.safetensors")), net);
    const auto tokenizer = data::open_tokenizer((folder / "base").string());
    std::ifstream lines(folder / file);
    double sum = 0, count = 0;
    for (std::string line; std::getline(lines, line);) {
      const data::ExampleIds e =
          data::encode_example(data::example_in_json(line, "line"), *tokenizer, "chatml");
      const auto length = static_cast<i64>(e.ids.size());
      const Tensor all =
          log_softmax(net.forward(Tensor::from(e.ids, {1, length})).reshape({length, -1}));
      for (i64 i = 0; i + 1 < length; ++i) {
        if (e.learnt[static_cast<std::size_t>(i + 1)] != 1) continue;
        sum -= static_cast<double>(all.span<float>()[static_cast<std::size_t>(
            i * all.shape(1) + e.ids[static_cast<std::size_t>(i + 1)])]);
        ++count;
      }
    }
    return sum / count;
  }
};

TEST_F(Examples, TheLossIsThatOfTheLearntIdsAndTheModelLearnsThem) {
  const Result made = tokenize({"pairs.jsonl", "--out", "pairs", "--val-fraction", "0.25"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("tokens of 72 examples, of which "));
  const Json index = Json::parse(read_text(folder / "pairs/index.json"));
  EXPECT_EQ(index["made"]["options"]["examples"], "true");
  const Result r = run(tune({"train.epochs=3", "--json"}));
  ASSERT_EQ(r.code, 0) << r.err;
  // those that were held back: every fourth
  std::istringstream lines(read_text(folder / "pairs.jsonl"));
  std::string held;
  int i = 0;
  for (std::string line; std::getline(lines, line);)
    if (++i % 4 == 0) held += line + "\n";
  write_text(folder / "held.jsonl", held);
  const double by_hand = loss_by_hand("runs/t", "held.jsonl");
  const Result evaluated = run({"eval", "runs/t", "data.val=pairs", "--json"});
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  const Json score = Json::parse(evaluated.out);
  EXPECT_NEAR(score["loss"], by_hand, 1e-4);
  EXPECT_EQ(score["tokens"], index["val"]["learnt"]);
  const Result longer = run(tune({"train.epochs=30", "run.name=long"}));
  ASSERT_EQ(longer.code, 0) << longer.err;
  EXPECT_LT(loss_by_hand("runs/long", "held.jsonl"), 0.7 * by_hand);
  const Result stride = run({"eval", "runs/t", "data.val=pairs", "--stride", "2"});
  EXPECT_EQ(stride.code, 2);
  EXPECT_THAT(stride.err, HasSubstr("holds examples"));
}

TEST_F(Examples, AnUpdateIsTheMeanOverTheLearntIdsOfAllItsBatches) {
  ASSERT_EQ(tokenize({"pairs.jsonl", "--out", "pairs"}).code, 0);
  // One window an example, of which one in three has a long answer. Plain SGD, so that updates are
  // proportional to gradients.
  const auto command = [](const char* batch, const char* accumulate) {
    return tune({"data.val=none", "data.length=16", "optim.name=sgd", "optim.momentum=0",
                 "optim.learning_rate=0.5", "optim.scaling=none", "train.epochs=5 steps",
                 std::string("train.batch=") + batch,
                 std::string("train.accumulate=") + accumulate});
  };
  std::vector<std::vector<float>> weights;
  for (const auto& [batch, accumulate] : {std::pair{"8", "1"}, {"2", "4"}}) {
    const Result r = run(command(batch, accumulate));
    ASSERT_EQ(r.code, 0) << r.err;
    weights.emplace_back();
    for (const NamedTensor& t : read_safetensors(folder / "runs/t/model.safetensors").tensors) {
      const auto values = t.tensor.span<float>();
      weights.back().insert(weights.back().end(), values.begin(), values.end());
    }
    fs::remove_all(folder / "runs");
  }
  ASSERT_EQ(weights[0].size(), weights[1].size());
  double farthest = 0;
  for (std::size_t i = 0; i < weights[0].size(); ++i)
    farthest = std::max(farthest, static_cast<double>(std::abs(weights[0][i] - weights[1][i])));
  EXPECT_LT(farthest, 1e-4);
}

TEST_F(Examples, ResumedInTheMiddleOfAnEpochTheyGoOnBitForBit) {
  ASSERT_EQ(tokenize({"pairs.jsonl", "--out", "pairs"}).code, 0);
  expect_resumes_bit_for_bit(
      tune({"data.val=none", "data.documents=separate", "train.batch=2", "train.accumulate=3"}));
}

TEST_F(Examples, AnAdapterLearnsToAnswerInAChat) {
  const Result made = tokenize({"chats.jsonl", "--out", "chats", "--chat-template", "chatml"});
  ASSERT_EQ(made.code, 0) << made.err;
  ASSERT_EQ(run(small({"data.train=base", "data.length=160", "train.batch=1", "train.epochs=30",
                       "run.name=base-model"}))
                .code,
            0);
  const Result r = run(
      small({"data.train=chats", "data.val=none", "model.init=runs/base-model", "model.lora_rank=4",
             "model.lora_targets=q_proj,v_proj,o_proj,down_proj", "data.length=160",
             "data.documents=separate", "train.epochs=20", "train.batch=4"}));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_LT(loss_by_hand("runs/t", "chats.jsonl"),
            0.7 * loss_by_hand("runs/base-model", "chats.jsonl"));
}

TEST_F(Examples, ARunKnowsItsChatTemplateAndAnswersEndWhereThatEndsThem) {
  const Result made = tokenize({"chats.jsonl", "--out", "chats", "--chat-template", "chatml"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.out, HasSubstr("the tokenizer has no mark <|im_end|>"));
  ASSERT_EQ(
      run(small({"data.train=chats", "data.val=none", "data.length=160", "data.documents=separate",
                 "model.width=32", "model.ff=64", "train.batch=4", "train.epochs=40"}))
          .code,
      0);
  std::vector<std::string> ask{"generate",      "runs/t", "--chat",   "--prompt", "1+2=",
                               "--temperature", "0",      "--tokens", "40",       "--ignore-end"};
  EXPECT_THAT(run(ask).out, HasSubstr("<|im_end|>")) << "it has not learnt to end";
  ask.pop_back();
  const Result answer = run(ask);
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_THAT(answer.out, Not(HasSubstr("<|im_end|>")));
  ASSERT_EQ(run({"export", "runs/t", "--to", "huggingface", "--out", "hf"}).code, 0);
  EXPECT_TRUE(fs::exists(folder / "hf/chat_template.jinja"));
  // also where another text of a mixture comes first
  ASSERT_EQ(run(small({"data.train=[\"base\",\"chats\"]", "data.val=none", "data.length=40",
                       "train.epochs=1 step", "train.batch=2", "run.name=mixed"}))
                .code,
            0);
  EXPECT_TRUE(fs::exists(folder / "runs/mixed/chat_template.jinja"));
}

TEST_F(Examples, WrongOnesAreOneSentence) {
  const auto expect = [&](const Result& r, int code, const std::string& says) {
    EXPECT_EQ(r.code, code) << r.out << r.err;
    EXPECT_THAT(r.err, HasSubstr(says));
  };
  expect(tokenize({"chats.jsonl", "--out", "a"}), 3,
         "chats.jsonl:1: the tokenizer has no chat template; name one of chatml");
  expect(tokenize({"chats.jsonl", "--out", "a2"}), 3, "gemma (--chat-template)");
  expect(tokenize({"chats.jsonl", "--out", "b", "--chat-template", "other"}), 2,
         "there is no chat template \"other\"");
  expect(tokenize({"digits.txt", "--out", "c"}), 3, "digits.txt:1: the line is no JSON");
  expect(tokenize({"pairs.jsonl", "--out", "d", "--field", "prompt"}), 2, "(--examples)");
  expect(run({"data", "tokenize", "pairs.jsonl", "--out", "e", "--examples", "--tokenizer",
              "bpe:300"}),
         2, "name its tokenizer (--tokenizer, --examples)");
  write_text(folder / "late.jsonl",
             "{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"a\"}\n");
  expect(tokenize({"late.jsonl", "--out", "f"}), 3,
         "late.jsonl:2: there is no \"completion\"; a line is {\"prompt\": ");
  ASSERT_EQ(tokenize({"pairs.jsonl", "--out", "pairs"}).code, 0);
  expect(run(tune({"data.val=none", "data.shard=documents", "--workers", "2"})), 2,
         "shared out as windows");
}

}  // namespace
}  // namespace gossamer::apps
