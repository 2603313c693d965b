// ONNX files of trainers. tests/interop/onnx_capi.py asks onnxruntime.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capi/trainers.h"
#include "support/onnx_graph.h"

namespace gossamer {
namespace {

using gossamer::testing::OnnxGraph;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class COnnx : public CTrainer {
 protected:
  static std::string onnx(gsm_trainer* trainer, const char* const* names,
                          const gsm_onnx_options* options) {
    gsm_bytes* bytes = nullptr;
    EXPECT_EQ(gsm_trainer_save_onnx_memory(trainer, names, options, &bytes), GSM_OK)
        << gsm_last_error();
    const void* data = nullptr;
    std::size_t size = 0;
    EXPECT_EQ(gsm_bytes_data(bytes, &data, &size), GSM_OK) << gsm_last_error();
    std::string copy(static_cast<const char*>(data), size);
    EXPECT_EQ(gsm_bytes_free(bytes), GSM_OK);
    return copy;
  }
  // Trained a little, so that statistics are not those of the beginning.
  gsm_trainer* trained(const gsm_trainer_options& o) {
    gsm_trainer* trainer = make(o);
    for (int i = 0; i < 3; ++i) {
      gradient(trainer, 4, o.channels ? o.channels : 3);
      EXPECT_EQ(gsm_trainer_step(trainer, .05), GSM_OK) << gsm_last_error();
    }
    return trainer;
  }
  // Of one image of bytes, as the model that the trainer saves computes them.
  static std::vector<float> logits(gsm_trainer* trainer, const std::vector<uint8_t>& pixels) {
    gsm_bytes* bytes = nullptr;
    EXPECT_EQ(gsm_trainer_save_memory(trainer, nullptr, &bytes), GSM_OK) << gsm_last_error();
    const void* data = nullptr;
    std::size_t size = 0;
    EXPECT_EQ(gsm_bytes_data(bytes, &data, &size), GSM_OK);
    gsm_model* model = nullptr;
    EXPECT_EQ(gsm_model_open_memory(data, size, &model), GSM_OK) << gsm_last_error();
    std::vector<float> out(2);
    EXPECT_EQ(gsm_model_forward_u8(model, pixels.data(), 1, 8, 8, out.data()), GSM_OK)
        << gsm_last_error();
    EXPECT_EQ(gsm_model_free(model), GSM_OK);
    EXPECT_EQ(gsm_bytes_free(bytes), GSM_OK);
    return out;
  }
};

TEST_F(COnnx, TheGraphGivesTheLogitsOfTheModel) {
  const float mean[] = {.4F, .5F, .6F, .3F}, std[] = {.2F, .25F, .3F, .2F};
  for (const int channels : {3, 4}) {
    gsm_trainer_options o = options();
    o.image_size = 8;
    o.channels = channels;
    o.mean = mean;
    o.std = std;
    gsm_trainer* const trainer = trained(o);
    std::vector<uint8_t> pixels(static_cast<std::size_t>(64 * channels));
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * 37 % 251);
    const std::vector<float> wanted = logits(trainer, pixels);
    for (const int32_t keep : {0, 1}) {
      gsm_onnx_options how{};
      how.struct_size = sizeof how;
      how.input = "bytes";
      how.keep_batch_norm = keep;
      const OnnxGraph graph(onnx(trainer, nullptr, &how));
      EXPECT_EQ(graph.has("BatchNormalization"), keep == 1);
      OnnxGraph::Value images{{1, channels, 8, 8}, {}};
      for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c)
        for (std::size_t p = 0; p < 64; ++p)
          images.numbers.push_back(static_cast<float>(pixels[p * channels + c]));
      const OnnxGraph::Value is = graph(std::move(images));
      ASSERT_THAT(is.shape, ElementsAre(1, 2));
      for (std::size_t k = 0; k < 2; ++k)
        EXPECT_NEAR(is.numbers[k], wanted[k], 1e-4F * (1 + std::abs(wanted[k]))) << channels;
    }
  }
}

TEST_F(COnnx, FilesHaveTheNamesOfTheClassesAndTheBytesOfMemory) {
  gsm_trainer* const trainer = trained(options());
  const char* names[] = {"cat", "dog"};
  const std::string bytes = onnx(trainer, names, nullptr);
  const OnnxGraph graph(bytes);
  EXPECT_EQ(graph.metadata.at("classes"), "cat\ndog");
  EXPECT_EQ(graph.metadata.at("model"), "resnet8-cifar");
  EXPECT_THAT(graph.input.shape, ElementsAre("N", "3", "32", "32"));
  const std::string path = file("m.onnx").string();
  MUST(gsm_trainer_save_onnx(trainer, path.c_str(), names, nullptr));
  EXPECT_TRUE(contents(path) == bytes);
}

TEST_F(COnnx, WhatIsNoOptionOrNoPictureModelIsAnError) {
  gsm_trainer* const trainer = make(options());
  gsm_bytes* bytes = nullptr;
  gsm_onnx_options how{};
  how.struct_size = sizeof how;
  how.input = "jpeg";
  EXPECT_EQ(gsm_trainer_save_onnx_memory(trainer, nullptr, &how, &bytes), GSM_ERROR_CONFIG);
  EXPECT_STREQ(gsm_last_error(), "gsm_onnx_options.input: jpeg: wanted normalized, unit or bytes");
  EXPECT_EQ(gsm_trainer_save_onnx(trainer, "/nowhere/at all", nullptr, nullptr), GSM_ERROR_FILE);
  gsm_trainer_options o = options();
  o.model_options = "layers=1 width=8 heads=1 positions=8";
  gsm_trainer* const language = make("gpt2", 16, o);
  EXPECT_EQ(gsm_trainer_save_onnx_memory(language, nullptr, nullptr, &bytes), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), HasSubstr("gpt2 is for language, and this call is for pictures"));
  EXPECT_EQ(bytes, nullptr);
}

}  // namespace
}  // namespace gossamer
