// Examples for fine-tuning: which lines are some, their ids, which of them are learnt, and windows.
#include "gossamer/data/text/examples.h"

#include <algorithm>
#include <set>

#include <gmock/gmock.h>

#include "data/helpers.h"
#include "data/text.h"
#include "gossamer/data/text/window_loader.h"

namespace gossamer::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

const std::filesystem::path kTokenizers = GOSSAMER_SOURCE_DIR "/tests/golden/tokenizers";

std::string refusal(const std::string& line) {
  return error_of<DataError>([&] { example_in_json(line, "a.jsonl:7"); });
}

TEST(Examples, LinesOfBothFormsAreReadAndOthersNamed) {
  const Example pair = example_in_json(R"({"prompt": "2+2=", "completion": "4", "n": 1})", "x");
  EXPECT_EQ(pair.prompt, "2+2=");
  EXPECT_EQ(pair.completion, "4");
  const Example chat = example_in_json(
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}]})",
      "x");
  ASSERT_EQ(chat.messages.size(), 2u);
  EXPECT_EQ(chat.messages[1].role, "assistant");

  EXPECT_THAT(refusal("{"), HasSubstr("a.jsonl:7: the line is no JSON"));
  EXPECT_THAT(refusal("[]"), HasSubstr("a.jsonl:7: the line is no JSON object; a line is "));
  EXPECT_THAT(refusal(R"({"text": "a"})"), HasSubstr("there is no \"prompt\""));
  EXPECT_THAT(refusal(R"({"prompt": "a"})"), HasSubstr("there is no \"completion\""));
  EXPECT_THAT(refusal(R"({"prompt": 1, "completion": "a"})"), HasSubstr("\"prompt\" is no text"));
  EXPECT_THAT(refusal(R"({"prompt": "a", "completion": ""})"), HasSubstr("nothing to learn"));
  EXPECT_THAT(refusal(R"({"messages": []})"), HasSubstr("no list of messages"));
  EXPECT_THAT(refusal(R"({"messages": [7]})"), HasSubstr("a message is no JSON object"));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user"}]})"), HasSubstr("there is no \"content\""));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "tool", "content": "a"}]})"),
              HasSubstr("none of system, user and assistant"));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user", "content": "a"}]})"),
              HasSubstr("the assistant says nothing"));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "assistant", "content": "a"}]})"),
              HasSubstr("the assistant speaks first"));
}

// Parts of an example that are learnt, as text.
std::vector<std::string> learnt_in(const ExampleIds& example, const Tokenizer& tokenizer) {
  std::vector<std::string> out;
  i64 count = 0;
  for (std::size_t i = 0; i < example.ids.size(); ++i) {
    if (Learnt{example.learnt[i]} != Learnt::yes) continue;
    if (i == 0 || Learnt{example.learnt[i - 1]} != Learnt::yes) out.emplace_back();
    TextOfIds(tokenizer, true).add(example.ids[i], out.back());
    ++count;
  }
  EXPECT_EQ(example.labels, count);
  EXPECT_EQ(Learnt{example.learnt[0]}, Learnt::first);
  return out;
}

TEST(Examples, OfAPromptTheCompletionIsLearntWithTheEndMark) {
  const auto gpt2 = open_tokenizer((kTokenizers / "gpt2").string());
  const Example example{.prompt = "the cat", .completion = " sat on the mat."};
  const ExampleIds ids = encode_example(example, *gpt2, "");
  EXPECT_EQ(text_from(*gpt2, ids.ids), "the cat sat on the mat.<|endoftext|>");
  EXPECT_THAT(learnt_in(ids, *gpt2), ElementsAre(" sat on the mat.<|endoftext|>"));
  EXPECT_EQ(ids.text_bytes, 16);
  // in the frame of a tokenizer that has one, which is not learnt
  const auto llama3 = open_tokenizer((kTokenizers / "llama3").string());
  const ExampleIds framed = encode_example(example, *llama3, "");
  EXPECT_EQ(framed.ids[0], llama3->frame().before[0]);
  const auto learnt = learnt_in(framed, *llama3);
  ASSERT_EQ(learnt.size(), 1u);
  EXPECT_TRUE(learnt[0].starts_with(" sat on the mat.<|")) << learnt[0];
  // a name of a mark in a text is text
  const ExampleIds sly = encode_example({.prompt = "<|endoftext|>", .completion = "x"}, *gpt2, "");
  EXPECT_EQ(std::ranges::count(sly.ids, gpt2->marks().end), 1);
}

TEST(Examples, OfMessagesWhatTheAssistantSaysIsLearntWithTheMarkThatEndsIt) {
  const std::vector<ChatMessage> messages{
      {"user", "Hi."}, {"assistant", "Yes?"}, {"user", "Why \n\n so?"}, {"assistant", "I see."}};
  struct Wanted {
    const char *tokenizer, *chat;
    std::vector<std::string> learnt;
  };
  const Wanted all[] = {
      {"qwen2", "chatml", {"Yes?<|im_end|>", "I see.<|im_end|>"}},
      {"qwen2", "chatml-system", {"Yes?<|im_end|>", "I see.<|im_end|>"}},
      {"llama3", "llama3", {"Yes?<|eot_id|>", "I see.<|eot_id|>"}},
      {"llama2", "llama2", {" Yes? </s>", " I see. </s>"}},
      {"mistral", "mistral", {"Yes?</s>", "I see.</s>"}},
      {"llama2", "zephyr", {"Yes?</s>", "I see.</s>"}},
  };
  for (const Wanted& each : all) {
    SCOPED_TRACE(each.chat);
    const auto tokenizer = open_tokenizer((kTokenizers / each.tokenizer).string());
    const ExampleIds ids = encode_example({.messages = messages}, *tokenizer, each.chat);
    Ids whole;
    tokenizer->encode_with_marks(chat_text(each.chat, *tokenizer, messages, false), whole);
    EXPECT_EQ(ids.ids, whole) << "the ids are those of the whole conversation";
    EXPECT_EQ(learnt_in(ids, *tokenizer), each.learnt);
    EXPECT_EQ(ids.text_bytes, 10);
  }
}

class ExampleFiles : public ::testing::Test {
 protected:
  std::shared_ptr<const TokenFiles> stored(const std::string& name, const Ids& ids, i64 most) {
    TokenWriter writer(folder_ / name, TokenFormat::llmc, most, 5);
    writer.add(ids);
    std::vector<std::string> paths;
    for (const std::string& file : writer.close()) paths.push_back(folder_ / file);
    return std::make_shared<const TokenFiles>(paths, most);
  }
  // Four examples of 3, 2, 4 and 7 ids: id 10 e + i is the i-th of example e.
  TextPart examples() {
    TextPart out;
    out.tokens =
        stored("ids", {10, 11, 12, 20, 21, 30, 31, 32, 33, 40, 41, 42, 43, 44, 45, 46}, 100);
    out.learnt = stored("learnt", {2, 0, 1, 2, 1, 2, 0, 1, 1, 2, 0, 0, 1, 1, 1, 1}, 3);
    out.learnt_ids = 8;
    return out;
  }
  TempFolder folder_;
};

Ids ids_in(const Tensor& tensor) {
  const auto span = tensor.span<std::int32_t>();
  return {span.begin(), span.end()};
}

TEST_F(ExampleFiles, WindowsHoldWholeExamplesAndPredictWhatIsLearnt) {
  const WindowSource packed = window_source(examples(), 5, true);
  EXPECT_EQ(packed.examples->cut, 1);
  WindowLoader loader(
      {packed}, {},
      {.batch = 3, .length = 5, .epoch = in_order(0, 1), .documents = Documents::separate});
  const WindowBatch b = loader.next();
  EXPECT_THAT(ids_in(b.inputs),
              ElementsAre(10, 11, 12, 20, 21, 30, 31, 32, 33, 0, 40, 41, 42, 43, 44));
  EXPECT_THAT(ids_in(b.labels),
              ElementsAre(-1, 12, -1, 21, -1, -1, 32, 33, -1, -1, -1, -1, 43, 44, 45));
  EXPECT_THAT(ids_in(b.begins), ElementsAre(0, 0, 0, 3, 3, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0));
  EXPECT_EQ(b.labelled, 7);
  EXPECT_FALSE(loader.next().inputs.defined());
  // by themselves
  WindowLoader alone({window_source(examples(), 7, false)}, {},
                     {.batch = 4, .length = 7, .epoch = in_order(0, 1)});
  const WindowBatch each = alone.next();
  EXPECT_FALSE(each.begins.defined());
  EXPECT_EQ(each.inputs.shape(), Shape({4, 7}));
  EXPECT_EQ(each.labelled, 8);
  EXPECT_THAT(ids_in(each.inputs.slice(1, 2)), ElementsAre(20, 21, 0, 0, 0, 0, 0));
  EXPECT_THAT(ids_in(each.labels.slice(1, 2)), ElementsAre(21, -1, -1, -1, -1, -1, -1));
}

TEST_F(ExampleFiles, InTrainingEveryWindowComesOnceAnEpoch) {
  WindowLoader loader({window_source(examples(), 5, true)}, {},
                      {.batch = 1, .length = 5, .epoch = {.seed = 3}});
  EXPECT_EQ(loader.steps(), 3);
  std::set<Ids> orders;
  for (int epoch = 0; epoch < 12; ++epoch) {
    Ids firsts;
    for (WindowBatch b = loader.next(); b.inputs.defined(); b = loader.next())
      firsts.push_back(ids_in(b.inputs)[0]);
    orders.insert(firsts);
    std::ranges::sort(firsts);
    EXPECT_THAT(firsts, ElementsAre(10, 30, 40));
  }
  EXPECT_GT(orders.size(), 2u);
}

TEST_F(ExampleFiles, WrongOnesAreNamed) {
  TextPart part = examples();
  EXPECT_THAT(error_of<ConfigError>([&] {
                WindowLoader(
                    {window_source(part, 5, true)}, {},
                    {.batch = 1, .length = 5, .epoch = {.world = 2, .share = Share::documents}});
              }),
              HasSubstr("shared out as windows"));
  part.learnt = stored("none", {0, 1, 1}, 3);
  EXPECT_THAT(error_of<DataError>([&] { window_source(part, 5, true); }),
              HasSubstr("begins no example"));
  part = examples();
  WindowSource source = window_source(part, 5, true);
  source.learnt = stored("short", {2, 1, 1}, 3);
  EXPECT_THAT(error_of<ConfigError>([&] { WindowLoader({source}, {}, {.batch = 1, .length = 5}); }),
              HasSubstr("of each id whether it is learnt"));
}

}  // namespace
}  // namespace gossamer::data
