// The text of a network (described.h), layer by layer.
// Threads: any.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gossamer/core/setting.h"

namespace gossamer::nn {

// Layers of several kinds have a setting of one name, each with a meaning of its own.
inline Setting of_layer(std::string name, Range range = {}) {
  return {.name = std::move(name), .range = std::move(range)};
}
inline Range layer_widths() { return Range::from_to(1, 1 << 24); }
inline Range window_sizes() { return Range::from_to(1, 1 << 10); }
inline Range window_paddings() { return Range::from_to(0, 1 << 10); }
inline Range dropped_shares() { return Range::from_below(0, 1); }

// What may be said of the layers of each kind. Sizes without a default have to be said.
struct LinearText {
  i64 in = 0, out = 0;
  bool bias = true;
  static void visit(auto& self, auto&& f) {
    f(self.in, of_layer("in", layer_widths()));
    f(self.out, of_layer("out", layer_widths()));
    f(self.bias, of_layer("bias"));
  }
};
struct ConvText {
  i64 in = 0, out = 0, kernel = 3, stride = 1, padding = 0, dilation = 1, groups = 1;
  bool bias = false;
  static void visit(auto& self, auto&& f) {
    f(self.in, of_layer("in", layer_widths()));
    f(self.out, of_layer("out", layer_widths()));
    f(self.kernel, of_layer("kernel", window_sizes()));
    f(self.stride, of_layer("stride", window_sizes()));
    f(self.padding, of_layer("padding", window_paddings()));
    f(self.dilation, of_layer("dilation", window_sizes()));
    f(self.groups, of_layer("groups", layer_widths()));
    f(self.bias, of_layer("bias"));
  }
};
struct BatchNormText {
  i64 width = 0;
  double eps = 1e-5, momentum = 0.1;
  static void visit(auto& self, auto&& f) {
    f(self.width, of_layer("width", layer_widths()));
    f(self.eps, of_layer("eps", Range::above_zero_to(1)));
    f(self.momentum, of_layer("momentum", Range::from_to(0, 1)));
  }
};
struct LayerNormText {
  i64 width = 0;
  double eps = 1e-5;
  bool bias = true;
  static void visit(auto& self, auto&& f) {
    f(self.width, of_layer("width", layer_widths()));
    f(self.eps, of_layer("eps", Range::above_zero_to(1)));
    f(self.bias, of_layer("bias"));
  }
};
struct EmbeddingText {
  i64 rows = 0, width = 0;
  double deviation = 1;  // of the first values
  static void visit(auto& self, auto&& f) {
    f(self.rows, of_layer("rows", layer_widths()));
    f(self.width, of_layer("width", layer_widths()));
    f(self.deviation, of_layer("deviation", Range::from_to(0, 1000)));
  }
};
// Adds a learned row to each token of [batch, tokens, width], of which there are at most `length`.
struct PositionsText {
  i64 length = 0, width = 0;
  double deviation = 0.02;
  static void visit(auto& self, auto&& f) {
    f(self.length, of_layer("length", layer_widths()));
    f(self.width, of_layer("width", layer_widths()));
    f(self.deviation, of_layer("deviation", Range::from_to(0, 1000)));
  }
};
struct AttentionText {
  i64 width = 0, heads = 1;
  bool causal = false, bias = true;
  double dropout = 0;
  static void visit(auto& self, auto&& f) {
    f(self.width, of_layer("width", layer_widths()));
    f(self.heads, of_layer("heads", layer_widths()));
    f(self.causal, of_layer("causal"));
    f(self.bias, of_layer("bias"));
    f(self.dropout, of_layer("dropout", dropped_shares()));
  }
};
struct DropoutText {
  double p = 0.5;
  static void visit(auto& self, auto&& f) { f(self.p, of_layer("p", dropped_shares())); }
};
struct PoolText {
  i64 kernel = 2, stride = 2, padding = 0;
  static void visit(auto& self, auto&& f) {
    f(self.kernel, of_layer("kernel", Range::from_to(1, 15)));
    f(self.stride, of_layer("stride", window_sizes()));
    f(self.padding, of_layer("padding", window_paddings()));
  }
};
struct NothingText {
  static void visit(auto&, auto&&) {}
};

struct LayerText {
  std::string name, kind;
  Settings settings;
  std::vector<std::vector<LayerText>> groups;
  int line = 1;               // for errors
  std::string where() const;  // "line 3, conv"
  template <class Text>
  Text as() const {
    return settings.as<Text>(where());
  }
};

// ConfigError names the line, and what is wrong there: an unknown layer or setting, a value out of
// range, a brace, a name that is given twice, a text without layers.
std::vector<LayerText> parse_layers(const std::string& text);

}  // namespace gossamer::nn
