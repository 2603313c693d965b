// ONNX's operators by plain loops: those that models/onnx.cpp and models/onnx_language.cpp write,
// with the meaning that they have from opset 13 on, and LayerNormalization that of 17. What they
// do not know of an operator is an error, never left out.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::testing::onnx {

using Shape = std::vector<i64>;
using Index = std::vector<i64>;

enum Type : i64 { kFloat = 1, kByte = 2, kInt64 = 7, kBool = 9 };  // TensorProto.DataType

inline void require(bool holds, const std::string& otherwise) {
  if (!holds) throw std::runtime_error(otherwise);
}

struct Value {
  Shape shape;
  std::vector<double> numbers;  // of any type: those of floats are rounded to floats
  i64 type = kFloat;

  i64 extent(std::size_t d) const { return shape.at(d); }
  auto rank() const { return static_cast<i64>(shape.size()); }
  // The number at an index of a shape to which this value is broadcast.
  double at(const Index& index) const {
    const std::size_t ahead = index.size() - shape.size();
    i64 place = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
      place = place * shape[d] + (shape[d] == 1 ? 0 : index.at(ahead + d));
    return numbers.at(place);
  }
};

class Node {
 public:
  std::string type;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, std::vector<double>> attributes;

  // What an attribute says. One that is never asked for is not known.
  const std::vector<double>& list(const std::string& name) const {
    asked_.insert(name);
    const auto found = attributes.find(name);
    require(found != attributes.end(), type + " has no attribute " + name);
    return found->second;
  }
  i64 whole(const std::string& name, std::size_t i = 0) const {
    return static_cast<i64>(list(name).at(i));
  }
  i64 whole_or(const std::string& name, i64 otherwise) const {
    return attributes.contains(name) ? whole(name) : otherwise;
  }
  void require_all_asked() const {
    for (const auto& [name, values] : attributes)
      require(asked_.contains(name), type + ": attribute " + name + " is not known");
  }

 private:
  mutable std::set<std::string> asked_;
};

using Inputs = std::vector<const Value*>;

inline i64 count(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), i64{1}, std::multiplies<>());
}
inline double rounded(i64 type, double number) {
  return type == kFloat ? static_cast<float>(number) : number;
}
inline std::vector<i64> whole_numbers(const Value& v) {
  require(v.type == kInt64 && v.rank() == 1, "a list of whole numbers is wanted");
  return {v.numbers.begin(), v.numbers.end()};
}
// Axis (or row) `axis` of `rank`: negative ones count from the end.
inline std::size_t axis_of(i64 axis, i64 rank) {
  require(axis >= -rank && axis < rank, "no axis " + std::to_string(axis));
  return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
}

// The value of which f(index) gives each number.
template <class F>
Value made(const Shape& shape, i64 type, F&& f) {
  Value y{shape, {}, type};
  Index index(shape.size());
  for (i64 left = count(shape); left > 0; --left) {
    y.numbers.push_back(rounded(type, f(std::as_const(index))));
    for (std::size_t d = index.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
  }
  return y;
}

// --- pictures

// f(out, in, at) for each place of a window: out and in are indices of numbers in planes, at one in
// the kernel.
template <class F>
void windows(const Node& node, i64 height, i64 width, i64& out_height, i64& out_width, F&& f) {
  const i64 kh = node.whole("kernel_shape", 0), kw = node.whole("kernel_shape", 1),
            stride = node.whole("strides", 0), pad = node.whole("pads", 0);
  require(node.whole("strides", 1) == stride && node.list("pads") == std::vector<double>(4, pad),
          "windows have two strides or paddings");
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
inline Value conv(const Node& node, const Value& x, const Value& weight, const Value* bias) {
  const i64 n = x.extent(0), c = x.extent(1), height = x.extent(2), width = x.extent(3),
            k = weight.extent(0), area = weight.extent(2) * weight.extent(3);
  i64 h = 0, w = 0;
  windows(node, height, width, h, w, [](i64, i64, i64) {});
  Value y{{n, k, h, w}, {}};
  for (i64 image = 0; image < n; ++image)
    for (i64 to = 0; to < k; ++to) {
      std::vector<double> sum(static_cast<std::size_t>(h * w), bias ? bias->numbers.at(to) : 0.0);
      for (i64 from = 0; from < c; ++from)
        windows(node, height, width, h, w, [&](i64 out, i64 in, i64 at) {
          sum[out] += x.numbers[(image * c + from) * height * width + in] *
                      weight.numbers.at((to * c + from) * area + at);
        });
      for (const double v : sum) y.numbers.push_back(rounded(kFloat, v));
    }
  return y;
}
inline Value max_pool(const Node& node, const Value& x) {
  const i64 planes = x.extent(0) * x.extent(1), height = x.extent(2), width = x.extent(3);
  i64 h = 0, w = 0;
  windows(node, height, width, h, w, [](i64, i64, i64) {});
  Value y{{x.extent(0), x.extent(1), h, w},
          std::vector<double>(static_cast<std::size_t>(planes * h * w),
                              -std::numeric_limits<double>::infinity())};
  for (i64 plane = 0; plane < planes; ++plane)
    windows(node, height, width, h, w, [&](i64 out, i64 in, i64) {
      double& most = y.numbers[plane * h * w + out];
      most = std::max(most, x.numbers[plane * height * width + in]);
    });
  return y;
}
inline Value batch_norm(const Node& node, const Inputs& in) {
  const double epsilon = node.list("epsilon").at(0);
  return made(in.at(0)->shape, kFloat, [&](const Index& index) {
    const auto of = [&](std::size_t i) { return in.at(i)->numbers.at(index.at(1)); };
    return (in[0]->at(index) - of(3)) / std::sqrt(of(4) + epsilon) * of(1) + of(2);
  });
}
inline Value average_pool(const Value& x) {
  const i64 area = x.extent(2) * x.extent(3);
  return made({x.extent(0), x.extent(1), 1, 1}, kFloat, [&](const Index& index) {
    const auto first = x.numbers.begin() + (index[0] * x.extent(1) + index[1]) * area;
    return std::accumulate(first, first + area, 0.0) / static_cast<double>(area);
  });
}
// [:, :, ::step, ::step]
inline Value slice(const Inputs& in) {
  const Value& x = *in.at(0);
  const i64 step = whole_numbers(*in.at(4)).at(0);
  require(whole_numbers(*in.at(1)) == std::vector<i64>{0, 0} &&
              whole_numbers(*in.at(3)) == std::vector<i64>{2, 3} &&
              whole_numbers(*in.at(4)) == std::vector<i64>{step, step},
          "a slice of other axes");
  const auto fewer = [&](std::size_t d) { return (x.extent(d) + step - 1) / step; };
  return made({x.extent(0), x.extent(1), fewer(2), fewer(3)}, x.type, [&](const Index& i) {
    return x.at({i[0], i[1], i[2] * step, i[3] * step});
  });
}
// of channels, with zeros
inline Value pad(const Inputs& in) {
  const Value& x = *in.at(0);
  const std::vector<i64> pads = whole_numbers(*in.at(1));
  const i64 before = pads.at(1), c = x.extent(1), behind = pads.at(5);
  require(pads == std::vector<i64>{0, before, 0, 0, 0, behind, 0, 0} && in.size() == 2,
          "a padding of other axes");
  return made({x.extent(0), before + c + behind, x.extent(2), x.extent(3)}, x.type,
              [&](const Index& i) {
                const i64 from = i[1] - before;
                return from >= 0 && from < c ? x.at({i[0], from, i[2], i[3]}) : 0.0;
              });
}
inline Value gemm(const Node& node, const Value& x, const Value& weight, const Value& bias) {
  require(node.whole("transB") == 1, "transB is not 1");
  return made({x.extent(0), weight.extent(0)}, kFloat, [&](const Index& index) {
    double sum = bias.numbers.at(index[1]);
    for (i64 k = 0; k < x.extent(1); ++k) sum += x.at({index[0], k}) * weight.at({index[1], k});
    return sum;
  });
}

// --- number by number

inline Shape broadcast(const Shape& a, const Shape& b) {
  if (a.size() < b.size()) return broadcast(b, a);
  Shape out = a;
  for (std::size_t d = 0; d < b.size(); ++d) {
    i64& extent = out[a.size() - b.size() + d];
    require(extent == b[d] || extent == 1 || b[d] == 1, "shapes cannot be broadcast to one");
    if (extent == 1) extent = b[d];
  }
  return out;
}
// f(number of each value), where all are broadcast to one shape.
template <class F, class... Values>
Value each(i64 type, F&& f, const Values&... values) {
  Shape shape;
  ((shape = broadcast(shape, values.shape)), ...);
  return made(shape, type, [&](const Index& index) -> double { return f(values.at(index)...); });
}
// f of two values of one type.
template <class F>
Value both(const Inputs& in, F&& f) {
  const Value &a = *in.at(0), &b = *in.at(1);
  require(a.type == b.type && (a.type == kFloat || a.type == kInt64), "numbers differ in type");
  return each(a.type, f, a, b);
}
template <class F>
Value compared(const Inputs& in, F&& f) {
  Value y = both(in, f);
  y.type = kBool;
  return y;
}
template <class F>
Value of_float(const Value& x, F&& f) {
  require(x.type == kFloat, "floats are wanted");
  return each(kFloat, f, x);
}
inline Value cast(const Node& node, const Value& x) {
  const i64 to = node.whole("to");
  require(to == kFloat || to == kInt64, "a cast to another type");
  return each(
      to, [&](double v) { return to == kInt64 ? std::trunc(v) : v; }, x);
}
inline Value where(const Inputs& in) {
  const Value &condition = *in.at(0), &yes = *in.at(1), &no = *in.at(2);
  require(condition.type == kBool && yes.type == no.type, "Where has other types");
  return each(
      yes.type, [](double which, double a, double b) { return which != 0 ? a : b; }, condition, yes,
      no);
}

// --- rows, which lie along the last axis

// f(row) changes each.
template <class F>
Value by_rows(const Node& node, const Value& x, F&& f) {
  require(x.type == kFloat && axis_of(node.whole_or("axis", -1), x.rank()) + 1 == x.shape.size(),
          node.type + " is along another axis, or not of floats");
  Value y = x;
  const auto width = static_cast<std::size_t>(x.shape.back());
  for (std::size_t at = 0; at < y.numbers.size(); at += width)
    f(std::span(y.numbers).subspan(at, width));
  for (double& v : y.numbers) v = rounded(kFloat, v);
  return y;
}
inline double mean(std::span<const double> row) {
  return std::accumulate(row.begin(), row.end(), 0.0) / static_cast<double>(row.size());
}
inline Value softmax(const Node& node, const Value& x) {
  return by_rows(node, x, [](std::span<double> row) {
    const double most = *std::ranges::max_element(row);
    for (double& v : row) v = std::exp(v - most);
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    for (double& v : row) v /= sum;
  });
}
inline Value layer_norm(const Node& node, const Inputs& in) {
  const Value &x = *in.at(0), &scale = *in.at(1), *bias = in.size() > 2 ? in[2] : nullptr;
  const double epsilon = node.list("epsilon").at(0);
  const Shape row_shape{x.shape.back()};
  require(scale.shape == row_shape && (!bias || bias->shape == row_shape),
          "LayerNormalization has other scales");
  return by_rows(node, x, [&](std::span<double> row) {
    const double middle = mean(row);
    std::vector<double> squares;
    for (double& v : row) {
      v -= middle;
      squares.push_back(v * v);
    }
    const double deviation = std::sqrt(mean(squares) + epsilon);
    for (std::size_t i = 0; i < row.size(); ++i)
      row[i] = row[i] / deviation * scale.numbers[i] + (bias ? bias->numbers[i] : 0.0);
  });
}
inline Value reduce_mean(const Node& node, const Value& x) {
  const std::vector<double>& axes = node.list("axes");
  require(x.type == kFloat && axes.size() == 1 &&
              axis_of(node.whole("axes"), x.rank()) + 1 == x.shape.size(),
          "a mean over other axes");
  Value y{x.shape, {}};
  if (node.whole_or("keepdims", 1) == 1)
    y.shape.back() = 1;
  else
    y.shape.pop_back();
  const auto width = static_cast<std::size_t>(x.shape.back());
  for (std::size_t at = 0; at < x.numbers.size(); at += width)
    y.numbers.push_back(rounded(kFloat, mean(std::span(x.numbers).subspan(at, width))));
  return y;
}
// [..., I, K] by [..., K, J]
inline Value product(const Value& a, const Value& b) {
  require(a.type == kFloat && b.type == kFloat && a.rank() >= 2 && b.rank() >= 2 &&
              a.shape.back() == b.shape.end()[-2],
          "shapes or types of a product do not fit");
  Shape shape =
      broadcast({a.shape.begin(), a.shape.end() - 2}, {b.shape.begin(), b.shape.end() - 2});
  shape.insert(shape.end(), {a.shape.end()[-2], b.shape.back()});
  return made(shape, kFloat, [&](const Index& index) {
    Index left = index, right = index;
    double sum = 0;
    for (i64 k = 0; k < a.shape.back(); ++k) {
      left.back() = right.end()[-2] = k;
      sum += a.at(left) * b.at(right);
    }
    return sum;
  });
}

// --- other shapes and places

inline Value shape_of(const Value& x) {
  return {{x.rank()}, {x.shape.begin(), x.shape.end()}, kInt64};
}
inline Value range(const Inputs& in) {
  for (const Value* v : in)
    require(v->shape.empty() && v->type == kInt64, "a range is of whole numbers");
  const double start = in.at(0)->numbers[0], end = in.at(1)->numbers[0],
               step = in.at(2)->numbers[0];
  const auto length = static_cast<i64>(std::max(std::ceil((end - start) / step), 0.0));
  return made({length}, kInt64,
              [&](const Index& i) { return start + step * static_cast<double>(i[0]); });
}
inline Value reshape(const Value& x, Shape shape) {
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == 0) shape[d] = x.extent(d);
  const auto open = std::ranges::find(shape, -1);
  if (open != shape.end()) {
    *open = 1;
    *open = static_cast<i64>(x.numbers.size()) / count(shape);
  }
  require(count(shape) == count(x.shape), "a reshape to another count");
  return {shape, x.numbers, x.type};
}
inline Value unsqueeze(const Value& x, const std::vector<i64>& axes) {
  const i64 rank = x.rank() + static_cast<i64>(axes.size());
  std::set<std::size_t> added;
  for (const i64 axis : axes) added.insert(axis_of(axis, rank));
  require(added.size() == axes.size(), "an axis is added twice");
  Value y = x;
  for (const std::size_t axis : added) y.shape.insert(y.shape.begin() + axis, 1);
  return y;
}
inline Value expand(const Value& x, const Shape& to) {
  return made(broadcast(x.shape, to), x.type, [&](const Index& index) { return x.at(index); });
}
inline Value transpose(const Node& node, const Value& x) {
  const std::vector<double>& perm = node.list("perm");
  require(perm.size() == x.shape.size(), "perm has another rank");
  Shape shape;
  for (const double from : perm) shape.push_back(x.extent(static_cast<std::size_t>(from)));
  return made(shape, x.type, [&](const Index& index) {
    Index from(index.size());
    for (std::size_t d = 0; d < index.size(); ++d)
      from[static_cast<std::size_t>(perm[d])] = index[d];
    return x.at(from);
  });
}
inline Value gather(const Node& node, const Value& x, const Value& indices) {
  require(indices.type == kInt64 && node.whole_or("axis", 0) == 0, "a gather of another kind");
  Shape shape = indices.shape;
  shape.insert(shape.end(), x.shape.begin() + 1, x.shape.end());
  return made(shape, x.type, [&](const Index& index) {
    const auto behind = index.begin() + indices.rank();
    const auto row = static_cast<i64>(indices.at({index.begin(), behind}));
    Index from{static_cast<i64>(axis_of(row, x.extent(0)))};
    from.insert(from.end(), behind, index.end());
    return x.at(from);
  });
}
// Numbers [first, first + extent) along an axis.
inline Value part(const Value& x, std::size_t axis, i64 first, i64 extent) {
  Shape shape = x.shape;
  shape.at(axis) = extent;
  return made(shape, x.type, [&](Index index) {
    index[axis] += first;
    return x.at(index);
  });
}
inline std::vector<Value> split(const Node& node, const Value& x) {
  const std::size_t axis = axis_of(node.whole_or("axis", 0), x.rank());
  const i64 parts = static_cast<i64>(node.outputs.size()), extent = x.extent(axis) / parts;
  require(extent * parts == x.extent(axis), "a split into parts that are not equal");
  std::vector<Value> out;
  for (i64 i = 0; i < parts; ++i) out.push_back(part(x, axis, i * extent, extent));
  return out;
}
inline Value concat(const Node& node, const Inputs& in) {
  Shape shape = in.at(0)->shape;
  const std::size_t axis = axis_of(node.whole("axis"), in[0]->rank());
  shape[axis] = 0;
  for (const Value* v : in) {
    Shape same = v->shape;
    require(same.size() == shape.size() && v->type == in[0]->type, "a concat of other values");
    same[axis] = shape[axis];
    require(same == shape, "a concat of other shapes");
    shape[axis] += v->extent(axis);
  }
  return made(shape, in[0]->type, [&](Index index) {
    std::size_t which = 0;
    for (; index[axis] >= in[which]->extent(axis); ++which) index[axis] -= in[which]->extent(axis);
    return in[which]->at(index);
  });
}

// --- all

// What a node gives that has one output.
inline Value compute_one(const Node& node, const Inputs& in) {
  const std::string& type = node.type;
  const Value& x = *in.at(0);
  if (type == "Conv") return conv(node, x, *in.at(1), in.size() > 2 ? in[2] : nullptr);
  if (type == "MaxPool") return max_pool(node, x);
  if (type == "BatchNormalization") return batch_norm(node, in);
  if (type == "GlobalAveragePool") return average_pool(x);
  if (type == "Flatten") return reshape(x, {0, -1});
  if (type == "Slice") return slice(in);
  if (type == "Pad") return pad(in);
  if (type == "Gemm") return gemm(node, x, *in.at(1), *in.at(2));

  if (type == "Add") return both(in, std::plus<>());
  if (type == "Sub") return both(in, std::minus<>());
  if (type == "Mul") return both(in, std::multiplies<>());
  if (type == "Div")
    return both(in,
                [&](double a, double b) { return x.type == kInt64 ? std::trunc(a / b) : a / b; });
  if (type == "GreaterOrEqual") return compared(in, std::greater_equal<>());
  if (type == "Less") return compared(in, std::less<>());
  if (type == "And") {
    require(x.type == kBool && in.at(1)->type == kBool, "And is of truths");
    return each(kBool, std::logical_and<>(), x, *in[1]);
  }
  if (type == "Where") return where(in);
  if (type == "Cast") return cast(node, x);
  if (type == "Relu") return of_float(x, [](double v) { return std::max(v, 0.0); });
  if (type == "Sqrt") return of_float(x, [](double v) { return std::sqrt(v); });
  if (type == "Tanh") return of_float(x, [](double v) { return std::tanh(v); });
  if (type == "Erf") return of_float(x, [](double v) { return std::erf(v); });
  if (type == "Sigmoid") return of_float(x, [](double v) { return 1 / (1 + std::exp(-v)); });

  if (type == "Softmax") return softmax(node, x);
  if (type == "LayerNormalization") return layer_norm(node, in);
  if (type == "ReduceMean") return reduce_mean(node, x);
  if (type == "MatMul") return product(x, *in.at(1));

  if (type == "Shape") return shape_of(x);
  if (type == "Range") return range(in);
  if (type == "Reshape") return reshape(x, whole_numbers(*in.at(1)));
  if (type == "Unsqueeze") return unsqueeze(x, whole_numbers(*in.at(1)));
  if (type == "Expand") return expand(x, whole_numbers(*in.at(1)));
  if (type == "Transpose") return transpose(node, x);
  if (type == "Gather") return gather(node, x, *in.at(1));
  if (type == "Concat") return concat(node, in);
  throw std::runtime_error("no operator " + type + " is known");
}

// A value for each output of the node.
inline std::vector<Value> compute(const Node& node, const Inputs& in) {
  std::vector<Value> out;
  if (node.type == "Split" && in.size() == 1)
    out = split(node, *in[0]);
  else
    out.push_back(compute_one(node, in));
  node.require_all_asked();
  require(out.size() == node.outputs.size(), node.type + " has other outputs");
  return out;
}

}  // namespace gossamer::testing::onnx
