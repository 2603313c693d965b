// See onnx.h.
#include "gossamer/models/onnx.h"

#include <cmath>
#include <map>
#include <span>

#include "gossamer/core/error.h"
#include "gossamer/core/shape.h"
#include "gossamer/models/onnx_graph.h"
#include "gossamer/models/resnet.h"
#include "gossamer/nn/layers.h"

namespace gossamer::models {
namespace {

constexpr i64 kOpset = 13;

// The graph, with a ResNet's weights and layers.
class Graph : public OnnxGraph {
 public:
  Graph(const std::vector<NamedTensor>& state, bool keep_batch_norm)
      : keep_batch_norm_(keep_batch_norm) {
    for (const NamedTensor& t : state) state_[t.name] = t.tensor;
  }
  bool has(const std::string& name) const { return state_.contains(name); }
  i64 channels_after(const std::string& conv) const { return state_.at(conv + ".weight").shape(0); }
  using OnnxGraph::add;
  // These return the name of what they add.
  std::string of_state(const std::string& name) { return constant(name, state_.at(name)); }

  // Convolution and batch norm.
  std::string conv_norm(const std::string& x, const std::string& conv, const std::string& norm,
                        i64 stride, i64 padding) {
    const Shape& shape = state_.at(conv + ".weight").shape();
    const float eps = nn::BatchNormLayerOptions{}.eps;
    const auto add_conv = [&](const std::vector<std::string>& inputs) {
      add(OnnxNode("Conv", {conv}, inputs)
              .attribute("kernel_shape", {shape[2], shape[3]})
              .attribute("strides", {stride, stride})
              .attribute("pads", {padding, padding, padding, padding}));
    };
    if (keep_batch_norm_) {
      add_conv({x, of_state(conv + ".weight")});
      const std::string scale = of_state(norm + ".weight"), shift = of_state(norm + ".bias"),
                        mean = of_state(norm + ".running_mean"),
                        var = of_state(norm + ".running_var");
      add(OnnxNode("BatchNormalization", {norm}, {conv, scale, shift, mean, var})
              .attribute("epsilon", eps));
      return norm;
    }
    std::vector<float> weight = copy_of(conv + ".weight"), bias = copy_of(norm + ".bias");
    const auto scale = numbers(norm + ".weight"), mean = numbers(norm + ".running_mean"),
               var = numbers(norm + ".running_var");
    const std::size_t each = weight.size() / bias.size();
    for (std::size_t k = 0; k < bias.size(); ++k) {
      const double factor = scale[k] / std::sqrt(double{var[k]} + eps);
      for (std::size_t i = k * each; i < (k + 1) * each; ++i)
        weight[i] = static_cast<float>(weight[i] * factor);
      bias[k] = static_cast<float>(bias[k] - mean[k] * factor);
    }
    constant(conv + ".weight", shape, weight);
    constant(conv + ".bias", {shape[0]}, bias);
    add_conv({x, conv + ".weight", conv + ".bias"});
    return conv;
  }
  // x * scale[c] + shift[c]
  std::string per_channel(const std::string& x, const std::string& name,
                          const std::vector<float>& scale, const std::vector<float>& shift) {
    const Shape shape{1, static_cast<i64>(scale.size()), 1, 1};
    const std::string scaled =
        add("Mul", name + ".scaled", {x, constant(name + ".scale", shape, scale)});
    return add("Add", name, {scaled, constant(name + ".shift", shape, shift)});
  }
  // core/ops.h's subsample_pad
  std::string subsample_pad(const std::string& x, const std::string& name, i64 stride, i64 channels,
                            i64 wanted) {
    const auto list = [&](const char* what, const std::vector<i64>& values) {
      return constant(name + what, {static_cast<i64>(values.size())}, values);
    };
    const std::string fewer =
        add("Slice", name + ".slice",
            {x, list(".starts", {0, 0}), list(".ends", {INT64_MAX, INT64_MAX}),
             list(".axes", {2, 3}), list(".steps", {stride, stride})});
    const i64 before = (wanted - channels) / 2;
    return add("Pad", name,
               {fewer, list(".pads", {0, before, 0, 0, 0, wanted - channels - before, 0, 0})});
  }

 private:
  std::span<const float> numbers(const std::string& name) const {
    return state_.at(name).span<float>();
  }
  std::vector<float> copy_of(const std::string& name) const {
    const auto values = numbers(name);
    return {values.begin(), values.end()};
  }
  std::map<std::string, Tensor> state_;
  const bool keep_batch_norm_;
};

// models/resnet.cpp's forward pass, from normalized images to logits.
void add_resnet(Graph& graph, const ResNetOptions& o, std::string x) {
  const auto relu = [&](const std::string& of) { return graph.add("Relu", of + ".relu", {of}); };
  x = o.imagenet_stem ? graph.conv_norm(x, "conv1", "bn1", 2, 3)
                      : graph.conv_norm(x, "conv1", "bn1", 1, 1);
  x = relu(x);
  if (o.imagenet_stem) {
    graph.add(OnnxNode("MaxPool", {"maxpool"}, {x})
                  .attribute("kernel_shape", {3, 3})
                  .attribute("strides", {2, 2})
                  .attribute("pads", {1, 1, 1, 1}));
    x = "maxpool";
  }
  i64 channels = graph.channels_after("conv1");
  for (std::size_t stage = 0; stage < o.blocks.size(); ++stage)
    for (int i = 0; i < o.blocks[stage]; ++i) {
      const std::string block = "layer" + std::to_string(stage + 1) + "." + std::to_string(i) + ".";
      const i64 stride = stage > 0 && i == 0 ? 2 : 1;
      const auto conv = [&](const std::string& in, int number, i64 step, i64 padding) {
        return graph.conv_norm(in, block + "conv" + std::to_string(number),
                               block + "bn" + std::to_string(number), step, padding);
      };
      const std::string y = o.bottleneck
                                ? conv(relu(conv(relu(conv(x, 1, 1, 0)), 2, stride, 1)), 3, 1, 0)
                                : conv(relu(conv(x, 1, stride, 1)), 2, 1, 1);
      const i64 wanted = graph.channels_after(block + (o.bottleneck ? "conv3" : "conv2"));
      if (graph.has(block + "downsample.0.weight"))
        x = graph.conv_norm(x, block + "downsample.0", block + "downsample.1", stride, 0);
      else if (stride != 1 || wanted != channels)
        x = graph.subsample_pad(x, block + "shortcut", stride, channels, wanted);
      x = relu(graph.add("Add", block + "sum", {y, x}));
      channels = wanted;
    }
  x = graph.add("Flatten", "features", {graph.add("GlobalAveragePool", "avgpool", {x})});
  const std::string weight = graph.of_state("fc.weight"), bias = graph.of_state("fc.bias");
  graph.add(OnnxNode("Gemm", {"logits"}, {x, weight, bias}).attribute("transB", i64{1}));
}

const char* meaning(OnnxInput input) {
  switch (input) {
    case OnnxInput::bytes:
      return "RGB, 0 to 255";
    case OnnxInput::unit:
      return "RGB, 0 to 1";
    case OnnxInput::normalized:
      break;
  }
  return "RGB, 0 to 1, minus mean, divided by std (see metadata)";
}

}  // namespace

OnnxInput onnx_input(const std::string& option, const std::string& name) {
  if (name == "normalized") return OnnxInput::normalized;
  if (name == "unit") return OnnxInput::unit;
  if (name == "bytes") return OnnxInput::bytes;
  fail<ConfigError>(option, " ", name, ": wanted normalized, unit or bytes");
}

std::string onnx_bytes(const std::vector<NamedTensor>& state, const ModelHeader& header,
                       const OnnxOptions& options) {
  const auto resnet = resnet_of(state);
  check<ConfigError>(resnet.has_value(), header.model, ": only ResNets can be written as ONNX");
  check<ConfigError>(resnet->norm == ResNetNorm::batch, header.model,
                     ": only ResNets with batch norm can be written as ONNX; a safetensors file "
                     "takes this one");
  const Preprocessing& pictures = header.pictures;
  const i64 channels = pictures.channels();
  const bool bytes = options.input == OnnxInput::bytes;

  Graph graph(state, options.keep_batch_norm);
  std::string x = "images";
  if (bytes) {
    graph.add(OnnxNode("Cast", {"floats"}, {x}).attribute("to", static_cast<i64>(OnnxType::f32)));
    x = "floats";
  }
  if (options.input != OnnxInput::normalized) {
    std::vector<float> scale, shift;
    for (std::size_t c = 0; c < pictures.mean.size(); ++c) {
      const double std = pictures.std[c];
      scale.push_back(static_cast<float>(1 / (bytes ? 255 * std : std)));
      shift.push_back(static_cast<float>(-pictures.mean[c] / std));
    }
    x = graph.per_channel(x, "normalized", scale, shift);
  }
  add_resnet(graph, *resnet, x);

  return graph.file(header.model, kOpset,
                    {.name = "images",
                     .type = bytes ? OnnxType::u8 : OnnxType::f32,
                     .shape = {"N", channels, pictures.size, pictures.size},
                     .meaning = meaning(options.input)},
                    {.name = "logits",
                     .type = OnnxType::f32,
                     .shape = {"N", static_cast<i64>(header.classes.size())},
                     .meaning = ""},
                    metadata_of(header));
}

}  // namespace gossamer::models
