// The names of a million samples in one text: no allocation for each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::data {

class Names {
 public:
  void add(std::string_view name) {
    text_ += name;
    end_.push_back(text_.size());
  }
  i64 size() const { return static_cast<i64>(end_.size()); }
  std::string at(i64 i) const {
    const auto k = static_cast<std::size_t>(i);
    const std::size_t begin = k ? end_[k - 1] : 0;
    return text_.substr(begin, end_[k] - begin);
  }
  std::size_t bytes() const { return text_.capacity() + end_.capacity() * sizeof end_[0]; }
  void shrink_to_fit() {
    text_.shrink_to_fit();
    end_.shrink_to_fit();
  }

 private:
  std::string text_;
  std::vector<std::uint64_t> end_;  // of each name in text_
};

}  // namespace gossamer::data
