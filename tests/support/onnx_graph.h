// Reads an ONNX file and computes its graph by the plain loops of onnx_operators.h: what
// onnxruntime would give, where there is none.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gossamer/core/dtype.h"
#include "support/onnx_operators.h"

namespace gossamer::testing {

// A field of a message of protocol buffers: a number, or bytes.
struct ProtoField {
  int number = 0;
  std::uint64_t value = 0;  // also the bits of a float
  std::string_view bytes{};
};

class ProtoMessage {
 public:
  explicit ProtoMessage(std::string_view message) {
    while (!message.empty()) {
      const std::uint64_t key = varint(message);
      ProtoField f{.number = static_cast<int>(key >> 3)};
      switch (key & 7) {
        case 0:
          f.value = varint(message);
          break;
        case 2:
          f.bytes = take(message, varint(message));
          break;
        case 5:
          std::memcpy(&f.value, take(message, 4).data(), 4);
          break;
        default:
          throw std::runtime_error("ONNX has no field of wire type " + std::to_string(key & 7));
      }
      fields_.push_back(f);
    }
  }
  std::vector<ProtoField> all(int number) const {
    std::vector<ProtoField> out;
    for (const ProtoField& f : fields_)
      if (f.number == number) out.push_back(f);
    return out;
  }
  ProtoField one(int number) const {
    const std::vector<ProtoField> found = all(number);
    if (found.size() != 1)
      throw std::runtime_error("a message has field " + std::to_string(number) + " " +
                               std::to_string(found.size()) + " times");
    return found.front();
  }
  std::string text(int number) const { return std::string(one(number).bytes); }

 private:
  static std::string_view take(std::string_view& message, std::uint64_t n) {
    if (n > message.size()) throw std::runtime_error("a message ends too early");
    const std::string_view taken = message.substr(0, n);
    message.remove_prefix(n);
    return taken;
  }
  static std::uint64_t varint(std::string_view& message) {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(message, 1)[0]);
      value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
  }
  std::vector<ProtoField> fields_;
};

class OnnxGraph {
 public:
  using Value = onnx::Value;
  // What goes in or comes out.
  struct Port {
    std::string name;
    i64 type = 0;
    std::vector<std::string> shape;  // extents: numbers, or names of those that a caller chooses
  };
  std::string name;
  std::map<std::string, std::string> metadata;
  std::vector<onnx::Node> nodes;
  std::map<std::string, Value> constants;
  i64 opset = 0;
  Port input, output;

  explicit OnnxGraph(const std::string& file) {
    const ProtoMessage model(file);
    opset = static_cast<i64>(ProtoMessage(model.one(8).bytes).one(2).value);
    for (const ProtoField& f : model.all(14)) {
      const ProtoMessage entry(f.bytes);
      metadata[entry.text(1)] = entry.text(2);
    }
    const ProtoMessage graph(model.one(7).bytes);
    name = graph.text(2);
    for (const ProtoField& f : graph.all(1)) nodes.push_back(node_of(ProtoMessage(f.bytes)));
    for (const ProtoField& f : graph.all(5)) {
      const ProtoMessage tensor(f.bytes);
      onnx::require(constants.emplace(tensor.text(8), value_of(tensor)).second,
                    "two constants are called " + tensor.text(8));
    }
    input = port_of(ProtoMessage(graph.one(11).bytes));
    output = port_of(ProtoMessage(graph.one(12).bytes));
  }

  bool has(const std::string& type) const {
    return std::ranges::find(nodes, type, &onnx::Node::type) != nodes.end();
  }

  // given: numbers of the type that the input has.
  Value operator()(Value given) const {
    given.type = input.type;
    std::map<std::string, i64> extents;
    require_fits(input, given, extents);
    std::map<std::string, Value> values = constants;
    const auto add = [&](const std::string& called, Value value) {
      onnx::require(values.emplace(called, std::move(value)).second, called + " is there twice");
    };
    add(input.name, std::move(given));
    for (const onnx::Node& node : nodes) {
      onnx::Inputs in;
      for (const std::string& wanted : node.inputs) {
        const auto found = values.find(wanted);
        onnx::require(found != values.end(), node.type + " comes before its input " + wanted);
        in.push_back(&found->second);
      }
      std::vector<Value> out = onnx::compute(node, in);
      for (std::size_t i = 0; i < out.size(); ++i) add(node.outputs[i], std::move(out[i]));
    }
    require_fits(output, values.at(output.name), extents);
    return values.at(output.name);
  }

 private:
  static onnx::Node node_of(const ProtoMessage& m) {
    onnx::Node node;
    node.type = m.text(4);
    for (const ProtoField& f : m.all(1)) node.inputs.emplace_back(f.bytes);
    for (const ProtoField& f : m.all(2)) node.outputs.emplace_back(f.bytes);
    for (const ProtoField& f : m.all(5)) {
      const ProtoMessage attribute(f.bytes);
      std::vector<double>& list = node.attributes[attribute.text(1)];
      for (const ProtoField& v : attribute.all(8))
        list.push_back(static_cast<double>(static_cast<i64>(v.value)));
      for (const ProtoField& v : attribute.all(3))
        list.push_back(static_cast<double>(static_cast<i64>(v.value)));
      for (const ProtoField& v : attribute.all(2)) {
        float number = 0;
        std::memcpy(&number, &v.value, sizeof number);
        list.push_back(number);
      }
      const std::size_t which = attribute.one(20).value;  // AttributeProto.AttributeType
      const bool fits = which == 7   ? attribute.all(8).size() == list.size()
                        : which == 2 ? attribute.all(3).size() == 1
                                     : which == 1 && attribute.all(2).size() == 1;
      onnx::require(fits, attribute.text(1) + " is of another type than it says");
    }
    return node;
  }
  static Value value_of(const ProtoMessage& m) {
    Value v;
    for (const ProtoField& f : m.all(1)) v.shape.push_back(static_cast<i64>(f.value));
    v.type = static_cast<i64>(m.one(2).value);
    const std::string_view raw = m.one(9).bytes;
    const auto count = static_cast<std::size_t>(onnx::count(v.shape));
    onnx::require((v.type == onnx::kFloat || v.type == onnx::kInt64) &&
                      raw.size() == count * (v.type == onnx::kFloat ? 4 : 8),
                  m.text(8) + " has not the bytes of its shape");
    for (std::size_t i = 0; i < count; ++i)
      v.numbers.push_back(v.type == onnx::kFloat ? static_cast<double>(number_at<float>(raw, i))
                                                 : static_cast<double>(number_at<i64>(raw, i)));
    return v;
  }
  template <class T>
  static T number_at(std::string_view raw, std::size_t i) {
    T number;
    std::memcpy(&number, raw.data() + sizeof(T) * i, sizeof(T));
    return number;
  }
  static Port port_of(const ProtoMessage& m) {
    const ProtoMessage tensor(ProtoMessage(m.one(2).bytes).one(1).bytes);
    Port port{m.text(1), static_cast<i64>(tensor.one(1).value), {}};
    for (const ProtoField& f : ProtoMessage(tensor.one(2).bytes).all(1)) {
      const ProtoMessage extent(f.bytes);
      port.shape.push_back(extent.all(2).empty() ? std::to_string(extent.one(1).value)
                                                 : extent.text(2));
    }
    return port;
  }
  // extents: those that names have so far.
  static void require_fits(const Port& port, const Value& v, std::map<std::string, i64>& extents) {
    bool fits = v.type == port.type && v.shape.size() == port.shape.size();
    for (std::size_t d = 0; fits && d < v.shape.size(); ++d) {
      const std::string& said = port.shape[d];
      const bool named = said.find_first_not_of("0123456789") != std::string::npos;
      fits = v.shape[d] ==
             (named ? extents.emplace(said, v.shape[d]).first->second : std::stoll(said));
    }
    onnx::require(fits, port.name + " has not the type and shape that the file says");
  }
};

}  // namespace gossamer::testing
