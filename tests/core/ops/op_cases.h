// THE list of ops: each with shapes, inputs that keep away from kinks, and what is checked. The
// tests of gradients, of 16 bits and of backend parity all walk it. A new op is one declaration in
// core/ops.h, core/ops/rearrange.h or core/ops/group_norm.h, its formula, and one row here.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "core/ops/group_norm_cases.h"
#include "core/ops/op_case.h"
#include "core/ops/text_cases.h"
#include "gossamer/core/ops/normalize.h"
#include "gossamer/core/ops/rearrange.h"
#include "support/use_backend.h"

namespace gossamer::testing {
namespace rows {

inline void elementwise(std::vector<OpCase>& all) {
  using F1 = Tensor (*)(const Tensor&);
  using F2 = Tensor (*)(const Tensor&, const Tensor&);
  const struct {
    const char* name;
    F2 f;
    Draw b;
    double (*formula)(double, double);
  } two[] = {{"add", add, Draw::normal, [](double a, double b) { return a + b; }},
             {"sub", sub, Draw::normal, [](double a, double b) { return a - b; }},
             {"mul", mul, Draw::normal, [](double a, double b) { return a * b; }},
             {"div", div, Draw::positive, [](double a, double b) { return a / b; }}};
  for (const auto& op : two) {
    const auto run = [f = op.f](const Inputs& in) { return f(in[0], in[1]); };
    const auto row = [&](OpCase c) {
      c.formula = op.formula;
      all.push_back(std::move(c));
    };
    row({op.name, "same shape", {{3, 5}, {3, 5}}, run, {Draw::normal, op.b}});
    row({op.name, "one element", {{2, 3, 7}, {}}, run, {Draw::normal, op.b}, {}, 42});
    row({op.name, "one element of rank 1", {{5}, {1}}, run, {Draw::normal, op.b}, {}, 5});
    row({op.name, "trailing", {{4, 3, 5}, {3, 5}}, run, {Draw::normal, op.b}, {}, 4});
    row({op.name, "bias", {{70, 9}, {9}}, run, {Draw::normal, op.b}, {}, 70});
    row({op.name,
         "f32 bias on any type",
         {{6, 9}, {9}},
         run,
         {Draw::normal, op.b},
         {false, true},
         6});
    all.push_back({op.name,
                   "with itself",
                   {{11}},
                   [f = op.f](const Inputs& in) { return f(in[0], in[0]); },
                   {Draw::positive}});
  }
  all.push_back({"add", "constant", {{4, 4}}, [](const Inputs& in) { return add(in[0], 0.75f); }});
  all.push_back({"mul", "constant", {{4, 4}}, [](const Inputs& in) { return mul(in[0], -1.5f); }});
  const struct {
    const char* name;
    F1 f;
    Draw draw;
    double (*formula)(double);
  } one[] = {
      {"neg", neg, Draw::normal, [](double x) { return -x; }},
      {"relu", relu, Draw::apart, [](double x) { return x > 0 ? x : 0; }},
      {"sigmoid", sigmoid, Draw::normal, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"tanh", tanh, Draw::normal, std::tanh},
      {"gelu", gelu, Draw::normal, [](double x) { return x * std::erfc(-x / std::sqrt(2)) / 2; }},
      {"gelu_tanh", gelu_tanh, Draw::normal,
       [](double x) {
         return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
       }},
      {"exp", exp, Draw::normal, std::exp},
      {"log", log, Draw::positive, std::log},
      {"sqrt", sqrt, Draw::positive, std::sqrt},
      {"square", square, Draw::normal, [](double x) { return x * x; }},
      {"abs", abs, Draw::apart, std::fabs}};
  for (const auto& op : one)
    for (const Shape& shape : {Shape{33}, Shape{2, 3, 4, 5}}) {
      OpCase row{
          op.name, "", {shape}, [f = op.f](const Inputs& in) { return f(in[0]); }, {op.draw}};
      row.formula = [f = op.formula](double x, double) { return f(x); };
      all.push_back(std::move(row));
    }
  all.push_back({"cast", "there and back", {{9, 3}}, [](const Inputs& in) {
                   // Rounded to 16 bits there is no slope to measure, so the cast that is checked
                   // starts at the input's own type.
                   return cast(cast(in[0], in[0].dtype()), DType::f32);
                 }});
  all.push_back({"dropout", "p 0.4", {{7, 9}}, [](const Inputs& in) {
                   return dropout(in[0], 0.4f, 5, stream_of(6, in[0]));
                 }});
  all.push_back({"dropout", "p 0", {{7}}, [](const Inputs& in) {
                   return mul(dropout(in[0], 0.0f, 5, {}), 2.0f);
                 }});
  all.push_back(
      {"normalize",
       "channels",
       {},
       [](const Inputs&) {
         static const std::vector<float> mean{.1f, .2f, .3f, .4f, .5f}, std{.5f, 1, 2, .25f, 1};
         return normalize(some_images(2, 5, 3).reshape({2, 3, 3, 5}), mean, std, DType::f32);
       },
       {},
       {},
       1,
       false});
  all.push_back(
      {"normalize",
       "images",
       {},
       [](const Inputs&) {
         return normalize(some_images(2, 5, 3), {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f});
       },
       {},
       {},
       1,
       false});
}

inline void mixing(std::vector<OpCase>& all) {
  const struct {
    const char* what;
    std::vector<float> plan;
  } plans[] = {{"mixup", {0.3f, 0.3f, 0, 0, 0, 0}},
               {"cutmix", {1, 0, 1, 3, 2, 4}},
               {"nothing", {1, 1, 0, 0, 0, 0}}};
  for (const auto& p : plans)
    all.push_back({"mix_batch", p.what, {{3, 4, 5, 3}}, [plan = p.plan](const Inputs& in) {
                     return mix_batch(in[0], Tensor::from(plan, {6}).to(in[0].device()));
                   }});
  all.push_back(
      {"mix_batch", "one image", {{1, 2, 2, 3}}, [](const Inputs& in) {
         return mix_batch(
             in[0],
             Tensor::from(std::vector<float>{0.5f, 0.5f, 0, 0, 0, 0}, {6}).to(in[0].device()));
       }});
}

inline void rearranging(std::vector<OpCase>& all) {
  const auto one = [&](const char* op, const char* what, Shape shape, Tensor (*run)(const Tensor&),
                       int terms = 1) {
    all.push_back(
        {op, what, {shape}, [run](const Inputs& in) { return run(in[0]); }, {}, {}, terms});
  };
  one("transpose", "matrix", {4, 7}, [](const Tensor& x) { return transpose(x, 0, 1); });
  one("transpose", "outer", {3, 2, 4, 5}, [](const Tensor& x) { return transpose(x, -2, 0); });
  one("transpose", "nothing", {3, 2}, [](const Tensor& x) { return transpose(x, 1, -1) * 2.0f; });
  one("slice_along", "first", {5, 3}, [](const Tensor& x) { return slice_along(x, 0, 1, 4); });
  one("slice_along", "inner", {2, 5, 3}, [](const Tensor& x) { return slice_along(x, 1, 2, 5); });
  one("slice_along", "last", {2, 5}, [](const Tensor& x) { return slice_along(x, -1, 0, 1); });
  one(
      "sum_along", "first", {6, 3}, [](const Tensor& x) { return sum_along(x, 0); }, 6);
  one(
      "sum_along", "inner", {2, 9, 4}, [](const Tensor& x) { return sum_along(x, 1); }, 9);
  one(
      "sum_along", "last", {3, 5}, [](const Tensor& x) { return sum_along(x, -1); }, 5);
  all.push_back({"concat", "inner", {{2, 3, 4}, {2, 1, 4}, {2, 2, 4}}, [](const Inputs& in) {
                   return concat(in, 1);
                 }});
  all.push_back({"concat", "of one tensor twice", {{3, 2}}, [](const Inputs& in) {
                   return concat({in[0], in[0]}, -1);
                 }});
}

inline void reductions(std::vector<OpCase>& all) {
  all.push_back({"sum", "", {{5, 7}}, [](const Inputs& in) { return sum(in[0]); }, {}, {}, 35});
  all.push_back({"sum",
                 "several pieces",
                 {{3, 4000}},
                 [](const Inputs& in) { return mul(sum(in[0]), 0.01f); },
                 {},
                 {},
                 12000});
  all.push_back(
      {"mean", "", {{6, 3, 2}}, [](const Inputs& in) { return mean(in[0]); }, {}, {}, 36});
  all.push_back(
      {"sum_rows", "", {{4, 3, 5}}, [](const Inputs& in) { return sum_rows(in[0]); }, {}, {}, 12});
  all.push_back({"sum_rows",
                 "several pieces",
                 {{9000, 3}},
                 [](const Inputs& in) { return mul(sum_rows(in[0]), 0.05f); },
                 {},
                 {},
                 9000});
  for (const Shape& shape : {Shape{6}, Shape{4, 9}, Shape{2, 3, 5}}) {
    all.push_back(
        {"softmax", "", {shape}, [](const Inputs& in) { return softmax(in[0]); }, {}, {}, 9});
    all.push_back({"log_softmax",
                   "",
                   {shape},
                   [](const Inputs& in) { return log_softmax(in[0]); },
                   {},
                   {},
                   9});
  }
  for (const float smoothing : {0.0f, 0.1f})
    all.push_back({"cross_entropy",
                   smoothing > 0 ? "label smoothing" : "",
                   {{8, 11}},
                   [smoothing](const Inputs& in) {
                     return cross_entropy(in[0], labels_of(8, 11).to(in[0].device()),
                                          {.label_smoothing = smoothing});
                   },
                   {},
                   {},
                   11,
                   true,
                   true});
  all.push_back(
      {"count_top_k",
       "",
       {{8, 11}},
       [](const Inputs& in) { return count_top_k(in[0], labels_of(8, 11).to(in[0].device()), 3); },
       {Draw::distinct},
       {},
       1,
       false});
  all.push_back({"take_number",
                 "",
                 {{1}},
                 [](const Inputs& in) {
                   const Tensor counter = stream_of(41, in[0]);
                   take_number(counter);
                   return take_number(counter).to(DType::f32);
                 },
                 {},
                 {},
                 1,
                 false});
}

inline void linear_algebra(std::vector<OpCase>& all) {
  all.push_back({"matmul",
                 "",
                 {{5, 7}, {7, 4}},
                 [](const Inputs& in) { return matmul(in[0], in[1]); },
                 {},
                 {},
                 7,
                 true,
                 true});
  all.push_back({"matmul",
                 "larger",
                 {{33, 130}, {130, 65}},
                 [](const Inputs& in) { return matmul(in[0], in[1]); },
                 {},
                 {},
                 130,
                 true,
                 true});
  all.push_back({"matmul",
                 "one row",
                 {{1, 20}, {20, 1}},
                 [](const Inputs& in) { return matmul(in[0], in[1]); },
                 {},
                 {},
                 20,
                 true,
                 true});
  all.push_back({"linear",
                 "with bias",
                 {{6, 9}, {5, 9}, {5}},
                 [](const Inputs& in) { return linear(in[0], in[1], in[2]); },
                 {},
                 {false, false, true},
                 9,
                 true,
                 true});
  all.push_back({"linear",
                 "no bias",
                 {{6, 9}, {5, 9}},
                 [](const Inputs& in) { return linear(in[0], in[1]); },
                 {},
                 {},
                 9,
                 true,
                 true});
  const struct {
    const char* name;
    Activation activation;
  } tails[] = {
      {"relu", Activation::relu}, {"gelu", Activation::gelu}, {"gelu_tanh", Activation::gelu_tanh}};
  for (const auto& [name, activation] : tails) {
    // The product is made small, so that the sign is that of the bimodal bias.
    all.push_back({"linear",
                   std::string("rows of rows, ") + name,
                   {{2, 3, 5, 9}, {7, 9}, {7}},
                   [activation = activation](const Inputs& in) {
                     return linear(mul(in[0], 0.05f), in[1], in[2], activation);
                   },
                   {Draw::normal, Draw::normal, Draw::bimodal},
                   {false, false, true},
                   30,
                   true,
                   true});
    if (activation != Activation::relu)
      all.push_back({"linear",
                     std::string("no bias, ") + name,
                     {{33, 20}, {18, 20}},
                     [activation = activation](const Inputs& in) {
                       return linear(in[0], mul(in[1], 0.2f), {}, activation);
                     },
                     {},
                     {},
                     33,
                     true,
                     true});
  }
  all.push_back({"linear",
                 "rows of rows",
                 {{4, 3, 17}, {1, 17}, {1}},
                 [](const Inputs& in) { return linear(in[0], in[1], in[2]); },
                 {},
                 {},
                 17,
                 true,
                 true});
  all.push_back({"linear",
                 "classifier",
                 {{32, 64}, {10, 64}, {10}},
                 [](const Inputs& in) { return linear(in[0], in[1], in[2]); },
                 {},
                 {},
                 64,
                 true,
                 true});
}

// The convolutions, for tests of backends and of plans.
struct ConvCase {
  const char* what;
  Shape x, w;
  ConvOptions o;
};
inline const std::vector<ConvCase>& conv_cases() {
  static const std::vector<ConvCase> list{
      {"1x1", {2, 4, 5, 3}, {6, 1, 1, 3}, {}},
      {"1x1 stride 2", {2, 5, 6, 8}, {16, 1, 1, 8}, {.stride = 2}},
      {"3x3", {2, 6, 5, 4}, {5, 3, 3, 4}, {.padding = 1}},
      {"3x3 no padding", {1, 5, 4, 2}, {3, 3, 3, 2}, {}},
      {"3x3 stride 2", {2, 8, 7, 16}, {32, 3, 3, 16}, {.stride = 2, .padding = 1}},
      {"3x3 wide", {2, 8, 8, 32}, {16, 3, 3, 32}, {.padding = 1}},
      {"3x3 dilated", {1, 9, 8, 3}, {4, 3, 3, 3}, {.padding = 2, .dilation = 2}},
      {"3x3 two groups", {2, 5, 5, 6}, {4, 3, 3, 3}, {.padding = 1, .groups = 2}},
      {"depthwise", {1, 6, 6, 8}, {8, 3, 3, 1}, {.stride = 2, .padding = 1, .groups = 8}},
      {"7x7 stem", {1, 16, 18, 3}, {8, 7, 7, 3}, {.stride = 2, .padding = 3}},
      {"2x3 filter", {2, 5, 6, 3}, {4, 2, 3, 3}, {.stride = 2}},
      {"stride skips the edge", {1, 6, 6, 2}, {3, 1, 1, 2}, {.stride = 4}},
      {"wider than the image", {1, 2, 2, 3}, {2, 5, 5, 3}, {.padding = 2}},
  };
  return list;
}

inline void convolutions(std::vector<OpCase>& all) {
  for (const ConvCase& c : conv_cases()) {
    const i64 taps = c.w[1] * c.w[2] * c.w[3], pixels = c.x[0] * c.x[1] * c.x[2];
    all.push_back({"conv2d",
                   c.what,
                   {c.x, c.w},
                   [o = c.o](const Inputs& in) { return conv2d(in[0], in[1], o); },
                   {},
                   {},
                   static_cast<int>(std::max(taps, pixels)),
                   true,
                   true});
  }
  all.push_back({"conv2d",
                 "two of one result",
                 {{2, 4, 4, 8}, {8, 3, 3, 8}, {8, 1, 1, 8}},
                 [](const Inputs& in) {
                   // no leaf: its two gradients meet on the way, where a GPU adds the second in
                   // place
                   const Tensor x = neg(in[0]);
                   return conv2d(x, in[1], {.padding = 1}) + conv2d(x, in[2]);
                 },
                 {},
                 {},
                 72,
                 true,
                 true});
}

inline void pooling(std::vector<OpCase>& all) {
  const struct {
    const char* what;
    Shape x;
    PoolOptions o;
  } list[] = {{"2x2", {2, 4, 6, 3}, {}},
              {"3x3 stride 2 padding 1", {1, 7, 8, 5}, {3, 2, 1}},
              {"3x3 stride 1", {1, 5, 5, 70}, {3, 1, 1}},
              {"2x2 stride 3", {1, 8, 8, 2}, {2, 3, 0}}};
  for (const auto& c : list) {
    all.push_back({"max_pool2d",
                   c.what,
                   {c.x},
                   [o = c.o](const Inputs& in) { return mul(max_pool2d(in[0], o), 0.1f); },
                   {Draw::distinct},
                   {},
                   9,
                   true,
                   true});
    all.push_back({"avg_pool2d",
                   c.what,
                   {c.x},
                   [o = c.o](const Inputs& in) { return avg_pool2d(in[0], o); },
                   {},
                   {},
                   9,
                   true,
                   true});
  }
  all.push_back({"global_avg_pool",
                 "",
                 {{3, 4, 5, 7}},
                 [](const Inputs& in) { return global_avg_pool(in[0]); },
                 {},
                 {},
                 20,
                 true,
                 true});
  all.push_back({"global_avg_pool",
                 "wide",
                 {{2, 2, 2, 130}},
                 [](const Inputs& in) { return global_avg_pool(in[0]); },
                 {},
                 {},
                 4,
                 true,
                 true});
  all.push_back({"subsample_pad", "stride 2", {{2, 5, 6, 3}}, [](const Inputs& in) {
                   return subsample_pad(in[0], 2, 6);
                 }});
  all.push_back({"subsample_pad", "same size", {{1, 3, 3, 4}}, [](const Inputs& in) {
                   return subsample_pad(in[0], 1, 4);
                 }});
}

// x, scale, shift (and the added branch): every mix of training, ReLU and add.
inline void norms(std::vector<OpCase>& all) {
  for (const Shape& shape : {Shape{3, 4, 5, 6}, Shape{40, 17}, Shape{2, 3, 3, 64}})
    for (const bool training : {true, false})
      for (const bool relu : {false, true})
        for (const bool branch : {false, true}) {
          std::vector<Shape> inputs{shape, {shape[-1]}, {shape[-1]}};
          std::vector<Draw> draw{relu ? Draw::bimodal : Draw::normal, Draw::positive, Draw::normal};
          if (branch) inputs.push_back(shape);
          const auto run = [=](const Inputs& in) {
            const i64 c = shape[-1];
            // With ReLU shift and branch are made small, so that the sign is that of the bimodal x.
            const float small = relu ? 0.05f : 1.0f;
            return batch_norm(in[0], in[1], mul(in[2], small),
                              Tensor::full({c}, 0.1f, DType::f32, in[0].device()),
                              Tensor::full({c}, 0.9f, DType::f32, in[0].device()),
                              {.training = training, .relu = relu},
                              branch ? mul(in[3], small) : Tensor());
          };
          const std::string what = std::string(training ? "training" : "evaluation") +
                                   (branch ? " + add" : "") + (relu ? " + relu" : "");
          all.push_back({"batch_norm",
                         what,
                         inputs,
                         run,
                         draw,
                         {false, true, true, false},
                         static_cast<int>(shape.numel() / shape[-1]),
                         true,
                         true});
        }
}

// A global average behind a batch norm, alone and beside another use: on a GPU its gradient is not
// written out where it need not be.
inline void averaged_norms(std::vector<OpCase>& all) {
  const Shape shape{3, 4, 5, 6};
  for (const bool relu : {false, true})
    for (const bool branch : {false, true})
      for (const bool twice : {false, true}) {
        const auto run = [=](const Inputs& in) {
          // With ReLU shift and branch are made small, so that the sign is that of the bimodal x.
          const float small = relu ? 0.05f : 1.0f;
          const Tensor y = batch_norm(in[0], in[1], mul(in[2], small), {}, {}, {.relu = relu},
                                      branch ? mul(in[3], small) : Tensor());
          if (!twice) return mul(global_avg_pool(y), 4.0f);
          // The average's gradient comes to y after the other one, or before it.
          const Tensor first = branch ? global_avg_pool(y) : global_avg_pool(mul(y, y));
          return add(first, branch ? global_avg_pool(mul(y, y)) : global_avg_pool(y));
        };
        std::vector<Shape> inputs{shape, {6}, {6}};
        if (branch) inputs.push_back(shape);
        all.push_back({"global_avg_pool",
                       std::string("of a norm") + (branch ? " + add" : "") +
                           (relu ? " + relu" : "") + (twice ? ", used twice" : ""),
                       inputs,
                       run,
                       {relu ? Draw::bimodal : Draw::normal, Draw::positive, Draw::normal},
                       {false, true, true, false},
                       60,
                       true,
                       true});
      }
}

// The two ends of a ResNet: sums of two normalised branches, and the stem's pooling. x, scale,
// shift of each.
inline void norm_ends(std::vector<OpCase>& all) {
  const auto norm = [](const Inputs& in, std::size_t at, float small, bool training) {
    const auto vector = [&](float v) {
      return Tensor::full({in[at].shape(-1)}, v, DType::f32, in[at].device());
    };
    return NormInput{in[at],       mul(in[at + 1], small), mul(in[at + 2], 0.05f),
                     vector(0.1f), vector(0.9f),           {.training = training}};
  };
  for (const bool training : {true, false}) {
    const std::string what = training ? "training" : "evaluation";
    // The second branch is made small, so that the sign is that of the bimodal first one.
    for (const Shape& shape : {Shape{3, 4, 5, 6}, Shape{40, 17}, Shape{2, 3, 3, 64}})
      all.push_back({"batch_norm_sum",
                     what,
                     {shape, {shape[-1]}, {shape[-1]}, shape, {shape[-1]}, {shape[-1]}},
                     [=](const Inputs& in) {
                       return batch_norm_sum(norm(in, 0, 1, training),
                                             norm(in, 3, 0.03f, training));
                     },
                     {Draw::bimodal, Draw::positive, Draw::normal, Draw::normal, Draw::positive,
                      Draw::normal},
                     {false, true, true, false, true, true},
                     static_cast<int>(shape.numel() / shape[-1]),
                     true,
                     true});
    for (const Shape& shape : {Shape{2, 5, 4, 2}, Shape{1, 4, 4, 8}, Shape{1, 1, 7, 3}})
      all.push_back({"batch_norm_pool",
                     what,
                     {shape, {shape[-1]}, {shape[-1]}},
                     [=](const Inputs& in) { return batch_norm_pool(norm(in, 0, 1, training)); },
                     {Draw::distinct, Draw::positive, Draw::normal},
                     {false, true, true},
                     static_cast<int>(shape.numel() / shape[-1]),
                     true,
                     true});
  }
}

}  // namespace rows

inline const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> all = [] {
    std::vector<OpCase> list;
    rows::elementwise(list);
    rows::rearranging(list);
    rows::reductions(list);
    rows::mixing(list);
    rows::linear_algebra(list);
    rows::convolutions(list);
    rows::pooling(list);
    rows::norms(list);
    rows::averaged_norms(list);
    rows::norm_ends(list);
    rows::group_norms(list);
    rows::text(list);
    return list;
  }();
  return all;
}

}  // namespace gossamer::testing
