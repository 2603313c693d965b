// What ops say when they are used wrongly: the op, both shapes (or types), and what to do.
#include <functional>

#include <gtest/gtest.h>

#include "gossamer/core/blocks.h"
#include "gossamer/core/exchange.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/update.h"

namespace gossamer {
namespace {

struct Wrong {
  const char* what;
  std::function<void()> use;
  std::vector<std::string> words;  // all must be in the text
};

void expect_all(const std::vector<Wrong>& list) {
  for (const Wrong& w : list) {
    SCOPED_TRACE(w.what);
    try {
      w.use();
      ADD_FAILURE() << "no error";
    } catch (const ShapeError& e) {
      for (const std::string& word : w.words)
        EXPECT_NE(std::string(e.what()).find(word), std::string::npos)
            << "wanted \"" << word << "\" in: " << e.what();
    } catch (const std::exception& e) {
      ADD_FAILURE() << "another kind of error: " << e.what();
    }
  }
}

Tensor f32(Shape s) { return Tensor::zeros(s); }
Tensor half(Shape s) { return Tensor::zeros(s, DType::bf16); }
Tensor ints(Shape s) { return Tensor::zeros(s, DType::i32); }

TEST(OpErrors, ElementwiseOpsNameTheOpAndBothShapes) {
  std::vector<Wrong> list;
  using F2 = Tensor (*)(const Tensor&, const Tensor&);
  for (const auto& [name, f] :
       {std::pair<const char*, F2>{"add", add}, {"sub", sub}, {"mul", mul}, {"div", div}}) {
    list.push_back({name,
                    [f = f] {
                      f(f32({2, 3}), f32({2}));
                    },
                    {std::string(name) + ":", "[2, 3]", "[2]", "last dimensions"}});
    list.push_back({name,
                    [f = f] {
                      f(f32({3}), f32({2, 3}));
                    },
                    {std::string(name) + ":", "[3]", "[2, 3]", "larger one first"}});
    list.push_back({name,
                    [f = f] { f(f32({3}), ints({3})); },
                    {std::string(name) + ":", "i32", "f32, bf16 or f16"}});
    list.push_back(
        {name, [f = f] { f(Tensor(), f32({3})); }, {std::string(name) + ":", "undefined"}});
  }
  using F1 = Tensor (*)(const Tensor&);
  for (const auto& [name, f] : {std::pair<const char*, F1>{"neg", neg},
                                {"relu", relu},
                                {"sigmoid", sigmoid},
                                {"tanh", tanh},
                                {"gelu", gelu},
                                {"exp", exp},
                                {"log", log},
                                {"sqrt", sqrt},
                                {"square", square},
                                {"abs", abs},
                                {"sum", sum},
                                {"mean", mean},
                                {"sum_rows", sum_rows},
                                {"softmax", softmax},
                                {"log_softmax", log_softmax},
                                {"global_avg_pool", global_avg_pool}})
    list.push_back({name,
                    [f = f] {
                      f(ints({4, 4}));
                    },
                    {std::string(name) + ":", "[4, 4]", "i32", "f32, bf16 or f16"}});
  list.push_back({"cast", [] { cast(f32({3}), DType::u8); }, {"cast:", "f32", "u8", "[3]"}});
  list.push_back({"dropout", [] { dropout(f32({3}), 1.0f, 0, {}); }, {"dropout:", "1", "[0, 1)"}});
  list.push_back({"dropout stream",
                  [] { dropout(f32({3}), 0.5f, 0, {}); },
                  {"dropout:", "stream", "not given", "take_number()"}});
  list.push_back({"take_number", [] { take_number(f32({})); }, {"take_number:", "i64 []", "f32"}});
  list.push_back({"normalize float",
                  [] {
                    normalize(f32({1, 2, 2, 3}), {}, {1, 1, 1});
                  },
                  {"normalize:", "u8 [N, H, W, 3]", "[1, 2, 2, 3]", "f32"}});
  list.push_back({"normalize std",
                  [] {
                    normalize(Tensor::zeros({1, 2, 2, 3}, DType::u8), {}, {1, 0, 1});
                  },
                  {"normalize:", "positive"}});
  expect_all(list);
}

TEST(OpErrors, ReductionsAndLossesSayWhichLabelOrShape) {
  const std::vector<std::int32_t> bad{0, 5, 1};
  expect_all({
      {"mean of nothing",
       [] {
         mean(f32({0, 3}));
       },
       {"mean:", "[0, 3]", "no elements"}},
      {"softmax of a scalar", [] { softmax(f32({})); }, {"softmax:", "[]", "[..., K]"}},
      {"label too large",
       [&] {
         cross_entropy(f32({3, 5}), Tensor::from(bad, {3}));
       },
       {"cross_entropy:", "label 5", "row 1", "[0, 5)", "classes"}},
      {"number of labels",
       [] {
         cross_entropy(f32({3, 5}), ints({4}));
       },
       {"cross_entropy:", "[3, 5]", "[4]"}},
      {"label type",
       [] {
         cross_entropy(f32({3, 5}), f32({3}));
       },
       {"cross_entropy:", "i32", "f32"}},
      {"no labels",
       [] {
         cross_entropy(f32({3, 5}), Tensor());
       },
       {"cross_entropy:", "nothing"}},
      {"smoothing",
       [] {
         cross_entropy(f32({3, 5}), ints({3}), {.label_smoothing = 1.0f});
       },
       {"cross_entropy:", "label_smoothing", "[0, 1)"}},
      {"top 0",
       [] {
         count_top_k(f32({3, 5}), ints({3}), 0);
       },
       {"count_top_k:", "k is 0"}},
      {"top k shapes",
       [] {
         count_top_k(f32({3, 5}), ints({2}), 1);
       },
       {"count_top_k:", "[3, 5]", "[2]"}},
  });
}

TEST(OpErrors, MatricesAndConvolutionsNameBothShapesAndTheLayout) {
  expect_all({
      {"matmul",
       [] {
         matmul(f32({2, 3}), f32({4, 5}));
       },
       {"matmul:", "[2, 3]", "[4, 5]", "[M, K] x [K, N]"}},
      {"matmul types",
       [] {
         matmul(f32({2, 3}), half({3, 5}));
       },
       {"matmul:", "f32", "bf16", "cast"}},
      {"linear",
       [] {
         linear(f32({2, 3}), f32({4, 5}));
       },
       {"linear:", "[2, 3]", "[4, 5]", "w [D, K]"}},
      {"linear on images",
       [] {
         linear(f32({2, 3, 3, 4}), f32({5, 36}));
       },
       {"linear:", "[2, 3, 3, 4]", "[5, 36]", "x [..., K]"}},
      {"linear on a vector",
       [] {
         linear(f32({4}), f32({5, 4}));
       },
       {"linear:", "[4]", "[5, 4]", "x [..., K]"}},
      {"linear bias",
       [] {
         linear(f32({2, 3}), f32({4, 3}), f32({3}));
       },
       {"linear:", "bias", "[3]", "[4, 3]"}},
      {"conv rank",
       [] {
         conv2d(f32({2, 3, 3}), f32({4, 1, 1, 3}));
       },
       {"conv2d:", "[2, 3, 3]", "[N, H, W, C]"}},
      {"conv channels",
       [] {
         conv2d(f32({2, 8, 8, 3}), f32({4, 3, 3, 5}));
       },
       {"conv2d:", "[2, 8, 8, 3]", "[4, 3, 3, 5]", "3 channels", "wants 5", "NHWC"}},
      {"conv groups",
       [] {
         conv2d(f32({2, 8, 8, 4}), f32({3, 3, 3, 2}), {.groups = 2});
       },
       {"conv2d:", "3 filters", "2 groups"}},
      {"conv too small",
       [] {
         conv2d(f32({2, 2, 2, 3}), f32({4, 5, 5, 3}));
       },
       {"conv2d:", "[2, 2, 2, 3]", "[4, 5, 5, 3]", "padding"}},
      {"conv too small, stride 4",
       [] {
         conv2d(f32({2, 2, 2, 3}), f32({4, 3, 3, 3}), {.stride = 4});
       },
       {"conv2d:", "smaller"}},
      {"conv stride",
       [] {
         conv2d(f32({2, 8, 8, 3}), f32({4, 3, 3, 3}), {.stride = 0});
       },
       {"conv2d:", "stride 0"}},
      {"conv types",
       [] {
         conv2d(half({2, 8, 8, 3}), f32({4, 3, 3, 3}));
       },
       {"conv2d:", "bf16", "f32", "cast"}},
      {"pool",
       [] {
         max_pool2d(f32({1, 1, 4, 2}), {3, 1, 0});
       },
       {"max_pool2d:", "[1, 1, 4, 2]", "window"}},
      {"pool padding",
       [] {
         avg_pool2d(f32({1, 4, 4, 2}), {2, 2, 2});
       },
       {"avg_pool2d:", "padding 2"}},
      {"pool rank",
       [] {
         max_pool2d(f32({4, 4}));
       },
       {"max_pool2d:", "[4, 4]", "[N, H, W, C]"}},
      {"global pool",
       [] {
         global_avg_pool(f32({4, 4}));
       },
       {"global_avg_pool:", "[4, 4]"}},
      {"subsample",
       [] {
         subsample_pad(f32({1, 4, 4, 8}), 2, 4);
       },
       {"subsample_pad:", "[1, 4, 4, 8]", "4 channels"}},
  });
}

TEST(OpErrors, BatchNormNamesTheTensorThatDoesNotFit) {
  const BatchNormOptions eval{.training = false};
  expect_all({
      {"scale",
       [] {
         batch_norm(f32({4, 3}), f32({2}), f32({3}), {}, {});
       },
       {"batch_norm:", "scale", "[2]", "[4, 3]"}},
      {"shift type",
       [] {
         batch_norm(f32({4, 3}), f32({3}), half({3}), {}, {});
       },
       {"batch_norm:", "shift", "bf16"}},
      {"running",
       [&] {
         batch_norm(f32({4, 3}), f32({3}), f32({3}), {}, f32({3}), eval);
       },
       {"batch_norm:", "running_mean", "undefined"}},
      {"running size",
       [&] {
         batch_norm(f32({4, 3}), f32({3}), f32({3}), f32({3}), f32({5}));
       },
       {"batch_norm:", "running_var", "[5]"}},
      {"add",
       [] {
         batch_norm(f32({4, 3}), f32({3}), f32({3}), {}, {}, {}, f32({3}));
       },
       {"batch_norm:", "add", "[3]", "[4, 3]"}},
      {"one row",
       [] {
         batch_norm(f32({1, 3}), f32({3}), f32({3}), {}, {});
       },
       {"batch_norm:", "[1, 3]", "larger batch"}},
      {"rank",
       [] { batch_norm(f32({3}), f32({3}), f32({3}), {}, {}); },
       {"batch_norm:", "[3]", "[..., C]"}},
  });
}

TEST(OpErrors, UpdatesNameTheBlockThatDoesNotFit) {
  Tensor w = f32({4, 4}), b = f32({3}), x = f32({4}), y = f32({5}), z = f32({8}), none;
  FlatParams params({{"w", w}, {"b", b}});
  const Tensor numbers = step_numbers(Device::cpu()), right = f32({64});
  expect_all({
      {"momentum",
       [&] { sgd_pass(params, {.momentum = x}, numbers); },
       {"sgd_pass:", "momentum", "[4]", "64"}},
      {"momentum missing",
       [&] { sgd_pass(params, {}, numbers); },
       {"sgd_pass:", "momentum", "undefined"}},
      {"moment",
       [&] { adam_pass(params, {.first = right, .second = x, .sum = {}}, numbers); },
       {"adam_pass:", "second moment", "[4]", "64"}},
      {"twin",
       [&] {
         sgd_pass(params, {.momentum = right}, numbers, {.twin = x, .own = {}, .received = {}});
       },
       {"sgd_pass:", "twin", "[4]"}},
      {"numbers",
       [&] { sgd_pass(params, {.momentum = right}, x); },
       {"sgd_pass:", "numbers", "[4]"}},
      {"range",
       [&] {
         sgd_pass(params, {.momentum = right}, numbers, {}, {17, 32});
       },
       {"sgd_pass:", "[17, 32)", "64"}},
      {"mix", [&] { mix(x, y, 1, 0); }, {"mix:", "[4]", "[5]"}},
      {"difference",
       [&] { apply_difference(z, none, 1, 1, right, z); },
       {"apply_difference:", "own", "[64]", "8"}},
      {"length", [&] { apply_difference(x, none, 1, 1, x, x); }, {"apply_difference:", "[4]", "8"}},
      {"snapshot",
       [&] { take_snapshot(z, none, 1, 0, y); },
       {"take_snapshot:", "the snapshot", "[5]", "8"}},
      {"distance", [&] { squared_distance(x, y); }, {"squared_distance:", "[4]", "[5]"}},
      {"axpy", [&] { axpy(x, 1, y); }, {"axpy:", "[4]", "[5]"}},
      {"accumulate", [&] { accumulate(x, y); }, {"accumulate:", "[4]", "[5]"}},
      {"norm of ints", [&] { squared_norm(ints({3})); }, {"i32", "f32"}},
  });
}

}  // namespace
}  // namespace gossamer
