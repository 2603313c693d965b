// ONNX files give what the network computes. tests/interop/weights_torch.py and onnx_capi.py ask
// onnxruntime.
#include "gossamer/models/onnx.h"

#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/random.h"
#include "gossamer/models/resnet.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/init.h"
#include "support/error_of.h"
#include "support/onnx_graph.h"

namespace gossamer::models {
namespace {

using gossamer::testing::OnnxGraph;
namespace onnx = gossamer::testing::onnx;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr i64 kImages = 2, kSide = 33;  // odd, so that strides leave a rest

// Every kind of stem, block and shortcut.
std::vector<ResNetOptions> kinds() {
  ResNetOptions basic{.blocks = {1, 2}, .widths = {4, 8}, .classes = 5};
  ResNetOptions bottleneck = basic;
  bottleneck.bottleneck = true;
  ResNetOptions cifar = basic;
  cifar.imagenet_stem = false;
  cifar.pad_shortcut = true;
  cifar.channels = 4;
  return {basic, bottleneck, cifar};
}

// Scales, shifts and statistics that differ from those of the beginning.
std::unique_ptr<nn::Module> used_network(const ResNetOptions& options) {
  nn::seed_initialisation(5);
  auto net = resnet(options);
  Rng rng(6);
  for (NamedTensor& t : net->state())
    if (t.tensor.rank() == 1)
      for (float& v : t.tensor.span<float>()) v = 0.5f + rng.uniform();
  net->eval();
  return net;
}

ModelHeader header_for(const ResNetOptions& o) {
  ModelHeader header{"resnet", {}, {.size = kSide, .resize = kSide}};
  for (i64 i = 0; i < o.classes; ++i) header.classes.push_back("class " + std::to_string(i));
  for (i64 c = 0; c < o.channels; ++c) {
    header.pictures.mean.push_back(0.3f + 0.1f * static_cast<float>(c));
    header.pictures.std.push_back(0.25f - 0.02f * static_cast<float>(c));
  }
  return header;
}

TEST(Onnx, TheGraphComputesWhatTheNetworkDoes) {
  for (const ResNetOptions& o : kinds()) {
    const auto net = used_network(o);
    const ModelHeader header = header_for(o);
    Tensor pixels = Tensor::empty({kImages, kSide, kSide, o.channels}, DType::u8);
    Rng rng(7);
    for (auto& v : pixels.span<std::uint8_t>()) v = static_cast<std::uint8_t>(256 * rng.uniform());
    const NoGrad no_grad;
    const Tensor normalized = header.pictures(pixels), wanted = (*net)(normalized);
    for (const OnnxInput input : {OnnxInput::normalized, OnnxInput::unit, OnnxInput::bytes})
      for (const bool keep : {false, true}) {
        const OnnxGraph graph(onnx_bytes(nn::in_file_layout(net->state()), header,
                                         {.input = input, .keep_batch_norm = keep}));
        EXPECT_EQ(graph.has("BatchNormalization"), keep);
        const std::string channels = std::to_string(o.channels), side = std::to_string(kSide);
        EXPECT_EQ(graph.input.name, "images");
        EXPECT_EQ(graph.input.type, input == OnnxInput::bytes ? onnx::kByte : onnx::kFloat);
        EXPECT_THAT(graph.input.shape, ElementsAre("N", channels, side, side));
        EXPECT_EQ(graph.output.name, "logits");
        EXPECT_EQ(graph.output.type, onnx::kFloat);
        EXPECT_THAT(graph.output.shape, ElementsAre("N", std::to_string(o.classes)));
        OnnxGraph::Value images{{kImages, o.channels, kSide, kSide}, {}};
        for (i64 n = 0; n < kImages; ++n)
          for (i64 c = 0; c < o.channels; ++c)
            for (i64 p = 0; p < kSide * kSide; ++p) {
              const i64 at = (n * kSide * kSide + p) * o.channels + c;
              const auto pixel = static_cast<float>(pixels.as<std::uint8_t>()[at]);
              images.numbers.push_back(input == OnnxInput::bytes  ? pixel
                                       : input == OnnxInput::unit ? pixel / 255
                                                                  : normalized.as<float>()[at]);
            }
        const OnnxGraph::Value logits = graph(std::move(images));
        ASSERT_EQ(logits.shape, (std::vector<i64>{kImages, o.classes}));
        double error = 0, length = 0;
        for (i64 i = 0; i < kImages * o.classes; ++i) {
          const double is = logits.numbers[static_cast<std::size_t>(i)],
                       want = static_cast<double>(wanted.as<float>()[i]);
          error += (is - want) * (is - want);
          length += want * want;
        }
        EXPECT_LT(std::sqrt(error / length), 1e-5) << static_cast<int>(input) << keep;
      }
  }
}

TEST(Onnx, TheFileSaysWhatTheHeaderOfAModelFileDoes) {
  const ResNetOptions o = kinds()[0];
  const ModelHeader header = header_for(o);
  const OnnxGraph graph(
      onnx_bytes(nn::in_file_layout(used_network(o)->state()), header, OnnxOptions{}));
  EXPECT_EQ(graph.metadata, metadata_of(header));
  EXPECT_EQ(graph.opset, 13);
  // Weights are those of the state, bit for bit, where nothing is folded.
  const OnnxGraph kept(
      onnx_bytes(nn::in_file_layout(used_network(o)->state()), header, {.keep_batch_norm = true}));
  for (const NamedTensor& t : nn::in_file_layout(used_network(o)->state())) {
    if (t.tensor.rank() == 0) continue;  // counters
    const OnnxGraph::Value& is = kept.constants.at(t.name);
    EXPECT_EQ(is.shape, std::vector<i64>(t.tensor.shape().begin(), t.tensor.shape().end()));
    EXPECT_TRUE(std::ranges::equal(is.numbers, t.tensor.span<float>())) << t.name;
  }
}

TEST(Onnx, OtherModelsAndInputsAreErrors) {
  const std::vector<NamedTensor> state{{"wte.weight", Tensor::zeros({7, 4})}};
  EXPECT_THAT(error_of<ConfigError>([&] { onnx_bytes(state, header_for(kinds()[0]), {}); }),
              HasSubstr("only ResNets can be written as ONNX"));
  ResNetOptions o = kinds()[2];
  o.norm = ResNetNorm::evo;
  EXPECT_THAT(error_of<ConfigError>([&] {
                onnx_bytes(nn::in_file_layout(used_network(o)->state()), header_for(o), {});
              }),
              HasSubstr("only ResNets with batch norm can be written as ONNX"));
  EXPECT_EQ(onnx_input("--input", "unit"), OnnxInput::unit);
  EXPECT_EQ(error_of<ConfigError>([] { onnx_input("--input", "jpeg"); }),
            "--input jpeg: wanted normalized, unit or bytes");
}

}  // namespace
}  // namespace gossamer::models
