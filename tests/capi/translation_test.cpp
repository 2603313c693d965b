// A model that translates, trained and used in C.
#include <cstdint>
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

using testing::ElementsAre;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;

// It turns "abc" into "ABC", learnt from all texts of two letters.
class CTranslation : public InTempFolder {
 protected:
  static constexpr int32_t kBegin = 256, kEnd = 257, kPad = 258;
  void SetUp() override {
    InTempFolder::SetUp();
    folder_ = file("model").string();
    std::filesystem::create_directory(folder_);
    write_tokenizer();
    gsm_trainer_options o{};
    o.struct_size = sizeof o;
    o.optimizer = "adam";
    o.model_options = "layers=1 width=32 heads=2 ff=64 positions=16";
    gsm_trainer* trainer = nullptr;
    MUST(gsm_trainer_new("transformer", 259, &o, &trainer));
    Ids source, lengths, inputs, labels;
    for (const char a : {'a', 'b', 'c'})
      for (const char b : {'a', 'b', 'c'}) {
        const int32_t first = id_of(a), second = id_of(b), upper = id_of('A') - id_of('a');
        for (const int32_t id : {first, second, kEnd}) source.push_back(id);
        lengths.push_back(3);
        for (const int32_t id : {kBegin, first + upper, second + upper}) inputs.push_back(id);
        for (const int32_t id : {first + upper, second + upper, kEnd}) labels.push_back(id);
      }
    float loss = 0;
    for (int i = 0; i < 150; ++i) {
      MUST(gsm_trainer_gradient_pairs(trainer, source.data(), lengths.data(), inputs.data(),
                                      labels.data(), 9, 3, 3, &loss));
      MUST(gsm_trainer_step(trainer, .005));
    }
    ASSERT_LT(loss, .1);
    MUST(gsm_trainer_save(trainer, (folder_ + "/model.safetensors").c_str(), nullptr));
    MUST(gsm_trainer_free(trainer));
  }
  // Printable bytes are ids of their own; GPT-2 writes the others with characters from 256 on.
  static int32_t id_of(char letter) { return letter - '!'; }
  void write_tokenizer() const {
    std::ofstream vocab(folder_ + "/vocab.json");
    vocab << "{";
    int32_t id = 0;
    const auto add = [&](const std::string& token) {
      vocab << (id ? ", \"" : "\"") << token << "\": " << id;
      ++id;
    };
    const auto letter = [](int code) {
      return code < 128
                 ? std::string(code == '"' || code == '\\' ? "\\" : "") + static_cast<char>(code)
                 : std::string{static_cast<char>(0xC0 | code >> 6),
                               static_cast<char>(0x80 | (code & 0x3F))};
    };
    const auto prints = [](int byte) {
      return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    };
    for (int byte = 0; byte < 256; ++byte)
      if (prints(byte)) add(letter(byte));
    for (int byte = 0, other = 256; byte < 256; ++byte)
      if (!prints(byte)) add(letter(other++));
    for (const char* mark : {"<s>", "</s>", "<pad>"}) add(mark);
    vocab << "}";
    std::ofstream(folder_ + "/merges.txt") << "#version: 0.2\n";
  }
  static std::vector<std::string> translated(gsm_translator* translator,
                                             const std::vector<const char*>& sentences) {
    std::vector<gsm_bytes*> made(sentences.size());
    EXPECT_EQ(gsm_translate(translator, sentences.data(), static_cast<int32_t>(sentences.size()),
                            made.data()),
              GSM_OK)
        << gsm_last_error();
    std::vector<std::string> out;
    for (gsm_bytes* const each : made) {
      const void* data = nullptr;
      std::size_t size = 0;
      EXPECT_EQ(gsm_bytes_data(each, &data, &size), GSM_OK);
      out.emplace_back(static_cast<const char*>(data), size);
      EXPECT_EQ(gsm_bytes_free(each), GSM_OK);
    }
    return out;
  }

  std::string folder_;
};

TEST_F(CTranslation, TranslatesWhatItHasLearnt) {
  gsm_translator* translator = nullptr;
  MUST(gsm_translator_open(folder_.c_str(), nullptr, &translator));
  EXPECT_THAT(translated(translator, {"ab", "", "cc", "ba"}), ElementsAre("AB", "", "CC", "BA"));
  gsm_translator_options o{};
  o.struct_size = sizeof o;
  o.beam = 4;
  gsm_translator* beam = nullptr;
  MUST(gsm_translator_open(folder_.c_str(), &o, &beam));
  EXPECT_THAT(translated(beam, {"ca"}), ElementsAre("CA"));
  MUST(gsm_translator_free(beam));

  // A call that was cancelled leaves it as it was.
  gsm_cancel* cancel = nullptr;
  MUST(gsm_cancel_new(&cancel));
  MUST(gsm_cancel_use(cancel));
  MUST(gsm_cancel_set(cancel, 1));
  const char* sentences[] = {"ab", "cabcabcabcabcabcabc"};
  gsm_bytes* made[2] = {};
  EXPECT_EQ(gsm_translate(translator, sentences, 1, made), GSM_CANCELLED);
  EXPECT_EQ(made[0], nullptr);
  MUST(gsm_cancel_use(nullptr));
  MUST(gsm_cancel_free(cancel));
  EXPECT_THAT(translated(translator, {"bc"}), ElementsAre("BC"));
  EXPECT_EQ(gsm_translate(translator, sentences, 2, made), GSM_ERROR_DATA);
  EXPECT_THAT(gsm_last_error(), HasSubstr("sentences[1] has 20 ids, and the model reads 16"));
  EXPECT_EQ(made[0], nullptr);
  sentences[1] = nullptr;
  EXPECT_EQ(gsm_translate(translator, sentences, 2, made), GSM_ERROR_ARGUMENT);
  MUST(gsm_translator_free(translator));
}

TEST_F(CTranslation, WhatCanNotBeOpenedIsTold) {
  gsm_translator_options o{};
  o.struct_size = sizeof o;
  gsm_translator* translator = nullptr;
  o.beam = 2000;
  EXPECT_EQ(gsm_translator_open(folder_.c_str(), &o, &translator), GSM_ERROR_ARGUMENT);
  o.beam = 0;
  o.type = "f64";
  EXPECT_EQ(gsm_translator_open(folder_.c_str(), &o, &translator), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("gsm_translator_options.type: f64"));
  gsm_trainer* trainer = nullptr;
  MUST(gsm_trainer_new("resnet8-cifar", 2, nullptr, &trainer));
  const std::string pictures = file("m.safetensors").string();
  MUST(gsm_trainer_save(trainer, pictures.c_str(), nullptr));
  MUST(gsm_trainer_free(trainer));
  EXPECT_EQ(gsm_translator_open(pictures.c_str(), nullptr, &translator), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("is no model that translates"));
}

}  // namespace
}  // namespace gossamer
