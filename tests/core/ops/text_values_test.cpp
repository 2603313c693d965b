// What the formulas of the ops of language models leave open: ids and labels that do not fit, tied
// tables, padding, parts, and independence of the number of threads.
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/compute.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/random.h"
#include "support/error_of.h"
#include "support/stream_of.h"
#include "support/use_backend.h"

namespace gossamer {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Tensor normal(Shape shape, std::uint64_t seed) {
  Tensor t = Tensor::empty(shape);
  Rng rng(seed);
  for (float& v : t.span<float>()) v = rng.normal();
  return t;
}
Tensor integers(std::vector<std::int32_t> v) {
  return Tensor::from(v, {static_cast<i64>(v.size())});
}
std::vector<float> list(const Tensor& t) {
  const Tensor wide = t.to(DType::f32);
  return {wide.span<float>().begin(), wide.span<float>().end()};
}
void expect_near(const Tensor& got, const Tensor& want, float tolerance) {
  ASSERT_EQ(got.shape(), want.shape());
  for (std::size_t i = 0; i < static_cast<std::size_t>(want.numel()); ++i)
    ASSERT_NEAR(got.span<float>()[i], want.span<float>()[i], tolerance) << "element " << i;
}
TEST(Embedding, NamesAnIdThatTheTableDoesNotHave) {
  const Tensor table = normal({5, 3}, 1);
  EXPECT_THAT(error_of<ShapeError>([&] {
                embedding(integers({1, 5, 0}), table);
              }),
              AllOf(HasSubstr("id 5"), HasSubstr("position 1"), HasSubstr("[0, 5)")));
  EXPECT_THAT(error_of<ShapeError>([&] { embedding(integers({-1}), table); }), HasSubstr("id -1"));
  EXPECT_THAT(error_of<ShapeError>([&] { embedding(normal({2}, 1), table); }), HasSubstr("i32"));
}

// The head comes first in backward and writes the window; the rows are added to it where it lies.
class TiedTable : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Backends, TiedTable, ::testing::ValuesIn(backend_names()));
TEST_P(TiedTable, GetsTheSumOfBothGradientsInItsWindow) {
  const UseBackend use(GetParam());
  for (const DType type : {DType::f32, DType::bf16}) {
    Tensor table = normal({6, 4}, 1), rows = table.to(type).requires_grad(),
           head = table.to(type).requires_grad();
    const Tensor ids = integers({2, 5, 2}), labels = integers({0, 1, 2});
    FlatParams params({{"table", table}}, {}, {.compute = type});
    for (int step = 0; step < 2; ++step) {  // a window that was used before
      params.zero_grad();
      params.backward(head_loss(embedding(ids, table), table, labels));
    }
    head_loss(embedding(ids, rows), head, labels).backward();
    expect_near(params.windows(params.grads())[0].tensor,
                add(rows.grad().to(DType::f32), head.grad().to(DType::f32)),
                type == DType::f32 ? 1e-6f : 0x1p-7f);  // both, below 2, are rounded to bf16
  }
}

TEST(LayerNorm, KeepsItsDigitsFarFromZero) {
  for (const std::string& form : backend_names()) {
    const UseBackend use(form);
    const Tensor x = add(normal({3, 50}, 1), 1000), y = layer_norm(x, Tensor::full({50}, 1));
    const Tensor near = layer_norm(add(x, -1000), Tensor::full({50}, 1));
    expect_near(y, near, 3e-4f);  // the inputs have lost 2^-14
  }
}

TEST(Attention, SeesNoPaddingAndGivesItNoGradient) {
  for (const std::string& form : backend_names()) {
    SCOPED_TRACE(form);
    const UseBackend use(form);
    const Tensor lengths = integers({3, 0});
    Tensor qkv = normal({2, 5, 12}, 1), other = qkv.clone();
    for (i64 t = 3; t < 5; ++t)  // keys and values behind the length
      for (i64 c = 4; c < 12; ++c) other.as<float>()[t * 12 + c] = 7;
    const auto attend = [&](const Tensor& of) { return attention(of, {.heads = 2}, lengths); };
    EXPECT_EQ(list(attend(qkv)), list(attend(other))) << "without a gradient: by other kernels";
    qkv.requires_grad(), other.requires_grad();
    const Tensor y = attend(qkv);
    EXPECT_EQ(list(y), list(attend(other)));
    for (i64 i = 20; i < 40; ++i) EXPECT_EQ(y.as<float>()[i], 0) << "no key to see";
    sum(mul(y, y)).backward();
    for (i64 t = 3; t < 5; ++t)
      for (i64 c = 4; c < 12; ++c) EXPECT_EQ(qkv.grad().as<float>()[t * 12 + c], 0);
    for (i64 i = 60; i < 120; ++i) EXPECT_EQ(qkv.grad().as<float>()[i], 0);
  }
}

// What is behind the lengths was never written; it may be anything, also NaN.
TEST(Attention, ReadsNothingBehindTheLengths) {
  for (const std::string& form : backend_names())
    for (const i64 width : {8, 80, 160}) {  // a head of 32, 16, 8 rows at a time
      SCOPED_TRACE(form + ", width " + std::to_string(width));
      const UseBackend use(form);
      const Tensor lengths = integers({7, 0, 33});
      Tensor q = normal({3, 35, width}, 1), zeros = normal({3, 40, 2 * width}, 2), other;
      for (i64 b = 0; b < 3; ++b)
        for (i64 t = lengths.as<std::int32_t>()[b]; t < 40; ++t)
          for (i64 c = 0; c < 2 * width; ++c) zeros.as<float>()[(b * 40 + t) * 2 * width + c] = 0;
      other = zeros.clone();
      for (i64 b = 0; b < 3; ++b)
        for (i64 t = lengths.as<std::int32_t>()[b]; t < 40; ++t)
          for (i64 c = 0; c < 2 * width; ++c)
            other.as<float>()[(b * 40 + t) * 2 * width + c] = std::nanf("");
      std::vector<std::vector<float>> results[2];
      for (const bool nan : {false, true}) {
        Tensor queries = q.clone(), kv = nan ? other : zeros;
        queries.requires_grad(), kv.requires_grad();
        const Tensor y = attention(queries, kv, {}, lengths);
        sum(mul(y, y)).backward();
        results[nan] = {list(y), list(queries.grad()), list(kv.grad())};
      }
      EXPECT_EQ(results[0][0], results[1][0]) << "result";
      EXPECT_EQ(results[0][1], results[1][1]) << "gradient of q";
      EXPECT_EQ(results[0][2], results[1][2]) << "gradient of k and v";
    }
}

TEST(Attention, ByStepsWithACacheIsThatOfTheWhole) {
  for (const std::string& form : backend_names()) {
    SCOPED_TRACE(form);
    const UseBackend use(form);
    const i64 length = 70, width = 8;
    const Tensor qkv = normal({1, length, 3 * width}, 1);
    const AttentionOptions causal{.heads = 2, .causal = true};
    const Tensor whole = attention(qkv, causal);
    Tensor cache = Tensor::full({1, length, 2 * width}, 9);  // what is not filled is not read
    for (i64 begin = 0, tokens = 33; begin < length; begin += tokens, tokens = 1) {
      Tensor q = Tensor::empty({1, tokens, width});
      for (i64 t = 0; t < tokens; ++t) {
        const float* row = qkv.as<float>() + (begin + t) * 3 * width;
        std::copy_n(row, width, q.as<float>() + t * width);
        std::copy_n(row + width, 2 * width, cache.as<float>() + (begin + t) * 2 * width);
      }
      AttentionOptions step = causal;
      step.first = begin;
      expect_near(attention(q, cache, step).reshape({tokens, width}),
                  whole.reshape({length, width}).slice(begin, begin + tokens), 2e-6f);
    }
  }
}

TEST(Attention, DropsTheShareOfItsWeightsThatItIsTold) {
  // values of one: a query's result is the sum of its weights after dropout, 1 on average
  Tensor q = Tensor::zeros({1, 200, 1}), kv = Tensor::zeros({1, 500, 2});
  for (i64 t = 0; t < 500; ++t) kv.as<float>()[2 * t + 1] = 1;
  const AttentionOptions drop{.dropout = 0.25f, .seed = 1, .stream = stream_of(2, q)};
  const Tensor y = attention(q, kv, drop);
  EXPECT_NEAR(mean(y).item(), 1, 0.01);
  EXPECT_NE(y.as<float>()[0], y.as<float>()[1]);
  EXPECT_EQ(list(y), list(attention(q, kv, drop)));
  EXPECT_NE(list(y),
            list(attention(q, kv, {.dropout = 0.25f, .seed = 1, .stream = stream_of(3, q)})));
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const Tensor qkv = normal({2, 3, 12}, 1), q = normal({2, 3, 4}, 1), kv = normal({2, 5, 8}, 1);
  EXPECT_THAT(error_of<ShapeError>([&] { attention(qkv, {.heads = 3}); }), HasSubstr("9 heads"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                attention(q.reshape({6, 4}), {});
              }),
              HasSubstr("[B, T, 3 H D]"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                attention(q, normal({2, 5, 4}, 1), {});
              }),
              HasSubstr("[B, Tk, 2 K D]"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                attention(qkv, {}, integers({1, 2, 3}));
              }),
              HasSubstr("i32 [2]"));
  EXPECT_THAT(error_of<ShapeError>([&] { attention(q, kv, {.causal = true, .first = 3}); }),
              HasSubstr("from position 3"));
}

// On a GPU all logits are there at once, in 16 bits: rounded once more, as in PyTorch.
TEST(HeadLoss, OnAGpuIsThatOfTheReferenceButForTheRoundingOfLogits) {
  const i64 rows = 30, classes = 500, width = 16;
  const std::vector<std::int32_t> wanted = [&] {
    std::vector<std::int32_t> all;
    for (i64 r = 0; r < rows; ++r)
      all.push_back(r % 7 == 0 ? -1 : static_cast<std::int32_t>(97 * r % classes));
    return all;
  }();
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(type));
    const auto run = [&](const char* name) {
      const UseBackend use(name);
      Tensor x = normal({rows, width}, 1).to(type), table = normal({classes, width}, 2).to(type);
      x.requires_grad();
      table.requires_grad();
      const Tensor loss = mul(head_loss(x, table, integers(wanted), {.ignore = -1}), 64);
      loss.backward();
      return std::vector<Tensor>{loss.detach(), x.grad().to(DType::f32),
                                 table.grad().to(DType::f32)};
    };
    const std::vector<Tensor> got = run("cuda_emulated"), want = run("reference");
    // a logit of up to 16 is off by half a step of its type, so p by as much of itself
    const float off = type == DType::bf16 ? 0x1p-5f : type == DType::f16 ? 0x1p-8f : 1e-5f;
    for (std::size_t k = 0; k < want.size(); ++k) {
      float top = 0;
      for (const float v : want[k].span<float>()) top = std::max(top, std::fabs(v));
      expect_near(got[k], want[k], off * top);
    }
  }
}

TEST(HeadLoss, InPartsIsThatOfAllLogits) {
  const i64 rows = 300, classes = 20'000;  // 256 rows at a time
  Tensor x = normal({rows, 3}, 1), table = normal({classes, 3}, 2);
  Tensor x2 = x.clone().requires_grad(), table2 = table.clone().requires_grad();
  x.requires_grad();
  table.requires_grad();
  std::vector<std::int32_t> wanted;
  for (i64 r = 0; r < rows; ++r)
    wanted.push_back(r % 7 == 0 ? -1 : static_cast<std::int32_t>(997 * r % classes));
  const CrossEntropyOptions some{.label_smoothing = 0.1f, .ignore = -1};
  const Tensor loss = head_loss(x, table, integers(wanted), some),
               whole = cross_entropy(linear(x2, table2), integers(wanted), some);
  EXPECT_NEAR(loss.item(), whole.item(), 1e-5);
  loss.backward();
  whole.backward();
  expect_near(x.grad(), x2.grad(), 1e-6f);
  expect_near(table.grad(), table2.grad(), 1e-6f);
  EXPECT_EQ(head_loss(x.detach(), table.detach(), integers(wanted), some).item(), loss.item());
}

TEST(Losses, OfNoRowThatCountsAreZero) {
  for (const std::string& form : backend_names()) {
    const UseBackend use(form);
    Tensor x = normal({2, 3}, 1).requires_grad(), table = normal({4, 3}, 2).requires_grad();
    const CrossEntropyOptions some{.ignore = -1};
    const Tensor loss = head_loss(x, table, integers({-1, -1}), some);
    EXPECT_EQ(loss.item(), 0);
    loss.backward();
    EXPECT_EQ(list(x.grad()), std::vector<float>(6, 0));
    EXPECT_EQ(list(table.grad()), std::vector<float>(12, 0));
  }
}

TEST(Losses, NameALabelThatIsNeitherAClassNorIgnored) {
  const Tensor x = normal({2, 3}, 1), table = normal({4, 3}, 2);
  const auto loss = [&](CrossEntropyOptions o) { head_loss(x, table, integers({-1, 4}), o); };
  EXPECT_THAT(error_of<ShapeError>([&] { loss({}); }),
              AllOf(HasSubstr("label -1"), HasSubstr("row 0")));
  EXPECT_THAT(error_of<ShapeError>([&] { loss({.ignore = -1}); }),
              AllOf(HasSubstr("label 4"), HasSubstr("row 1"), HasSubstr("[0, 4)")));
}

// A small language model: its tied table, one block, its loss; widths that fill no vector.
std::vector<std::vector<float>> bits_of_a_model(DType type, i64 width) {
  Tensor table = normal({50, width}, 1), scale = normal({width}, 2),
         in = normal({3 * width, width}, 3), bias = normal({3 * width}, 4),
         up = normal({4 * width, width}, 5), down = normal({width, 4 * width}, 6);
  for (Tensor* t : {&table, &in, &up, &down}) *t = t->to(type);
  for (Tensor* t : {&table, &scale, &in, &bias, &up, &down}) t->requires_grad();
  std::vector<std::int32_t> ids;
  for (i64 i = 0; i < 3 * 130; ++i) ids.push_back(static_cast<std::int32_t>(i * i % 50));
  const Tensor x = embedding(Tensor::from(ids, {3, 130}), table);
  const Tensor qkv = linear(layer_norm(x, scale), in, bias);
  const NormedSum n = add_layer_norm(x, attention(qkv, {.heads = 3, .causal = true}), scale);
  const Tensor y = add(n.sum, linear(linear(n.y, up, {}, Activation::gelu_tanh), down));
  const Tensor loss = head_loss(y.reshape({-1, width}), table, integers(ids));
  loss.backward();
  std::vector<std::vector<float>> all{list(y.detach().to(DType::f32)), {loss.item()}};
  for (const Tensor* t : {&table, &scale, &in, &bias, &up, &down})
    all.push_back(list(t->grad().to(DType::f32)));
  return all;
}

TEST(TextOps, GiveTheSameBitsForAnyNumberOfThreads) {
  const int before = compute_threads();
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const i64 width : {48, 144, 256 * 3}) {
      set_compute_threads(1);
      const auto one = bits_of_a_model(type, width);
      for (const int threads : {2, 3, 5, 16}) {
        set_compute_threads(threads);
        const auto several = bits_of_a_model(type, width);
        for (std::size_t i = 0; i < one.size(); ++i)
          EXPECT_TRUE(one[i] == several[i])
              << type << ", width " << width << ", " << threads << " threads, tensor " << i;
      }
    }
  }
  set_compute_threads(before);
}

}  // namespace
}  // namespace gossamer
