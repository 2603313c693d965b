// Reads an ONNX file and computes its graph by plain loops: what onnxruntime would give, where
// there is none. Only the operators that models/onnx.cpp writes.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/core/dtype.h"

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
  struct Value {
    std::vector<i64> shape;
    std::vector<float> numbers;  // of any type
    i64 extent(std::size_t d) const { return shape.at(d); }
  };
  struct Node {
    std::string type;
    std::vector<std::string> inputs, outputs;
    std::map<std::string, std::vector<double>> attributes;
    i64 whole(const char* name, std::size_t i) const {
      return static_cast<i64>(attributes.at(name).at(i));
    }
  };
  std::map<std::string, std::string> metadata;
  std::vector<Node> nodes;
  std::map<std::string, Value> constants;
  i64 opset = 0, input_type = 0;
  std::vector<i64> input_shape, output_shape;  // behind N

  explicit OnnxGraph(const std::string& file) {
    const ProtoMessage model(file);
    opset = static_cast<i64>(ProtoMessage(model.one(8).bytes).one(2).value);
    for (const ProtoField& f : model.all(14)) {
      const ProtoMessage entry(f.bytes);
      metadata[entry.text(1)] = entry.text(2);
    }
    const ProtoMessage graph(model.one(7).bytes);
    for (const ProtoField& f : graph.all(1)) nodes.push_back(node_of(ProtoMessage(f.bytes)));
    for (const ProtoField& f : graph.all(5)) {
      const ProtoMessage tensor(f.bytes);
      if (!constants.emplace(tensor.text(8), value_of(tensor)).second)
        throw std::runtime_error("two constants are called " + tensor.text(8));
    }
    describe(ProtoMessage(graph.one(11).bytes), "images", input_type, input_shape);
    i64 output_type = 0;
    describe(ProtoMessage(graph.one(12).bytes), "logits", output_type, output_shape);
    if (output_type != 1) throw std::runtime_error("logits are no floats");
  }

  bool has(const std::string& type) const {
    return std::ranges::find(nodes, type, &Node::type) != nodes.end();
  }

  Value operator()(Value images) const {
    std::map<std::string, Value> values = constants;
    values["images"] = std::move(images);
    for (const Node& node : nodes) {
      std::vector<const Value*> in;
      for (const std::string& name : node.inputs) in.push_back(&values.at(name));
      Value out = compute(node, in);
      if (!values.emplace(node.outputs.at(0), std::move(out)).second)
        throw std::runtime_error(node.outputs[0] + " is computed twice");
    }
    return values.at("logits");
  }

 private:
  static Node node_of(const ProtoMessage& m) {
    Node node;
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
        list.push_back(static_cast<double>(number));
      }
      const std::size_t which = attribute.one(20).value;  // AttributeProto.AttributeType
      const bool fits = which == 7   ? attribute.all(8).size() == list.size()
                        : which == 2 ? attribute.all(3).size() == 1
                                     : which == 1 && attribute.all(2).size() == 1;
      if (!fits) throw std::runtime_error(attribute.text(1) + " is of another type than it says");
    }
    return node;
  }
  static Value value_of(const ProtoMessage& m) {
    Value v;
    std::size_t count = 1;
    for (const ProtoField& f : m.all(1)) {
      v.shape.push_back(static_cast<i64>(f.value));
      count *= f.value;
    }
    const std::string_view raw = m.one(9).bytes;
    const std::uint64_t type = m.one(2).value;  // TensorProto.DataType: FLOAT, INT64
    if ((type != 1 && type != 7) || raw.size() != count * (type == 1 ? 4 : 8))
      throw std::runtime_error(m.text(8) + " has not the bytes of its shape");
    for (std::size_t i = 0; i < count; ++i) {
      float number = 0;
      i64 whole = 0;
      if (type == 1)
        std::memcpy(&number, raw.data() + 4 * i, 4);
      else
        std::memcpy(&whole, raw.data() + 8 * i, 8), number = static_cast<float>(whole);
      v.numbers.push_back(number);
    }
    return v;
  }
  static void describe(const ProtoMessage& m, const char* name, i64& type,
                       std::vector<i64>& shape) {
    if (m.text(1) != name) throw std::runtime_error(m.text(1) + " is not called " + name);
    const ProtoMessage tensor(ProtoMessage(m.one(2).bytes).one(1).bytes);
    type = static_cast<i64>(tensor.one(1).value);
    const auto dims = ProtoMessage(tensor.one(2).bytes).all(1);
    if (ProtoMessage(dims.at(0).bytes).text(2) != "N")
      throw std::runtime_error("the first extent is not N");
    for (std::size_t i = 1; i < dims.size(); ++i)
      shape.push_back(static_cast<i64>(ProtoMessage(dims[i].bytes).one(1).value));
  }

  // f(out, in) for each place of a window: out and in are indices of numbers in planes.
  template <class F>
  static void windows(const Node& node, i64 height, i64 width, i64& out_height, i64& out_width,
                      F&& f) {
    const i64 kh = node.whole("kernel_shape", 0), kw = node.whole("kernel_shape", 1),
              stride = node.whole("strides", 0), pad = node.whole("pads", 0);
    out_height = (height + 2 * pad - kh) / stride + 1;
    out_width = (width + 2 * pad - kw) / stride + 1;
    for (i64 y = 0; y < out_height; ++y)
      for (i64 x = 0; x < out_width; ++x)
        for (i64 i = 0; i < kh; ++i)
          for (i64 j = 0; j < kw; ++j) {
            const i64 from_y = y * stride + i - pad, from_x = x * stride + j - pad;
            if (from_y >= 0 && from_y < height && from_x >= 0 && from_x < width)
              f(y * out_width + x, from_y * width + from_x, i * kw + j);
          }
  }

  static Value conv(const Node& node, const Value& x, const Value& weight, const Value* bias) {
    const i64 n = x.extent(0), c = x.extent(1), height = x.extent(2), width = x.extent(3),
              k = weight.extent(0), area = weight.extent(2) * weight.extent(3);
    i64 h = 0, w = 0;
    windows(node, height, width, h, w, [](i64, i64, i64) {});
    Value y{{n, k, h, w}, std::vector<float>(static_cast<std::size_t>(n * k * h * w))};
    for (i64 image = 0; image < n; ++image)
      for (i64 to = 0; to < k; ++to) {
        std::vector<double> sum(static_cast<std::size_t>(h * w),
                                bias ? static_cast<double>(bias->numbers.at(to)) : 0.0);
        for (i64 from = 0; from < c; ++from)
          windows(node, height, width, h, w, [&](i64 out, i64 in, i64 at) {
            sum[out] += static_cast<double>(x.numbers[(image * c + from) * height * width + in]) *
                        static_cast<double>(weight.numbers.at((to * c + from) * area + at));
          });
        for (i64 i = 0; i < h * w; ++i)
          y.numbers[(image * k + to) * h * w + i] = static_cast<float>(sum[i]);
      }
    return y;
  }
  static Value max_pool(const Node& node, const Value& x) {
    const i64 planes = x.extent(0) * x.extent(1), height = x.extent(2), width = x.extent(3);
    i64 h = 0, w = 0;
    windows(node, height, width, h, w, [](i64, i64, i64) {});
    Value y{{x.extent(0), x.extent(1), h, w},
            std::vector<float>(static_cast<std::size_t>(planes * h * w),
                               -std::numeric_limits<float>::infinity())};
    for (i64 plane = 0; plane < planes; ++plane)
      windows(node, height, width, h, w, [&](i64 out, i64 in, i64) {
        float& most = y.numbers[plane * h * w + out];
        most = std::max(most, x.numbers[plane * height * width + in]);
      });
    return y;
  }
  // f(number, channel) for each number of [N, C, …].
  template <class F>
  static Value by_channel(Value x, F&& f) {
    const i64 c = x.extent(1);
    const auto all = static_cast<i64>(x.numbers.size()), area = all / (x.extent(0) * c);
    for (i64 i = 0; i < all; ++i) x.numbers[i] = f(x.numbers[i], i / area % c);
    return x;
  }
  template <class F>
  static Value both(const Value& a, const Value& b, F&& f) {
    if (a.shape != b.shape) {
      if (b.shape != std::vector<i64>{1, a.extent(1), 1, 1})
        throw std::runtime_error("shapes of a sum or product differ");
      return by_channel(a, [&](float v, i64 channel) { return f(v, b.numbers.at(channel)); });
    }
    Value y = a;
    for (std::size_t i = 0; i < y.numbers.size(); ++i) y.numbers[i] = f(y.numbers[i], b.numbers[i]);
    return y;
  }
  // The numbers of `shape`, of which at(indices) gives each.
  template <class F>
  static Value gathered(const std::vector<i64>& s, F&& at) {
    Value y{s, {}};
    for (i64 n = 0; n < s.at(0); ++n)
      for (i64 c = 0; c < s.at(1); ++c)
        for (i64 h = 0; h < s.at(2); ++h)
          for (i64 w = 0; w < s.at(3); ++w) y.numbers.push_back(at(n, c, h, w));
    return y;
  }
  static Value gemm(const Node& node, const Value& x, const Value& weight, const Value& bias) {
    if (node.whole("transB", 0) != 1) throw std::runtime_error("transB is not 1");
    const i64 n = x.extent(0), in = x.extent(1), out = weight.extent(0);
    Value y{{n, out}, {}};
    for (i64 i = 0; i < n; ++i)
      for (i64 o = 0; o < out; ++o) {
        auto sum = static_cast<double>(bias.numbers.at(o));
        for (i64 k = 0; k < in; ++k)
          sum += static_cast<double>(x.numbers[i * in + k]) *
                 static_cast<double>(weight.numbers.at(o * in + k));
        y.numbers.push_back(static_cast<float>(sum));
      }
    return y;
  }

  static Value compute(const Node& node, const std::vector<const Value*>& in) {
    const Value& x = *in.at(0);
    if (node.type == "Conv") return conv(node, x, *in.at(1), in.size() > 2 ? in[2] : nullptr);
    if (node.type == "MaxPool") return max_pool(node, x);
    if (node.type == "Gemm") return gemm(node, x, *in.at(1), *in.at(2));
    if (node.type == "Cast") return x;
    if (node.type == "Relu") return by_channel(x, [](float v, i64) { return std::max(v, 0.0f); });
    if (node.type == "Add") return both(x, *in.at(1), [](float a, float b) { return a + b; });
    if (node.type == "Mul") return both(x, *in.at(1), [](float a, float b) { return a * b; });
    if (node.type == "BatchNormalization") {
      const double epsilon = node.attributes.at("epsilon").at(0);
      return by_channel(x, [&](float v, i64 c) {
        const auto of = [&](std::size_t i) { return static_cast<double>(in.at(i)->numbers.at(c)); };
        return static_cast<float>(
            (static_cast<double>(v) - of(3)) / std::sqrt(of(4) + epsilon) * of(1) + of(2));
      });
    }
    if (node.type == "GlobalAveragePool" || node.type == "Flatten") {
      const i64 n = x.extent(0), c = x.extent(1);
      const i64 area = static_cast<i64>(x.numbers.size()) / (n * c);
      if (node.type == "Flatten") return {{n, c * area}, x.numbers};
      return gathered({n, c, 1, 1}, [&](i64 i, i64 channel, i64, i64) {
        double sum = 0;
        for (i64 k = 0; k < area; ++k)
          sum += static_cast<double>(x.numbers[(i * c + channel) * area + k]);
        return static_cast<float>(sum / static_cast<double>(area));
      });
    }
    const i64 n = x.extent(0), c = x.extent(1), h = x.extent(2), w = x.extent(3);
    if (node.type == "Slice") {  // [:, :, ::step, ::step]
      const auto step = static_cast<i64>(in.at(4)->numbers.at(0));
      if (in.at(3)->numbers != std::vector<float>{2, 3} ||
          in.at(1)->numbers != std::vector<float>{0, 0})
        throw std::runtime_error("a slice of other axes");
      return gathered({n, c, (h + step - 1) / step, (w + step - 1) / step},
                      [&](i64 i, i64 k, i64 y, i64 z) {
                        return x.numbers[((i * c + k) * h + y * step) * w + z * step];
                      });
    }
    if (node.type == "Pad") {  // of channels
      const auto& pads = in.at(1)->numbers;
      const auto before = static_cast<i64>(pads.at(1)), behind = static_cast<i64>(pads.at(5));
      return gathered({n, c + before + behind, h, w}, [&](i64 i, i64 k, i64 y, i64 z) {
        const bool inside = k >= before && k < before + c;
        return inside ? x.numbers[((i * c + k - before) * h + y) * w + z] : 0.0f;
      });
    }
    throw std::runtime_error("no operator " + node.type + " is known");
  }
};

}  // namespace gossamer::testing
