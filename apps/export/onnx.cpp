// See onnx.h. No other file includes protobuf.
#include "gossamer/apps/export/onnx.h"

#include "gossamer/core/error.h"

#ifndef GOSSAMER_HAS_ONNX

namespace gossamer::apps {

bool writes_onnx() { return false; }

void write_onnx(const std::filesystem::path& path, const LoadedModel&, const OnnxOptions&) {
  fail<ConfigError>(path.string(),
                    ": this build cannot write ONNX files. Install libonnx-dev and "
                    "libprotobuf-dev, run cmake and build again");
}

}  // namespace gossamer::apps

#else

#include <cmath>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "gossamer/apps/version.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/models/resnet.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/layers.h"

namespace gossamer::apps {
namespace {

constexpr int kIrVersion = 8, kOpset = 13;  // of ONNX 1.8 (2020) and newer

// Adds nodes to a graph. A node and its output have one name, which the functions return.
class Nodes {
 public:
  Nodes(onnx::GraphProto& graph, const std::vector<NamedTensor>& state, bool keep_batch_norm)
      : graph_(graph), keep_batch_norm_(keep_batch_norm) {
    for (const NamedTensor& t : state) state_[t.name] = t.tensor;
  }
  bool has(const std::string& name) const { return state_.contains(name); }
  i64 channels_after(const std::string& conv) const { return state_.at(conv + ".weight").shape(0); }

  std::string add(const char* type, const std::string& name,
                  std::initializer_list<std::string> inputs) {
    node_ = graph_.add_node();
    node_->set_op_type(type);
    node_->set_name(name);
    for (const std::string& input : inputs) node_->add_input(input);
    node_->add_output(name);
    return name;
  }
  // of the node added last
  void attribute(const char* name, std::initializer_list<i64> values) {
    onnx::AttributeProto& a = *node_->add_attribute();
    a.set_name(name);
    a.set_type(onnx::AttributeProto::INTS);
    for (const i64 v : values) a.add_ints(v);
  }
  void attribute(const char* name, i64 value) {
    onnx::AttributeProto& a = *node_->add_attribute();
    a.set_name(name);
    a.set_type(onnx::AttributeProto::INT);
    a.set_i(value);
  }
  void attribute(const char* name, float value) {
    onnx::AttributeProto& a = *node_->add_attribute();
    a.set_name(name);
    a.set_type(onnx::AttributeProto::FLOAT);
    a.set_f(value);
  }
  template <class T>
  std::string constant(const std::string& name, const Shape& shape, const std::vector<T>& values) {
    onnx::TensorProto& t = *graph_.add_initializer();
    t.set_name(name);
    for (int d = 0; d < shape.rank(); ++d) t.add_dims(shape[d]);
    t.set_data_type(std::is_same_v<T, float> ? onnx::TensorProto::FLOAT : onnx::TensorProto::INT64);
    t.set_raw_data(values.data(), values.size() * sizeof(T));
    return name;
  }
  std::string of_state(const std::string& name) {
    return constant(name, state_.at(name).shape(), numbers(name));
  }

  // Convolution and batch norm.
  std::string conv_norm(const std::string& x, const std::string& conv, const std::string& norm,
                        i64 stride, i64 padding) {
    const Shape& shape = state_.at(conv + ".weight").shape();
    const float eps = nn::BatchNormLayerOptions{}.eps;
    if (keep_batch_norm_) {
      of_state(conv + ".weight");
      add("Conv", conv, {x, conv + ".weight"});
    } else {
      std::vector<float> weight = numbers(conv + ".weight"), bias(norm_numbers(norm, "bias"));
      const auto scale = norm_numbers(norm, "weight"), mean = norm_numbers(norm, "running_mean"),
                 var = norm_numbers(norm, "running_var");
      const std::size_t each = weight.size() / bias.size();
      for (std::size_t k = 0; k < bias.size(); ++k) {
        const double factor = scale[k] / std::sqrt(double{var[k]} + eps);
        for (std::size_t i = k * each; i < (k + 1) * each; ++i)
          weight[i] = static_cast<float>(weight[i] * factor);
        bias[k] = static_cast<float>(bias[k] - mean[k] * factor);
      }
      constant(conv + ".weight", shape, weight);
      constant(conv + ".bias", {shape[0]}, bias);
      add("Conv", conv, {x, conv + ".weight", conv + ".bias"});
    }
    attribute("kernel_shape", {shape[2], shape[3]});
    attribute("strides", {stride, stride});
    attribute("pads", {padding, padding, padding, padding});
    if (!keep_batch_norm_) return conv;
    std::string out = add("BatchNormalization", norm,
                          {conv, of_state(norm + ".weight"), of_state(norm + ".bias"),
                           of_state(norm + ".running_mean"), of_state(norm + ".running_var")});
    attribute("epsilon", eps);
    return out;
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
  std::vector<float> numbers(const std::string& name) const {
    const auto values = state_.at(name).span<float>();
    return {values.begin(), values.end()};
  }
  std::vector<float> norm_numbers(const std::string& norm, const char* part) const {
    return numbers(norm + "." + part);
  }
  onnx::GraphProto& graph_;
  const bool keep_batch_norm_;
  std::map<std::string, Tensor> state_;
  onnx::NodeProto* node_ = nullptr;
};

// models/resnet.cpp's forward pass, from normalized images to logits.
void add_resnet(Nodes& nodes, const models::ResNetOptions& o, std::string x) {
  const auto relu = [&](const std::string& of) { return nodes.add("Relu", of + ".relu", {of}); };
  x = o.imagenet_stem ? nodes.conv_norm(x, "conv1", "bn1", 2, 3)
                      : nodes.conv_norm(x, "conv1", "bn1", 1, 1);
  x = relu(x);
  if (o.imagenet_stem) {
    x = nodes.add("MaxPool", "maxpool", {x});
    nodes.attribute("kernel_shape", {3, 3});
    nodes.attribute("strides", {2, 2});
    nodes.attribute("pads", {1, 1, 1, 1});
  }
  i64 channels = nodes.channels_after("conv1");
  for (std::size_t stage = 0; stage < o.blocks.size(); ++stage)
    for (int i = 0; i < o.blocks[stage]; ++i) {
      const std::string block = fmt::format("layer{}.{}.", stage + 1, i);
      const i64 stride = stage > 0 && i == 0 ? 2 : 1;
      const auto conv = [&](const std::string& in, int number, i64 step, i64 padding) {
        return nodes.conv_norm(in, fmt::format("{}conv{}", block, number),
                               fmt::format("{}bn{}", block, number), step, padding);
      };
      const std::string y = o.bottleneck
                                ? conv(relu(conv(relu(conv(x, 1, 1, 0)), 2, stride, 1)), 3, 1, 0)
                                : conv(relu(conv(x, 1, stride, 1)), 2, 1, 1);
      const i64 wanted = nodes.channels_after(block + (o.bottleneck ? "conv3" : "conv2"));
      if (nodes.has(block + "downsample.0.weight"))
        x = nodes.conv_norm(x, block + "downsample.0", block + "downsample.1", stride, 0);
      else if (stride != 1 || wanted != channels)
        x = nodes.subsample_pad(x, block + "shortcut", stride, channels, wanted);
      x = relu(nodes.add("Add", block + "sum", {y, x}));
      channels = wanted;
    }
  x = nodes.add("Flatten", "features", {nodes.add("GlobalAveragePool", "avgpool", {x})});
  nodes.add("Gemm", "logits", {x, nodes.of_state("fc.weight"), nodes.of_state("fc.bias")});
  nodes.attribute("transB", i64{1});
}

void describe(onnx::ValueInfoProto& value, const char* name, int type,
              std::initializer_list<i64> after_n) {
  value.set_name(name);
  auto& tensor = *value.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape()->add_dim()->set_dim_param("N");
  for (const i64 d : after_n) tensor.mutable_shape()->add_dim()->set_dim_value(d);
}

}  // namespace

bool writes_onnx() { return true; }

void write_onnx(const std::filesystem::path& path, const LoadedModel& m, const OnnxOptions& how) {
  const std::vector<NamedTensor> state = nn::in_file_layout(m.net->state());
  const auto resnet = models::resnet_of(state);
  check<ConfigError>(
      resnet.has_value(), m.name,
      ": only ResNets can be written as ONNX; --to safetensors and --to torch take every model");
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("gossamer");
  model.set_producer_version(version());
  model.add_opset_import()->set_version(kOpset);
  for (const auto& [key, text] : model_metadata(m.name, m.pictures, m.classes)) {
    auto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(text);
  }
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name(m.name);
  const bool bytes = how.input == OnnxInput::bytes;
  describe(*graph.add_input(), "images",
           bytes ? onnx::TensorProto::UINT8 : onnx::TensorProto::FLOAT,
           {3, m.pictures.size, m.pictures.size});
  graph.mutable_input(0)->set_doc_string(
      bytes                          ? "RGB, 0 to 255"
      : how.input == OnnxInput::unit ? "RGB, 0 to 1"
                                     : "RGB, 0 to 1, minus mean, divided by std (see metadata)");
  describe(*graph.add_output(), "logits", onnx::TensorProto::FLOAT,
           {static_cast<i64>(m.classes.size())});

  Nodes nodes(graph, state, how.keep_batch_norm);
  std::string x = "images";
  if (bytes) {
    x = nodes.add("Cast", "floats", {x});
    nodes.attribute("to", i64{onnx::TensorProto::FLOAT});
  }
  if (how.input != OnnxInput::normalized) {
    std::vector<float> scale, shift;
    for (std::size_t c = 0; c < 3; ++c) {
      const double std = m.pictures.std[c];
      scale.push_back(static_cast<float>(1 / (bytes ? 255 * std : std)));
      shift.push_back(static_cast<float>(-m.pictures.mean[c] / std));
    }
    x = nodes.per_channel(x, "normalized", scale, shift);
  }
  add_resnet(nodes, *resnet, x);
  std::string file;
  check<IoError>(model.SerializeToString(&file), path.string(), ": ", m.name,
                 " is larger than the 2 GB of an ONNX file");
  write_file(path, file);
}

}  // namespace gossamer::apps

#endif
