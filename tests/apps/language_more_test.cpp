// Language models beyond a first run: questions with several endings, stops and penalties, several
// texts to train on.
#include <algorithm>
#include <sstream>

#include <gmock/gmock.h>

#include "apps/text_data.h"
#include "gossamer/apps/commands/text_stream.h"
#include "gossamer/core/text/json.h"
#include "gossamer/data/text/text_set.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using LanguageMore = LanguageTest;

TEST_F(LanguageMore, StopsPenaltiesAndPromptsAsJson) {
  ASSERT_EQ(run(small({"train.epochs=12"})).code, 0);
  const auto text = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "runs/t", "--prompt", "the cat", "--tokens", "18"});
    const Result r = run(more);
    EXPECT_EQ(r.code, 0) << r.err;
    return r.out;
  };
  const std::string whole = text({"--temperature", "0"});
  ASSERT_EQ(whole.size(), 7u + 18 + 1);
  // three bytes of what is made, wherever they come first
  const std::string stop = whole.substr(14, 3);
  const std::string left = whole.substr(0, whole.find(stop, 7));
  EXPECT_EQ(text({"--temperature", "0", "--stop", stop}), left + "\n");
  EXPECT_EQ(text({"--temperature", "0", "--stop", "zz", "--stop", stop, "--stop", "#"}),
            left + "\n");
  EXPECT_EQ(text({"--temperature", "0", "--stop", "the cat"}), whole)
      << "the prompt is not searched";
  const Json stopped = Json::parse(text({"--temperature", "0", "--stop", stop, "--json"}));
  EXPECT_EQ(stopped["text"], left);
  EXPECT_EQ(stopped["stop"], stop);
  EXPECT_EQ(stopped["tokens"], left.size() + 3 - 7);
  EXPECT_EQ(text({"--min-p", "1", "--seed", "3"}), whole);
  EXPECT_NE(text({"--temperature", "0", "--repetition-penalty", "1e9"}), whole);

  write_text(folder / "prompts.jsonl", "{\"q\": \"the cat\"}\n{\"p\": 1}\n{\"q\": \"the dog\"}\n");
  const Result answers = run({"generate", "runs/t", "--file", "prompts.jsonl", "--lines", "--field",
                              "q", "--temperature", "0", "--tokens", "18", "--json"});
  EXPECT_EQ(answers.code, 3);
  std::istringstream lines(answers.out);
  std::vector<Json> found;
  for (std::string line; std::getline(lines, line);) found.push_back(Json::parse(line));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0]["text"].get<std::string>() + "\n", whole);
  EXPECT_THAT(found[1]["error"].get<std::string>(), HasSubstr("there is no field \"q\""));
  EXPECT_THAT(found[2]["text"].get<std::string>(), StartsWith("the dog"));
  for (const auto& [arguments, says] :
       {std::pair{std::vector<std::string>{"--stop", ""}, "a text that ends others"},
        {std::vector<std::string>{"--min-p", "2"}, "min-p = 2"},
        {std::vector<std::string>{"--repetition-penalty", "0"}, "repetition penalty = 0"},
        {std::vector<std::string>{"--field", "q"}, "--field is for --lines"}}) {
    std::vector<std::string> all{"generate", "runs/t"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Result r = run(all);
    EXPECT_EQ(r.code, 2);
    EXPECT_THAT(r.err, HasSubstr(says));
  }
}

TEST_F(LanguageMore, TheLogarithmsOfProbabilitiesAreThoseOfTheModel) {
  ASSERT_EQ(run(small({"train.epochs=4"})).code, 0);
  const auto made = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"generate", "runs/t", "--prompt", "the cat", "--json"});
    return run(more);
  };
  // as many ids as the model sees, and one more that is only predicted
  const Result r =
      made({"--tokens", "10", "--temperature", "2", "--seed", "5", "--logprobs", "99"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json all = Json::parse(r.out);
  ASSERT_EQ(all["logprobs"].size(), 10u);
  std::string text = "the cat";
  for (std::size_t i = 0; i < 10; ++i) {
    const Json& each = all["logprobs"][i];
    EXPECT_EQ(each["id"], all["ids"][7 + i]);
    text += each["text"].get<std::string>();
    double sum = 0, before = 0;
    bool found = false;
    for (const Json& other : each["top"]) {
      const double log_p = other["logprob"];
      EXPECT_LE(log_p, before);
      sum += std::exp(before = log_p);
      if (other["id"] != each["id"]) continue;
      found = true;
      EXPECT_NEAR(log_p, each["logprob"], 1e-5);
    }
    EXPECT_TRUE(found);
    EXPECT_NEAR(sum, 1, 1e-4) << "99 are more than there are";
  }
  EXPECT_EQ(all["text"], text);
  // the likeliest id each time
  const Result greedy = made({"--tokens", "10", "--temperature", "0", "--logprobs", "1"});
  ASSERT_EQ(greedy.code, 0) << greedy.err;
  for (const Json& each : Json::parse(greedy.out)["logprobs"]) {
    ASSERT_EQ(each["top"].size(), 1u);
    EXPECT_EQ(each["top"][0]["id"], each["id"]);
  }
  const Result none = made({"--tokens", "2", "--logprobs", "0"});
  EXPECT_FALSE(Json::parse(none.out)["logprobs"][0].contains("top"));
  const Result long_one = made({"--tokens", "11", "--logprobs", "1"});
  EXPECT_EQ(long_one.code, 2);
  EXPECT_THAT(long_one.err, HasSubstr("more than the 16 ids that the model sees at once"));
  const Result plain = run({"generate", "runs/t", "--logprobs", "1"});
  EXPECT_EQ(plain.code, 2);
  EXPECT_THAT(plain.err, HasSubstr("is for --json"));
}

TEST(TextStream, HoldsBackWhatMayBecomeAStop) {
  TextStream stream(true, {"<end>", "ndx"});
  stream.begin("a<e");
  for (const char* bytes : {"nd>", "b<e", "n", "d", "y<en", "d>", "more"}) stream.add(bytes);
  EXPECT_EQ(stream.stop(), "<end>");
  EXPECT_EQ(stream.end(), "a<end>b<endy");
  TextStream other(true, {"<end>", "ndx"});
  other.begin("");
  for (const char* bytes : {"<e", "nd", "x>"}) other.add(bytes);
  EXPECT_EQ(other.stop(), "ndx");
  EXPECT_EQ(other.end(), "<e");
}

TEST_F(LanguageMore, SeveralTextsAreOneTrainingSet) {
  write_text(folder / "more.txt", "the dog sat on the cat, and the mat ran.\n");
  ASSERT_EQ(run({"data", "tokenize", "more.txt", "text.txt", "--tokenizer", "language", "--out",
                 "more", "--val-fraction", "0.5"})
                .code,
            0);
  const auto both = small({"data.train=[\"language\", \"more\"]", "--json"});
  const Result r = run(both);
  ASSERT_EQ(r.code, 0) << r.err;
  const data::TextSet one = data::open_text((folder / "language").string()),
                      two = data::open_text((folder / "more").string());
  const Json s = Json::parse(r.out);
  EXPECT_EQ(s["launch"]["train_tokens"], one.train.tokens->size() + two.train.tokens->size())
      << r.out;
  EXPECT_EQ(s["launch"]["val_tokens"], one.val.tokens->size() + two.val.tokens->size());
  ASSERT_EQ(run({"data", "tokenize", "more.txt", "--tokenizer", "bpe:280", "--out", "bpe"}).code,
            0);
  const Result wrong = run(small({"data.train=[\"language\", \"bpe\"]", "run.name=u"}));
  EXPECT_EQ(wrong.code, 3) << wrong.err;
  EXPECT_THAT(wrong.err, HasSubstr("bpe: was made with another tokenizer than language"));
}

// The log p of an ending is that of the whole text without that of the context, which `eval` says
// of each; so it is known which ending is the likeliest, and all labels are right or wrong.
TEST_F(LanguageMore, TheLikeliestEndingIsThatOfTheLeastLoss) {
  ASSERT_EQ(run(small({"train.epochs=4"})).code, 0);
  const auto tokenizer = data::open_text((folder / "language").string()).tokenizer;
  const auto log_p = [&](const std::string& text) {
    std::vector<std::int32_t> ids;
    tokenizer->encode(text, ids);
    std::string bytes;
    for (const std::int32_t id : ids) bytes += {static_cast<char>(id), '\0'};
    write_text(folder / "x.bin", bytes);
    const Result r = run({"eval", "runs/t", "data.val=x.bin", "--json"});
    EXPECT_EQ(r.code, 0) << r.err;
    const Json j = Json::parse(r.out);
    return -j["loss"].get<double>() * j["tokens"].get<double>();
  };
  const std::vector<std::string> contexts{"the cat", "the ", "the dog", "on the", "sat"};
  const std::vector<std::string> endings{"m", "dog ran", "on", "t, t", "the c"};
  std::string right, wrong;
  double same = 0;  // questions whose answer does not depend on the lengths
  for (const std::string& context : contexts) {
    std::vector<double> sums, means;
    for (const std::string& ending : endings) {
      const std::string known = context.substr(0, context.find_last_not_of(' ') + 1);
      sums.push_back(log_p(context + " " + ending) - log_p(known));
      means.push_back(sums.back() /
                      static_cast<double>(context.size() + 1 + ending.size() - known.size()));
    }
    const auto best = [](const std::vector<double>& of) {
      return std::ranges::max_element(of) - of.begin();
    };
    same += best(sums) == best(means);
    JsonObject question;
    question.add("ctx", context).add("endings", endings).add("id", 7);
    right += question.add("label", best(sums)).str() + "\n";
    JsonObject other;
    other.add("ctx", context).add("endings", endings);
    wrong += other.add("label", std::to_string((best(sums) + 1) % 5)).str() + "\n\n";
  }
  EXPECT_LT(same, 5) << "no question tells sums from means";
  write_text(folder / "right.jsonl", right);
  write_text(folder / "wrong.jsonl", wrong);
  const auto eval = [&](const char* file) {
    const Result r = run({"eval", "runs/t", "--choices", file, "--json", "eval.batch=2"});
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out);
  };
  const Json all = eval("right.jsonl");
  EXPECT_EQ(all["questions"], 5);
  EXPECT_EQ(all["accuracy"], 1);
  EXPECT_EQ(all["accuracy_per_token"], same / 5);
  EXPECT_EQ(eval("wrong.jsonl")["accuracy"], 0);
  const Result text = run({"eval", "runs/t", "--choices", "right.jsonl"});
  EXPECT_THAT(text.out, HasSubstr("100.00 % of 5 questions by log p of the ending"));

  const auto refused = [&](const std::string& line, const std::string& says) {
    write_text(folder / "bad.jsonl", "\n" + line + "\n");
    const Result r = run({"eval", "runs/t", "--choices", "bad.jsonl"});
    EXPECT_EQ(r.code, 3) << r.out;
    EXPECT_THAT(r.err, HasSubstr(says));
  };
  refused("{", "bad.jsonl:2: the line is no JSON");
  refused(R"({"ctx": "the", "endings": ["a", "b"]})", "bad.jsonl:2: there is no \"label\"");
  refused(R"({"ctx": "the", "endings": ["a"], "label": 0})", "list of two texts or more");
  refused(R"({"ctx": "the", "endings": ["a", ""], "label": 0})", "list of two texts or more");
  for (const char* label : {"2", "-1", "\"x\"", "1.0", "1e300", "null"})
    refused(R"({"ctx": "the", "endings": ["a", "b"], "label": )" + std::string(label) + "}",
            "\"label\" is not the number of an ending");
  refused(R"({"ctx": "", "endings": ["a", "b"], "label": 0})", "no id to predict an ending from");
  refused(R"({"ctx": "the", "endings": ["a", "the cat sat on the mat"], "label": 0})",
          "an ending is longer than the model sees at once");
  refused("", "holds no question");
}

}  // namespace
}  // namespace gossamer::apps
