// Language models in C: tokenizers, training a model that is then opened, generation, perplexity.
#include <algorithm>
#include <cmath>
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

using testing::HasSubstr;

// A model that says "abcdefgh" again and again, and its tokenizer of single characters.
class CLanguage : public InTempFolder, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    InTempFolder::SetUp();
    std::ofstream(file("characters.json")) << R"(["a","b","c","d","e","f","g","h"])";
    for (int i = 0; i < 32; ++i) ids_.push_back(i % 8);
    gsm_trainer_options o{};
    o.struct_size = sizeof o;
    o.optimizer = "adamw";
    o.model_options = "layers=1 width=32 heads=2 positions=16";
    gsm_trainer* trainer = nullptr;
    MUST(gsm_trainer_new(GetParam(), 8, &o, &trainer));
    float loss = 0;
    std::vector<int32_t> rows;  // that begin with every letter
    for (int i = 0; i < 8 * 16; ++i) rows.push_back((i / 16 + i % 16) % 8);
    for (int i = 0; i < 80; ++i) {
      MUST(gsm_trainer_gradient_ids(trainer, rows.data(), nullptr, 8, 16, &loss));
      MUST(gsm_trainer_step(trainer, .01));
    }
    ASSERT_LT(loss, .05);
    model_ = file("model.safetensors").string();
    MUST(gsm_trainer_save(trainer, model_.c_str(), nullptr));
    MUST(gsm_trainer_free(trainer));
    MUST(gsm_language_open(model_.c_str(), nullptr, &language_));
  }
  void TearDown() override {
    EXPECT_EQ(gsm_language_free(language_), GSM_OK);
    InTempFolder::TearDown();
  }
  // What is generated behind these ids.
  std::vector<int32_t> generated(const std::vector<int32_t>& begin,
                                 const gsm_generation_options* options) {
    gsm_generation* generation = nullptr;
    EXPECT_EQ(gsm_generation_new(language_, begin.data(), static_cast<int64_t>(begin.size()),
                                 options, &generation),
              GSM_OK)
        << gsm_last_error();
    std::vector<int32_t> out;
    for (int32_t id = 0, done = 0; out.size() < 100;) {
      EXPECT_EQ(gsm_generation_next(generation, &id, &done), GSM_OK) << gsm_last_error();
      if (done) {
        EXPECT_EQ(id, -1);
        break;
      }
      out.push_back(id);
    }
    EXPECT_EQ(gsm_generation_free(generation), GSM_OK);
    return out;
  }
  static gsm_generation_options options() {
    gsm_generation_options o{};
    o.struct_size = sizeof o;
    return o;
  }

  std::vector<int32_t> ids_;
  std::string model_;
  gsm_language* language_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Families, CLanguage, testing::Values("gpt2", "llama"),
                         [](const auto& family) { return std::string(family.param); });

TEST_P(CLanguage, TextBecomesIdsAndIdsText) {
  gsm_tokenizer* tokenizer = nullptr;
  MUST(gsm_language_tokenizer(language_, &tokenizer));
  int64_t size = 0, n = 0;
  int32_t end = 0;
  MUST(gsm_tokenizer_size(tokenizer, &size, &end));
  EXPECT_EQ(size, 8);
  EXPECT_EQ(end, -1);
  MUST(gsm_tokenizer_encode(tokenizer, "cab", 3, 0, nullptr, &n));
  EXPECT_EQ(n, 3);
  int32_t ids[4] = {};
  n = 2;
  EXPECT_EQ(gsm_tokenizer_encode(tokenizer, "cab", 3, 0, ids, &n), GSM_ERROR_ARGUMENT);
  n = 4;
  MUST(gsm_tokenizer_encode(tokenizer, "cab", 3, 0, ids, &n));
  EXPECT_EQ(n, 3);
  EXPECT_THAT(ids, testing::ElementsAre(2, 0, 1, 0));
  char text[4] = {};
  std::size_t bytes = 4;
  MUST(gsm_tokenizer_decode(tokenizer, ids, 3, text, &bytes));
  EXPECT_EQ(bytes, 3u);
  EXPECT_STREQ(text, "cab");
  ids[0] = 8;
  bytes = 4;
  EXPECT_EQ(gsm_tokenizer_decode(tokenizer, ids, 3, text, &bytes), GSM_ERROR_DATA);
  EXPECT_EQ(gsm_tokenizer_encode(tokenizer, "z", 1, 0, nullptr, &n), GSM_ERROR_DATA);
  std::filesystem::create_directory(file("copy"));
  MUST(gsm_tokenizer_save(tokenizer, file("copy").c_str()));
  MUST(gsm_tokenizer_free(tokenizer));
  MUST(gsm_tokenizer_open(file("copy").c_str(), &tokenizer));
  MUST(gsm_tokenizer_size(tokenizer, &size, &end));
  EXPECT_EQ(size, 8);
  MUST(gsm_tokenizer_free(tokenizer));
}

TEST_P(CLanguage, TheModelGoesOnWithATextBeyondItsPositions) {
  gsm_generation_options o = options();
  o.temperature = -1;
  o.tokens = 40;
  const std::vector<int32_t> out = generated({0, 1, 2}, &o);
  ASSERT_EQ(out.size(), 40u);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(out[static_cast<std::size_t>(i)], (3 + i) % 8) << i;
  const int32_t stop[] = {6};
  o.stop = stop;
  o.n_stop = 1;
  EXPECT_THAT(generated({0, 1, 2}, &o), testing::ElementsAre(3, 4, 5));
}

TEST_P(CLanguage, AnyTextIsTheSameFromTheSameSeed) {
  gsm_generation_options o = options();
  o.temperature = 5;
  o.tokens = 12;
  o.seed = 1;
  const auto first = generated({4}, &o);
  EXPECT_EQ(generated({4}, &o), first);
  o.seed = 2;
  EXPECT_NE(generated({4}, &o), first);
  o.top_k = 1;
  const auto likeliest = generated({4}, &o);
  EXPECT_THAT(std::vector(likeliest.begin(), likeliest.begin() + 3), testing::ElementsAre(5, 6, 7));
  for (const auto& set : std::initializer_list<void (*)(gsm_generation_options&)>{
           [](gsm_generation_options& w) { w.top_p = 2; },
           [](gsm_generation_options& w) { w.top_k = -1; },
           [](gsm_generation_options& w) { w.temperature = NAN; },
           [](gsm_generation_options& w) { w.n_stop = 2; }}) {
    gsm_generation_options wrong = options();
    set(wrong);
    gsm_generation* none = nullptr;
    EXPECT_NE(gsm_generation_new(language_, ids_.data(), 1, &wrong, &none), GSM_OK);
  }
}

TEST_P(CLanguage, PerplexityIsLowWhereTheTextIsKnown) {
  double loss = 0, known = 0, unknown = 0;
  MUST(gsm_language_perplexity(language_, ids_.data(), 16, 0, &loss, &known));
  EXPECT_NEAR(known, std::exp(loss), 1e-9);
  EXPECT_LT(known, 1.2);
  std::vector<int32_t> other(ids_.rbegin(), ids_.rend());
  MUST(gsm_language_perplexity(language_, other.data(), 32, 16, &loss, &unknown));
  EXPECT_GT(unknown, 8);
  other[5] = 8;
  EXPECT_EQ(gsm_language_perplexity(language_, other.data(), 32, 0, &loss, &unknown),
            GSM_ERROR_ARGUMENT);
  EXPECT_THAT(gsm_last_error(), HasSubstr("ids[5] is 8; wanted 0 to 7"));
  EXPECT_EQ(gsm_language_perplexity(language_, ids_.data(), 32, 17, &loss, &unknown),
            GSM_ERROR_ARGUMENT);
}

TEST_P(CLanguage, ATrainerGoesOnFromAFileThatSaysWhichModelItIs) {
  gsm_trainer_options o{};
  o.struct_size = sizeof o;
  o.init = model_.c_str();
  gsm_trainer* trainer = nullptr;
  MUST(gsm_trainer_new(nullptr, 0, &o, &trainer));
  int64_t loaded = 0, left = -1;
  MUST(gsm_trainer_init_fit(trainer, &loaded, &left));
  EXPECT_EQ(left, 0);
  float loss = 9;
  MUST(gsm_trainer_evaluate_ids(trainer, ids_.data(), nullptr, 2, 16, &loss));
  EXPECT_LT(loss, .05);
  MUST(gsm_trainer_free(trainer));
  o.model_options = "layers=2";
  EXPECT_EQ(gsm_trainer_new(nullptr, 0, &o, &trainer), GSM_ERROR_CONFIG);
}

TEST_P(CLanguage, InformationAndWrongModels) {
  gsm_language_info_t info{};
  info.struct_size = sizeof info;
  MUST(gsm_language_info(language_, &info));
  EXPECT_EQ(info.vocabulary, 8);
  EXPECT_EQ(info.positions, 16);
  EXPECT_EQ(info.heads, 2);
  EXPECT_EQ(info.has_tokenizer, 1);
  gsm_language* none = nullptr;
  EXPECT_EQ(gsm_language_open(file("nothing").c_str(), nullptr, &none), GSM_ERROR_FILE);
  gsm_model* model = nullptr;
  EXPECT_EQ(gsm_model_open(model_.c_str(), &model), GSM_ERROR_FILE);
  gsm_language_options o{};
  o.struct_size = sizeof o;
  o.device = "cuda:0";
  EXPECT_EQ(gsm_language_open(model_.c_str(), &o, &none), GSM_ERROR_DEVICE);
}

}  // namespace
}  // namespace gossamer
