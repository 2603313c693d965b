// A GGUF file of version 3, read back in tests: keys that are numbers, texts and lists of texts or
// numbers, and tensors as floats.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::testing {

class GgufFile {
 public:
  struct Tensor {
    std::vector<i64> shape;  // slowest first
    std::uint32_t type = 0;
    std::vector<float> values;
  };
  explicit GgufFile(std::string bytes) : bytes_(std::move(bytes)) {
    if (bytes_.substr(0, 4) != "GGUF") throw std::runtime_error("no GGUF");
    at_ = 4;
    version = number<std::uint32_t>();
    const auto tensors_count = number<std::uint64_t>(), keys = number<std::uint64_t>();
    for (std::uint64_t i = 0; i < keys; ++i) {
      const std::string key = text();
      value(key, number<std::uint32_t>());
    }
    struct Info {
      std::string name;
      Tensor tensor;
      std::uint64_t offset;
    };
    std::vector<Info> infos;
    for (std::uint64_t i = 0; i < tensors_count; ++i) {
      Info info{text(), {}, 0};
      const auto rank = number<std::uint32_t>();
      for (std::uint32_t d = 0; d < rank; ++d)
        info.tensor.shape.insert(info.tensor.shape.begin(),
                                 static_cast<i64>(number<std::uint64_t>()));
      info.tensor.type = number<std::uint32_t>();
      info.offset = number<std::uint64_t>();
      if (info.offset % 32 != 0) throw std::runtime_error(info.name + " is not aligned");
      infos.push_back(std::move(info));
    }
    const std::size_t begin = (at_ + 31) / 32 * 32;
    for (Info& info : infos) {
      at_ = begin + info.offset;
      read(info.tensor);
      tensors[info.name] = std::move(info.tensor);
    }
    if ((at_ + 31) / 32 * 32 != bytes_.size()) throw std::runtime_error("bytes are left over");
  }

  std::uint32_t version = 0;
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> texts;
  std::map<std::string, std::vector<std::string>> lists;
  std::map<std::string, std::vector<double>> number_lists;
  std::map<std::string, Tensor> tensors;

 private:
  template <class T>
  T number() {
    T out{};
    if (at_ + sizeof out > bytes_.size()) throw std::runtime_error("the file is cut short");
    std::memcpy(&out, bytes_.data() + at_, sizeof out);
    at_ += sizeof out;
    return out;
  }
  std::string text() {
    const auto size = number<std::uint64_t>();
    std::string out = bytes_.substr(at_, size);
    if (out.size() != size) throw std::runtime_error("the file is cut short");
    at_ += size;
    return out;
  }
  double scalar(std::uint32_t type) {
    switch (type) {
      case 4:
        return number<std::uint32_t>();
      case 5:
        return number<std::int32_t>();
      case 6:
        return static_cast<double>(number<float>());
      case 7:
        return number<std::uint8_t>();
      default:
        throw std::runtime_error("a value of type " + std::to_string(type));
    }
  }
  void value(const std::string& key, std::uint32_t type) {
    if (type == 8) {
      texts[key] = text();
    } else if (type == 9) {
      const auto inner = number<std::uint32_t>();
      for (auto left = number<std::uint64_t>(); left > 0; --left)
        if (inner == 8)
          lists[key].push_back(text());
        else
          number_lists[key].push_back(scalar(inner));
    } else {
      numbers[key] = scalar(type);
    }
  }
  template <class T>
  float rounded() {
    T value;
    value.bits = number<std::uint16_t>();
    return static_cast<float>(value);
  }
  void read(Tensor& t) {
    i64 count = 1;
    for (const i64 extent : t.shape) count *= extent;
    float scale = 0;
    for (i64 i = 0; i < count; ++i) {
      if (t.type == 8 && i % 32 == 0) scale = rounded<f16>();
      t.values.push_back(t.type == 0    ? number<float>()
                         : t.type == 1  ? rounded<f16>()
                         : t.type == 30 ? rounded<bf16>()
                                        : scale * static_cast<float>(number<std::int8_t>()));
    }
  }

  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace gossamer::testing
