// A language model in a product: conversations as ids, examples to learn from, an adapter, and the
// formats of others.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capi/calls.h"
#include "gossamer/apps/capi/gossamer.h"
#include "support/temp_folder.h"

namespace gossamer {
namespace {

namespace fs = std::filesystem;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;

const std::string kTokenizers = GOSSAMER_SOURCE_DIR "/tests/golden/tokenizers/";

class CTune : public InTempFolder {
 protected:
  void SetUp() override {
    InTempFolder::SetUp();
    MUST(gsm_tokenizer_open((kTokenizers + "qwen2").c_str(), &tokenizer_));
  }
  void TearDown() override {
    EXPECT_EQ(gsm_tokenizer_free(tokenizer_), GSM_OK);
    InTempFolder::TearDown();
  }
  Ids encoded(const std::string& text) {
    Ids ids(1000);
    auto n = static_cast<int64_t>(ids.size());
    EXPECT_EQ(gsm_tokenizer_encode(tokenizer_, text.data(), text.size(), 1, ids.data(), &n), GSM_OK)
        << gsm_last_error();
    ids.resize(static_cast<std::size_t>(n));
    return ids;
  }
  std::string text_of(const Ids& ids) {
    std::string text(1000, ' ');
    std::size_t size = text.size();
    EXPECT_EQ(gsm_tokenizer_decode(tokenizer_, ids.data(), static_cast<int64_t>(ids.size()),
                                   text.data(), &size),
              GSM_OK)
        << gsm_last_error();
    text.resize(size);
    return text;
  }
  struct Example {
    Ids ids, labels;
  };
  Example example(const char* json, const char* chat = nullptr) {
    int64_t n = 0;
    EXPECT_EQ(gsm_tokenizer_example(tokenizer_, chat, json, nullptr, nullptr, &n), GSM_OK)
        << gsm_last_error();
    Example out{Ids(static_cast<std::size_t>(n)), Ids(static_cast<std::size_t>(n))};
    EXPECT_EQ(gsm_tokenizer_example(tokenizer_, chat, json, out.ids.data(), out.labels.data(), &n),
              GSM_OK)
        << gsm_last_error();
    return out;
  }
  // A folder with a model of LLaMA's kind that was not trained, and its tokenizer.
  std::string base() {
    const std::string folder = file("base").string();
    fs::create_directory(folder);
    int64_t size = 0;
    int32_t end = 0;
    EXPECT_EQ(gsm_tokenizer_size(tokenizer_, &size, &end), GSM_OK);
    gsm_trainer_options o{};
    o.struct_size = sizeof o;
    o.model_options = "layers=1 width=64 heads=2 positions=64";
    gsm_trainer* trainer = nullptr;
    EXPECT_EQ(gsm_trainer_new("llama", size, &o, &trainer), GSM_OK) << gsm_last_error();
    EXPECT_EQ(gsm_trainer_save(trainer, (folder + "/model.safetensors").c_str(), nullptr), GSM_OK);
    EXPECT_EQ(gsm_trainer_free(trainer), GSM_OK);
    EXPECT_EQ(gsm_tokenizer_save(tokenizer_, folder.c_str()), GSM_OK) << gsm_last_error();
    return folder;
  }
  double loss_of(const std::string& model, const Ids& ids) {
    gsm_language* language = nullptr;
    EXPECT_EQ(gsm_language_open(model.c_str(), nullptr, &language), GSM_OK) << gsm_last_error();
    double loss = NAN, perplexity = NAN;
    EXPECT_EQ(gsm_language_perplexity(language, ids.data(), static_cast<int64_t>(ids.size()), 0,
                                      &loss, &perplexity),
              GSM_OK)
        << gsm_last_error();
    EXPECT_EQ(gsm_language_free(language), GSM_OK);
    return loss;
  }

  gsm_tokenizer* tokenizer_ = nullptr;
};

TEST_F(CTune, AConversationIsWrittenAsItsTemplateHasIt) {
  const gsm_message messages[] = {{"user", "Hi."}, {"assistant", "Yes?"}, {"user", "Why?"}};
  const Ids wanted = encoded(
      "<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\nYes?<|im_end|>\n"
      "<|im_start|>user\nWhy?<|im_end|>\n<|im_start|>assistant\n");
  int64_t n = 0;
  MUST(gsm_tokenizer_chat(tokenizer_, "chatml", messages, 3, 1, nullptr, &n, nullptr));
  ASSERT_EQ(n, static_cast<int64_t>(wanted.size()));
  Ids ids(wanted.size());
  int32_t end = -1;
  MUST(gsm_tokenizer_chat(tokenizer_, "chatml", messages, 3, 1, ids.data(), &n, &end));
  EXPECT_EQ(ids, wanted);
  EXPECT_THAT(encoded("<|im_end|>"), ElementsAre(end));
  // The template that came with the tokenizer.
  int64_t own = 0;
  MUST(gsm_tokenizer_chat(tokenizer_, nullptr, messages, 3, 1, nullptr, &own, nullptr));
  EXPECT_GE(own, n);
  int64_t without = 0;  // what stands in front of the answer
  MUST(gsm_tokenizer_chat(tokenizer_, "chatml", messages, 3, 0, nullptr, &without, nullptr));
  EXPECT_LT(without, n);

  --n;
  EXPECT_EQ(gsm_tokenizer_chat(tokenizer_, "chatml", messages, 3, 1, ids.data(), &n, nullptr),
            GSM_ERROR_ARGUMENT);
  EXPECT_EQ(gsm_tokenizer_chat(tokenizer_, "esperanto", messages, 3, 1, nullptr, &n, nullptr),
            GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("chatml"));
  const gsm_message wrong[] = {{"tool", "Hi."}};
  EXPECT_EQ(gsm_tokenizer_chat(tokenizer_, "llama2", wrong, 1, 1, nullptr, &n, nullptr),
            GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), testing::Not(""));
}

TEST_F(CTune, OfAnExampleOnlyTheAnswerHasLabels) {
  const Example pair = example(R"({"prompt": "The cat", "completion": " sat."})");
  ASSERT_EQ(pair.ids.size(), pair.labels.size());
  Ids learnt;
  for (std::size_t i = 0; i < pair.labels.size(); ++i) {
    if (pair.labels[i] < 0) continue;
    ASSERT_LT(i + 1, pair.ids.size());
    EXPECT_EQ(pair.labels[i], pair.ids[i + 1]);
    learnt.push_back(pair.labels[i]);
  }
  EXPECT_EQ(text_of(learnt), " sat.<|im_end|>");
  const Example chat = example(
      R"({"messages": [{"role": "user", "content": "Hi."},
                       {"role": "assistant", "content": "Yes"}]})",
      "chatml");
  learnt.clear();
  for (const int32_t label : chat.labels)
    if (label >= 0) learnt.push_back(label);
  EXPECT_EQ(text_of(learnt), "Yes<|im_end|>");

  int64_t n = 0;
  EXPECT_EQ(gsm_tokenizer_example(tokenizer_, nullptr, "{}", nullptr, nullptr, &n), GSM_ERROR_DATA);
  EXPECT_EQ(gsm_tokenizer_example(tokenizer_, nullptr, R"({"prompt": "a", "completion": "b"})",
                                  learnt.data(), nullptr, &n),
            GSM_ERROR_ARGUMENT);
}

TEST_F(CTune, AnAdapterLearnsAnAnswerAndIsTakenElsewhere) {
  const std::string folder = base();
  const Example lesson = example(R"({"prompt": "2+2=", "completion": "4"})");
  const auto length = static_cast<int64_t>(lesson.ids.size());
  gsm_trainer_options o{};
  o.struct_size = sizeof o;
  o.optimizer = "adamw";
  o.init = folder.c_str();
  o.lora_rank = 4;
  o.lora_targets = "q_proj, v_proj,down_proj";
  gsm_trainer* trainer = nullptr;
  MUST(gsm_trainer_new(nullptr, 0, &o, &trainer));
  int64_t count = 0, trained = 0;
  MUST(gsm_trainer_parameter_count(trainer, &count));
  for (int64_t i = 0; i < count; ++i) {
    gsm_parameter_info_t info{};
    info.struct_size = sizeof info;
    MUST(gsm_trainer_parameter_info(trainer, i, &info));
    const bool adapter = std::string(info.name).find("lora_") != std::string::npos;
    EXPECT_EQ(info.kind == GSM_TRAINED, adapter) << info.name;
    trained += adapter;
  }
  EXPECT_EQ(trained, 6);  // A and B of three layers
  float first = 0, loss = 0;
  for (int i = 0; i < 60; ++i) {
    MUST(gsm_trainer_gradient_ids(trainer, lesson.ids.data(), lesson.labels.data(), 1, length,
                                  i == 0 ? &first : &loss));
    MUST(gsm_trainer_step(trainer, .02));
  }
  EXPECT_LT(loss, first * .9F);
  MUST(gsm_trainer_evaluate_ids(trainer, lesson.ids.data(), nullptr, 1, length, &loss));
  const std::string whole = file("whole.safetensors").string(), adapter = file("adapter").string();
  MUST(gsm_trainer_save(trainer, whole.c_str(), nullptr));
  MUST(gsm_trainer_save_adapter(trainer, adapter.c_str(), nullptr));
  EXPECT_NEAR(loss_of(whole, lesson.ids), loss, 1e-4);
  EXPECT_NEAR(loss_of(adapter, lesson.ids), loss, 1e-4);
  EXPECT_GT(std::fabs(loss_of(folder, lesson.ids) - loss), .1);
  EXPECT_LT(fs::file_size(adapter + "/adapter_model.safetensors"), fs::file_size(whole) / 4);
  EXPECT_EQ(gsm_trainer_load(trainer, whole.c_str()), GSM_ERROR_CONFIG);
  // Another one goes on from the state of this one.
  gsm_bytes* state = nullptr;
  MUST(gsm_trainer_state_memory(trainer, &state));
  const void* data = nullptr;
  std::size_t size = 0;
  MUST(gsm_bytes_data(state, &data, &size));
  gsm_trainer* other = nullptr;
  MUST(gsm_trainer_new(nullptr, 0, &o, &other));
  MUST(gsm_trainer_state_restore(other, data, size));
  float same = 0;
  MUST(gsm_trainer_evaluate_ids(other, lesson.ids.data(), nullptr, 1, length, &same));
  EXPECT_EQ(same, loss);
  MUST(gsm_bytes_free(state));
  MUST(gsm_trainer_free(trainer));
  MUST(gsm_trainer_free(other));
}

TEST_F(CTune, AdaptersThatCanNotBeAreTold) {
  const std::string folder = base();
  gsm_trainer_options o{};
  o.struct_size = sizeof o;
  gsm_trainer* trainer = nullptr;
  o.lora_rank = 4;
  EXPECT_EQ(gsm_trainer_new("llama", 8, &o, &trainer), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("give init"));
  o.lora_rank = 0;
  o.model_options = "layers=1 width=32 heads=2 positions=16";
  MUST(gsm_trainer_new("gpt2", 8, &o, &trainer));
  o.model_options = nullptr;
  const std::string other = file("gpt2.safetensors").string();
  MUST(gsm_trainer_save(trainer, other.c_str(), nullptr));
  MUST(gsm_trainer_free(trainer));
  o.lora_rank = 4;
  o.init = other.c_str();
  EXPECT_EQ(gsm_trainer_new(nullptr, 0, &o, &trainer), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("gsm_trainer_options.lora_rank: gpt2"));
  o.init = folder.c_str();
  o.lora_targets = "fc";
  EXPECT_EQ(gsm_trainer_new(nullptr, 0, &o, &trainer), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("gsm_trainer_options.lora_targets: "));
  o.lora_rank = 0;
  EXPECT_EQ(gsm_trainer_new(nullptr, 0, &o, &trainer), GSM_ERROR_CONFIG);
  o.lora_targets = nullptr;
  MUST(gsm_trainer_new(nullptr, 0, &o, &trainer));
  EXPECT_EQ(gsm_trainer_save_adapter(trainer, file("a").c_str(), nullptr), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("has no adapter"));
  MUST(gsm_trainer_free(trainer));
}

TEST_F(CTune, AModelIsExportedAsOthersHaveIt) {
  const std::string folder = base();
  gsm_language* language = nullptr;
  MUST(gsm_language_open(folder.c_str(), nullptr, &language));
  const Ids ids = encoded("The cat sat on the mat.");
  const double loss = loss_of(folder, ids);
  gsm_export_options o{};
  o.struct_size = sizeof o;
  const std::string whole = file("hf").string(), half = file("half").string();
  MUST(gsm_language_export(language, whole.c_str(), nullptr));
  EXPECT_NEAR(loss_of(whole, ids), loss, 1e-6);
  EXPECT_TRUE(fs::exists(whole + "/config.json"));
  EXPECT_TRUE(fs::exists(whole + "/tokenizer.json"));
  o.dtype = "bf16";
  o.shard_bytes = 20000;
  MUST(gsm_language_export(language, half.c_str(), &o));
  EXPECT_TRUE(fs::exists(half + "/model.safetensors.index.json"));
  EXPECT_NEAR(loss_of(half, ids), loss, 1e-2);
  EXPECT_NE(loss_of(half, ids), loss);
  const std::string gguf = file("m.gguf").string(), onnx = file("m.onnx").string();
  o.to = "gguf";
  o.shard_bytes = 0;
  o.dtype = "q8_0";
  MUST(gsm_language_export(language, gguf.c_str(), &o));
  EXPECT_EQ(contents(gguf).substr(0, 4), "GGUF");
  EXPECT_LT(fs::file_size(gguf), fs::file_size(folder + "/model.safetensors") / 2);
  o.to = "onnx";
  EXPECT_EQ(gsm_language_export(language, onnx.c_str(), &o), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("gsm_export_options.dtype: q8_0"));
  o.dtype = nullptr;
  MUST(gsm_language_export(language, onnx.c_str(), &o));
  EXPECT_THAT(contents(onnx), HasSubstr("logits"));

  o.to = "keras";
  EXPECT_EQ(gsm_language_export(language, onnx.c_str(), &o), GSM_ERROR_CONFIG);
  o.to = "gguf";
  EXPECT_EQ(gsm_language_export(language, (folder + "/model.safetensors").c_str(), &o),
            GSM_ERROR_CONFIG);
  o.to = nullptr;
  EXPECT_EQ(gsm_language_export(language, folder.c_str(), &o), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("is there already"));
  o.shard_bytes = -1;
  EXPECT_EQ(gsm_language_export(language, file("x").c_str(), &o), GSM_ERROR_ARGUMENT);
  MUST(gsm_language_free(language));
}

}  // namespace
}  // namespace gossamer
