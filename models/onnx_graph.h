// What all ONNX files that we write are made of: nodes, constants and the messages around them.
// The messages are those of onnx/onnx.proto; the number of each field stands where it is written.
// libprotobuf is not used: a process ends when two of its libraries register ONNX's messages
// there, and one that loads libgossamer.so may have another such library.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "gossamer/core/tensor.h"

namespace gossamer::models {

enum class OnnxType : i64 { f32 = 1, u8 = 2, int64 = 7 };  // TensorProto.DataType

// A NodeProto. A node is called as its first output.
class OnnxNode {
 public:
  OnnxNode(std::string_view type, const std::vector<std::string>& outputs,
           const std::vector<std::string>& inputs);
  OnnxNode& attribute(std::string_view name, std::initializer_list<i64> values);
  OnnxNode& attribute(std::string_view name, i64 value);
  OnnxNode& attribute(std::string_view name, float value);
  const std::string& bytes() const { return bytes_; }

 private:
  OnnxNode& add(std::string_view name, const std::string& value, i64 type);
  std::string bytes_;
};

// An input or output. Extents are numbers, or names of what a caller chooses.
struct OnnxValue {
  std::string name;
  OnnxType type = OnnxType::f32;
  std::vector<std::variant<i64, std::string>> shape;
  std::string meaning;  // for people
};

// The nodes and constants of a GraphProto.
class OnnxGraph {
 public:
  void add(const OnnxNode& node);
  // These return the name of what they add. A constant that is there already is not added again.
  std::string add(std::string_view type, const std::string& name,
                  std::initializer_list<std::string> inputs);
  std::string constant(const std::string& name, const Shape&, std::span<const float> values);
  std::string constant(const std::string& name, const Shape&, std::span<const i64> values);
  std::string constant(const std::string& name, const Tensor&);  // f32, on the host

  // The bytes of a ModelProto. model: its name. IoError: there are more than a file can have.
  std::string file(const std::string& model, i64 opset, const OnnxValue& input,
                   const OnnxValue& output,
                   const std::map<std::string, std::string>& metadata) const;

 private:
  std::string constant(const std::string& name, const Shape&, OnnxType, std::string_view bytes);
  std::string nodes_, constants_;
  std::set<std::string> names_;  // of constants
};

}  // namespace gossamer::models
