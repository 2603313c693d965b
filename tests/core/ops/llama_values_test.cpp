// The ops of LLaMA's kind of model by hand, and attention with shared heads, windows and documents
// as what it must equal: heads repeated, keys cut off, texts apart.
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gossamer/core/compute.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/ops/decode.h"
#include "gossamer/core/random.h"
#include "support/error_of.h"
#include "support/use_backend.h"

namespace gossamer {
namespace {

using ::testing::HasSubstr;

Tensor normal(Shape shape, std::uint64_t seed) {
  Tensor t = Tensor::empty(shape);
  Rng rng(seed);
  for (float& v : t.span<float>()) v = rng.normal();
  return t;
}
Tensor floats(std::vector<float> v, Shape shape) { return Tensor::from(v, shape); }
Tensor integers(std::vector<std::int32_t> v, Shape shape) { return Tensor::from(v, shape); }
void expect_near(const Tensor& got, const Tensor& want, float tolerance = 1e-6f) {
  ASSERT_EQ(got.shape(), want.shape());
  for (std::size_t i = 0; i < static_cast<std::size_t>(want.numel()); ++i)
    ASSERT_NEAR(got.span<float>()[i], want.span<float>()[i], tolerance) << "element " << i;
}
// columns [begin, end) of rows [B, T, W]
Tensor columns(const Tensor& x, i64 begin, i64 end) {
  Tensor out = Tensor::empty({x.shape(0), x.shape(1), end - begin});
  for (i64 r = 0; r < x.shape(0) * x.shape(1); ++r)
    std::copy_n(x.as<float>() + r * x.shape(2) + begin, end - begin,
                out.as<float>() + r * (end - begin));
  return out;
}

class LlamaOps : public ::testing::TestWithParam<std::string> {
  UseBackend use_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Backends, LlamaOps, ::testing::ValuesIn(backend_names()));

TEST_P(LlamaOps, RmsNormSubtractsNoMean) {
  const Tensor scale = floats({1, 2}, {2});
  // sqrt(mean of 9 and 16) = 3.5355339
  expect_near(rms_norm(floats({3, 4}, {1, 2}), scale, 0), floats({0.8485281f, 2.2627417f}, {1, 2}));
  expect_near(rms_norm(floats({3, 4}, {1, 2}), scale, 3.5f), floats({0.75f, 2}, {1, 2}));
  const NormedSum n = add_rms_norm(floats({1, 1}, {1, 2}), floats({2, 3}, {1, 2}), scale, 3.5f);
  expect_near(n.y, floats({0.75f, 2}, {1, 2}));
  expect_near(n.sum, floats({3, 4}, {1, 2}));
}

TEST_P(LlamaOps, RmsNormOfHeadsIsThatOfEachHead) {
  const i64 heads = 3, kv = 2, size = 8;
  const Tensor qkv = normal({2, 5, (heads + 2 * kv) * size}, 1), q_scale = normal({size}, 2),
               k_scale = normal({size}, 3), y = rms_norm_heads(qkv, kv, q_scale, k_scale, 0.1f);
  for (i64 h = 0; h < heads + 2 * kv; ++h) {
    const Tensor head = columns(qkv, h * size, (h + 1) * size);
    expect_near(columns(y, h * size, (h + 1) * size),
                h >= heads + kv ? head : rms_norm(head, h < heads ? q_scale : k_scale, 0.1f));
  }
  EXPECT_THAT(error_of<ShapeError>([&] { rms_norm_heads(qkv, 4, q_scale, k_scale); }),
              HasSubstr("(H + 2 K) D"));
}

TEST_P(LlamaOps, RopeTurnsHalvesAndNotNeighbours) {
  // position 1 turns the first pair by 90 degrees, the second by 180
  const Tensor table = floats({1, 1, 0, 0, 0, -1, 1, 0}, {2, 4}), at = integers({0, 1}, {2}),
               x = floats({1, 2, 3, 4, 9, 1, 2, 3, 4, 9}, {1, 2, 5});
  const Tensor want = floats({1, 2, 3, 4, 9, -3, -2, 1, -4, 9}, {1, 2, 5});
  expect_near(rope(x, table, at, 1), want);
  expect_near(x, floats({1, 2, 3, 4, 9, 1, 2, 3, 4, 9}, {1, 2, 5}));  // others hold it
  Tensor own = x.clone();
  const void* const memory = own.data();
  const Tensor y = rope(std::move(own), table, at, 1);
  EXPECT_EQ(y.data(), memory);
  expect_near(y, want);
}

TEST_P(LlamaOps, RopesGradientTurnsBack) {
  const Tensor table = floats({1, 1, 0, 0, 0, -1, 1, 0}, {2, 4}), at = integers({1}, {1}),
               up = floats({1, 2, 3, 4, 5}, {1, 1, 5});
  Tensor x = normal({1, 1, 5}, 1);
  x.requires_grad();
  sum(mul(rope(x, table, at, 1), up)).backward();
  expect_near(x.grad(), floats({3, -2, -1, -4, 5}, {1, 1, 5}));
}

TEST_P(LlamaOps, RopeNamesAPositionThatTheTableDoesNotHave) {
  EXPECT_THAT(error_of<ShapeError>([] {
                rope(normal({1, 2, 4}, 1), normal({3, 4}, 2), integers({0, 3}, {2}), 1);
              }),
              HasSubstr("position 3 is not in the table of 3"));
  EXPECT_THAT(error_of<ShapeError>([] {
                rope(normal({1, 2, 4}, 1), normal({3, 4}, 2), integers({0, 1}, {2}), 2);
              }),
              HasSubstr("2 heads of 4 columns"));
}

TEST_P(LlamaOps, SwigluGatesTheSecondHalfByTheFirst) {
  const Tensor y = swiglu(floats({1, -200, 2, 3}, {1, 4}));
  expect_near(y, floats({2 * 0.7310586f, 0}, {1, 2}));
  EXPECT_THAT(error_of<ShapeError>([] { swiglu(normal({2, 3}, 1)); }), HasSubstr("[..., 2F]"));
}

// q heads of `size` columns with k and v of their own, from groups that share them.
Tensor repeated(const Tensor& qkv, i64 heads, i64 kv, i64 size) {
  Tensor out = Tensor::empty({qkv.shape(0), qkv.shape(1), 3 * heads * size});
  for (i64 r = 0; r < qkv.shape(0) * qkv.shape(1); ++r) {
    const float* from = qkv.as<float>() + r * (heads + 2 * kv) * size;
    float* to = out.as<float>() + r * 3 * heads * size;
    std::copy_n(from, heads * size, to);
    for (i64 part = 0; part < 2; ++part)
      for (i64 h = 0; h < heads; ++h)
        std::copy_n(from + (heads + part * kv + h / (heads / kv)) * size, size,
                    to + ((1 + part) * heads + h) * size);
  }
  return out;
}

TEST_P(LlamaOps, HeadsThatShareKeysAreHeadsWithCopiesOfThem) {
  const i64 heads = 4, kv = 2, size = 4, length = 70;
  Tensor qkv = normal({2, length, (heads + 2 * kv) * size}, 1),
         copies = repeated(qkv, heads, kv, size);
  qkv.requires_grad(), copies.requires_grad();
  const Tensor weights = normal({2, length, heads * size}, 2);
  const Tensor y = attention(qkv, {.heads = 4, .kv_heads = 2, .causal = true}),
               want = attention(copies, {.heads = 4, .causal = true});
  expect_near(y.detach(), want.detach(), 2e-6f);
  sum(mul(y, weights)).backward();
  sum(mul(want, weights)).backward();
  for (i64 h = 0; h < heads + 2 * kv; ++h) {
    const Tensor got = columns(qkv.grad(), h * size, (h + 1) * size);
    Tensor sum = Tensor::zeros(got.shape());
    const i64 part = h < heads        ? 0
                     : h < heads + kv ? 1
                                      : 2,
              first = part == 0 ? h : part * heads + (h - heads - (part - 1) * kv) * (heads / kv);
    for (i64 c = first; c < first + (part == 0 ? 1 : heads / kv); ++c)
      sum = add(sum, columns(copies.grad(), c * size, (c + 1) * size));
    expect_near(got, sum, 2e-5f);
  }
}

TEST_P(LlamaOps, AWindowSeesTheLastKeysAndItself) {
  const i64 length = 90, window = 33;
  const Tensor qkv = normal({1, length, 12}, 1),
               y = attention(qkv, {.heads = 1, .causal = true, .window = window});
  for (i64 i = 0; i < length; ++i) {
    const i64 begin = std::max<i64>(0, i + 1 - window);
    const Tensor rows =
        qkv.reshape({length, 12}).slice(begin, i + 1).reshape({1, i + 1 - begin, 12});
    expect_near(
        y.reshape({length, 4}).slice(i, i + 1).reshape({1, 1, 4}),
        attention(
            columns(rows, 0, 4).reshape({-1, 4}).slice(i - begin, i + 1 - begin).reshape({1, 1, 4}),
            columns(rows, 4, 12), {}),
        2e-6f);
  }
}

TEST_P(LlamaOps, DocumentsOfATextAreTextsApart) {
  const i64 lengths[] = {40, 1, 50};
  std::vector<std::int32_t> begins;
  for (const i64 n : lengths)
    begins.insert(begins.end(), static_cast<std::size_t>(n),
                  static_cast<std::int32_t>(begins.size()));
  const i64 total = static_cast<i64>(begins.size());
  Tensor qkv = normal({1, total, 12}, 1), apart = qkv.clone();
  qkv.requires_grad();
  const Tensor y =
      attention(qkv, {.heads = 2, .causal = true, .begins = integers(begins, {1, total})});
  sum(mul(y, y)).backward();
  i64 at = 0;
  for (const i64 n : lengths) {
    Tensor one = apart.reshape({total, 12}).slice(at, at + n).clone().reshape({1, n, 12});
    one.requires_grad();
    const Tensor want = attention(one, {.heads = 2, .causal = true});
    sum(mul(want, want)).backward();
    expect_near(y.detach().reshape({total, 4}).slice(at, at + n), want.detach().reshape({n, 4}),
                2e-6f);
    expect_near(qkv.grad().reshape({total, 12}).slice(at, at + n), one.grad().reshape({n, 12}),
                2e-5f);
    at += n;
  }
}

TEST_P(LlamaOps, ARingOfAWindowServesStepsForEver) {
  const i64 length = 40, window = 7, size = 8;
  const Tensor qkv = normal({2, length, 4 * size}, 1);  // two heads that share one of keys
  const AttentionOptions options{.heads = 2, .kv_heads = 1, .causal = true, .window = window};
  const Tensor whole = attention(qkv, options);
  const Tensor ring = Tensor::zeros({2, window, 2 * size});
  TextPositions positions(2, Device::cpu());
  const auto rows = [](const Tensor& x, i64 begin, i64 end) {
    Tensor out = Tensor::empty({x.shape(0), end - begin, x.shape(2)});
    for (i64 b = 0; b < x.shape(0); ++b)
      std::copy_n(x.as<float>() + (b * x.shape(1) + begin) * x.shape(2), (end - begin) * x.shape(2),
                  out.as<float>() + b * (end - begin) * x.shape(2));
    return out;
  };
  const i64 prompt = 18;  // more than the ring holds
  append_keys_values(rows(qkv, 0, prompt), ring, 0, CacheRows::ring);
  positions.move_to(prompt);
  for (i64 t = prompt; t < length; ++t) {
    const Tensor q = append_keys_values(rows(qkv, t, t + 1), ring, positions, CacheRows::ring);
    expect_near(attention(q, ring, {.heads = 2, .kv_heads = 1}, positions.seen()),
                rows(whole, t, t + 1), 2e-6f);
    positions.advance();
  }
}

TEST(LlamaOpsErrors, SayWhatDoesNotFit) {
  const Tensor qkv = normal({2, 3, 12}, 1);
  EXPECT_THAT(error_of<ShapeError>([&] { attention(qkv, {.heads = 3, .kv_heads = 2}); }),
              HasSubstr("3 heads of queries cannot share 2 heads of keys"));
  EXPECT_THAT(error_of<ShapeError>([&] { attention(qkv, {.window = 2}); }),
              HasSubstr("without a causal mask"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                attention(qkv, {.causal = true, .begins = integers({0, 2, 1, 0, 0, 0}, {2, 3})});
              }),
              HasSubstr("begins[0][2] is 1"));
  EXPECT_THAT(error_of<ShapeError>([&] {
                joined_linear(qkv, {normal({2, 12}, 1), normal({2, 11}, 1)});
              }),
              HasSubstr("do not fit"));
}

}  // namespace
}  // namespace gossamer
