// See onnx_graph.h.
#include "gossamer/models/onnx_graph.h"

#include <limits>

#include "gossamer/core/error.h"
#include "gossamer/core/io/protobuf.h"

namespace gossamer::models {
namespace {

using protobuf::field;

constexpr i64 kIrVersion = 8;  // of ONNX 1.8 (2020) and newer
constexpr std::size_t kMostBytes = std::numeric_limits<std::int32_t>::max();
enum AttributeType : i64 { kOneFloat = 1, kOneInt = 2, kInts = 7 };  // AttributeProto's

template <class T>
std::string_view bytes_of(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

// A ValueInfoProto.
std::string value_info(const OnnxValue& v) {
  std::string shape;
  for (const auto& extent : v.shape)
    shape += field(1, std::holds_alternative<i64>(extent)
                          ? field(1, std::get<i64>(extent))
                          : field(2, std::string_view(std::get<std::string>(extent))));
  std::string out =
      field(1, v.name) + field(2, field(1, field(1, static_cast<i64>(v.type)) + field(2, shape)));
  if (!v.meaning.empty()) out += field(3, v.meaning);
  return out;
}

}  // namespace

OnnxNode::OnnxNode(std::string_view type, const std::vector<std::string>& outputs,
                   const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs) bytes_ += field(1, input);
  for (const std::string& output : outputs) bytes_ += field(2, output);
  bytes_ += field(3, outputs.at(0)) + field(4, type);
}
OnnxNode& OnnxNode::attribute(std::string_view name, std::initializer_list<i64> values) {
  std::string list;
  for (const i64 v : values) list += field(8, v);
  return add(name, list, kInts);
}
OnnxNode& OnnxNode::attribute(std::string_view name, i64 value) {
  return add(name, field(3, value), kOneInt);
}
OnnxNode& OnnxNode::attribute(std::string_view name, float value) {
  return add(name, field(2, value), kOneFloat);
}
OnnxNode& OnnxNode::add(std::string_view name, const std::string& value, i64 type) {
  bytes_ += field(5, field(1, name) + value + field(20, type));
  return *this;
}

void OnnxGraph::add(const OnnxNode& node) { nodes_ += field(1, node.bytes()); }
std::string OnnxGraph::add(std::string_view type, const std::string& name,
                           std::initializer_list<std::string> inputs) {
  add(OnnxNode(type, {name}, inputs));
  return name;
}

std::string OnnxGraph::constant(const std::string& name, const Shape& shape,
                                std::span<const float> values) {
  return constant(name, shape, OnnxType::f32, bytes_of(values));
}
std::string OnnxGraph::constant(const std::string& name, const Shape& shape,
                                std::span<const i64> values) {
  return constant(name, shape, OnnxType::int64, bytes_of(values));
}
std::string OnnxGraph::constant(const std::string& name, const Tensor& t) {
  return constant(name, t.shape(), std::span<const float>(t.span<float>()));
}
std::string OnnxGraph::constant(const std::string& name, const Shape& shape, OnnxType type,
                                std::string_view bytes) {
  if (!names_.insert(name).second) return name;
  std::string tensor;
  for (const i64 extent : shape) tensor += field(1, extent);
  tensor += field(2, static_cast<i64>(type)) + field(8, name) + field(9, bytes);
  constants_ += field(5, tensor);
  return name;
}

std::string OnnxGraph::file(const std::string& model, i64 opset, const OnnxValue& input,
                            const OnnxValue& output,
                            const std::map<std::string, std::string>& metadata) const {
  check<IoError>(nodes_.size() + constants_.size() <= kMostBytes, model, ": its weights are ",
                 constants_.size(),
                 " bytes, and an ONNX file has at most 2 GB; a safetensors file takes them");
  std::string out = field(1, kIrVersion) + field(2, std::string_view("gossamer")) +
                    field(3, std::string_view(GOSSAMER_VERSION)) +
                    field(7, nodes_ + field(2, model) + constants_ + field(11, value_info(input)) +
                                 field(12, value_info(output))) +
                    field(8, field(2, opset));
  for (const auto& [name, text] : metadata) out += field(14, field(1, name) + field(2, text));
  return out;
}

}  // namespace gossamer::models
