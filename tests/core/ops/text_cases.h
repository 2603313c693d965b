// Rows of the list of ops (op_cases.h): what language models are made of.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/ops/op_case.h"

namespace gossamer::testing::rows {

using Inputs = std::vector<Tensor>;

inline Tensor integers(const std::vector<std::int32_t>& values, const Shape& shape,
                       const Tensor& like) {
  return Tensor::from(values, {static_cast<i64>(values.size())}).reshape(shape).to(like.device());
}

inline void embeddings(std::vector<OpCase>& all) {
  all.push_back({"embedding",
                 "ids that repeat",
                 {{7, 5}},
                 [](const Inputs& in) {
                   return embedding(integers({3, 0, 3, 6, 3, 0}, {2, 3}, in[0]), in[0]);
                 },
                 {},
                 {},
                 3});
  all.push_back({"embedding",
                 "a tied head",
                 {{6, 4}},
                 [](const Inputs& in) {
                   // the head's gradient comes first, the rows are added to it
                   const Tensor x = embedding(integers({5, 2, 2}, {3}, in[0]), in[0]);
                   return head_loss(x, in[0], labels_of(3, 6).to(in[0].device()));
                 },
                 {},
                 {},
                 12});
}

inline void layer_norms(std::vector<OpCase>& all) {
  for (const Shape& shape : {Shape{3, 4, 6}, Shape{70, 37}, Shape{5, 300}})
    for (const bool shifted : {true, false}) {
      const i64 c = shape[-1];
      std::vector<Shape> inputs{shape, {c}};
      if (shifted) inputs.push_back({c});
      const int terms = static_cast<int>(std::max(c, shape.numel() / c));
      all.push_back(
          {"layer_norm",
           shifted ? "" : "no shift",
           inputs,
           [=](const Inputs& in) { return layer_norm(in[0], in[1], shifted ? in[2] : Tensor()); },
           {Draw::normal, Draw::positive, Draw::normal},
           {false, true, true},
           terms,
           true,
           true});
      inputs.insert(inputs.begin() + 1, shape);
      all.push_back({"add_layer_norm",
                     shifted ? "" : "no shift",
                     inputs,
                     [=](const Inputs& in) {
                       const NormedSum n =
                           add_layer_norm(in[0], in[1], in[2], shifted ? in[3] : Tensor(), 0.1f);
                       return add(n.y, n.sum);
                     },
                     {Draw::normal, Draw::normal, Draw::positive, Draw::normal},
                     {false, false, true, true},
                     terms,
                     true,
                     true});
    }
  all.push_back({"dropout_add", "p 0.3", {{7, 9}, {7, 9}}, [](const Inputs& in) {
                   return dropout_add(in[0], in[1], 0.3f, 5, stream_of(6, in[0]));
                 }});
  all.push_back({"dropout_add", "p 0", {{7}, {7}}, [](const Inputs& in) {
                   return dropout_add(in[0], in[1], 0, 5, {});
                 }});
}

inline void rms_norms(std::vector<OpCase>& all) {
  for (const Shape& shape : {Shape{3, 4, 6}, Shape{70, 37}, Shape{5, 304}, Shape{2, 1100}}) {
    const i64 c = shape[-1];
    const int terms = static_cast<int>(std::max(c, shape.numel() / c));
    all.push_back({"rms_norm",
                   "",
                   {shape, {c}},
                   [](const Inputs& in) { return rms_norm(in[0], in[1]); },
                   {Draw::normal, Draw::positive},
                   {false, true},
                   terms,
                   true,
                   true});
    all.push_back({"add_rms_norm",
                   "",
                   {shape, shape, {c}},
                   [](const Inputs& in) {
                     const NormedSum n = add_rms_norm(in[0], in[1], in[2], 0.1f);
                     return add(n.y, n.sum);
                   },
                   {Draw::normal, Draw::normal, Draw::positive},
                   {false, false, true},
                   terms,
                   true,
                   true});
  }
  // heads of 5, and of 8, which a GPU reads in vectors
  for (const i64 size : {5, 8})
    for (const i64 kv_heads : {1, 2})
      all.push_back(
          {"rms_norm_heads",
           "",
           {{2, 7, (4 + 2 * kv_heads) * size}, {size}, {size}},
           [=](const Inputs& in) { return rms_norm_heads(in[0], kv_heads, in[1], in[2]); },
           {Draw::normal, Draw::positive, Draw::positive},
           {false, true, true},
           60,
           true,
           true});
}

inline void rotations(std::vector<OpCase>& all) {
  // rows of any numbers: the op does not know that they are cosines and sines
  const auto table = [](i64 rows, i64 size, const Tensor& like) {
    Tensor t = Tensor::empty({rows, size});
    for (i64 i = 0; i < t.numel(); ++i) t.as<float>()[i] = static_cast<float>(i % 7 - 3) / 3;
    return t.to(like.device());
  };
  all.push_back({"rope",
                 "heads of 6, of which two are kept",
                 {{2, 3, 24}},
                 [=](const Inputs& in) {
                   return rope(in[0], table(9, 6, in[0]), integers({4, 0, 8}, {3}, in[0]), 2);
                 },
                 {},
                 {},
                 2,
                 true,
                 true});
  all.push_back({"rope",
                 "positions of each text, in place",
                 {{2, 3, 8}},
                 [=](const Inputs& in) {
                   const Tensor at = integers({4, 0, 8, 1, 1, 2}, {2, 3}, in[0]);
                   return rope(mul(in[0], 2), table(9, 8, in[0]), at, 1);
                 },
                 {},
                 {},
                 2,
                 true,
                 true});
  for (const i64 width : {5, 16})
    all.push_back({"swiglu",
                   "",
                   {{3, 4, 2 * width}},
                   [](const Inputs& in) { return swiglu(in[0]); },
                   {},
                   {},
                   1,
                   true,
                   true});
}

inline void joined_products(std::vector<OpCase>& all) {
  all.push_back({"joined_linear",
                 "",
                 {{3, 4, 5}, {6, 5}, {2, 5}},
                 [](const Inputs& in) {
                   return joined_linear(in[0], {in[1], in[2]});
                 },
                 {},
                 {},
                 12,
                 true,
                 true});
  all.push_back({"joined_linear",
                 "biases",
                 {{7, 5}, {3, 5}, {1, 5}, {2, 5}, {3}, {1}, {2}},
                 [](const Inputs& in) {
                   return joined_linear(in[0], {in[1], in[2], in[3]}, {in[4], in[5], in[6]});
                 },
                 {},
                 {},
                 7,
                 true,
                 true});
}

inline void attentions(std::vector<OpCase>& all) {
  // keys 0: packed q, k and v. width: of q
  const auto add = [&](const char* what, i64 batch, i64 queries, i64 keys, i64 width,
                       const AttentionOptions& like, const std::vector<std::int32_t>& seen = {},
                       const std::vector<std::int32_t>& begins = {}) {
    const bool packed = keys == 0;
    const i64 kv = 2 * width / like.heads * (like.kv_heads > 0 ? like.kv_heads : like.heads);
    std::vector<Shape> inputs{{batch, queries, width + (packed ? kv : 0)}};
    if (!packed) inputs.push_back({batch, keys, kv});
    all.push_back({"attention",
                   what,
                   inputs,
                   [=](const Inputs& in) {
                     const Tensor lengths =
                         seen.empty() ? Tensor() : integers(seen, {batch}, in[0]);
                     AttentionOptions options = like;
                     options.stream = stream_of(4, in[0]);
                     if (!begins.empty())
                       options.begins = integers(begins, {batch, queries}, in[0]);
                     return packed ? attention(in[0], options, lengths)
                                   : attention(in[0], in[1], options, lengths);
                   },
                   {},
                   {},
                   static_cast<int>(std::max(queries, keys)),
                   true,
                   true});
  };
  add("packed", 2, 5, 0, 6, {.heads = 2});
  add("causal", 1, 9, 0, 8, {.heads = 1, .causal = true});
  add("causal, two blocks", 1, 70, 0, 6, {.heads = 2, .causal = true});
  add("padding", 3, 4, 0, 10, {.heads = 2}, {4, 1, 3});
  add("causal and padding", 2, 35, 0, 3, {.heads = 1, .causal = true}, {30, 35});
  add("a row without keys", 2, 3, 0, 4, {.heads = 2}, {0, 2});
  add("cross", 2, 3, 7, 4, {.heads = 2});
  add("cross, padding", 2, 67, 40, 4, {.heads = 1}, {40, 9});
  add("a step with a cache", 2, 1, 6, 8, {.heads = 2, .causal = true, .first = 3});
  add("three steps with a cache", 1, 3, 130, 4, {.heads = 1, .causal = true, .first = 120});
  add("dropout", 2, 9, 0, 6, {.heads = 2, .dropout = 0.3f, .seed = 3});
  add("dropout, causal, two blocks", 1, 66, 0, 4,
      {.heads = 2, .causal = true, .dropout = 0.5f, .seed = 3});
  add("heads of 64, causal", 1, 12, 0, 64, {.heads = 1, .causal = true});
  add("heads of 64, cross", 1, 5, 12, 64, {.heads = 1});
  add("groups", 2, 5, 0, 12, {.heads = 4, .kv_heads = 2});
  add("groups, causal, two blocks", 1, 70, 0, 6, {.heads = 3, .kv_heads = 1, .causal = true});
  add("groups, cross, padding", 2, 67, 40, 8, {.heads = 4, .kv_heads = 2}, {40, 9});
  add("groups, a step with a cache", 2, 1, 70, 8,
      {.heads = 4, .kv_heads = 2, .causal = true, .first = 68});
  add("groups, dropout", 2, 9, 0, 8, {.heads = 4, .kv_heads = 2, .dropout = 0.3f, .seed = 3});
  add("a window", 2, 9, 0, 6, {.heads = 2, .causal = true, .window = 3});
  add("a window, three blocks, groups", 1, 140, 0, 4,
      {.heads = 2, .kv_heads = 1, .causal = true, .window = 37});
  add("a window, a step with a cache", 1, 2, 150, 8,
      {.heads = 2, .causal = true, .first = 140, .window = 75});
  add("a window, padding", 2, 40, 0, 4, {.heads = 1, .causal = true, .window = 5}, {40, 20});
  add("documents", 2, 5, 0, 4, {.heads = 2, .causal = true}, {}, {0, 0, 2, 2, 4, 0, 1, 1, 1, 1});
  std::vector<std::int32_t> begins;
  for (std::int32_t i = 0; i < 2 * 75; ++i) begins.push_back(i % 75 / 11 * 11);
  add("documents, a window, groups", 2, 75, 0, 4,
      {.heads = 2, .kv_heads = 1, .causal = true, .window = 7}, {}, begins);
  add("wide heads", 1, 9, 0, 80, {.heads = 1});
  add("wider heads", 1, 5, 0, 150, {.heads = 1, .causal = true});
}

inline void text_losses(std::vector<OpCase>& all) {
  for (const float smoothing : {0.0f, 0.1f}) {
    const CrossEntropyOptions some{.label_smoothing = smoothing, .ignore = -1};
    const auto labels = [](const Tensor& like) {
      return integers({3, -1, 0, 10, -1, 7}, {6}, like);
    };
    all.push_back({"cross_entropy",
                   smoothing > 0 ? "rows ignored, label smoothing" : "rows ignored",
                   {{6, 11}},
                   [=](const Inputs& in) { return cross_entropy(in[0], labels(in[0]), some); },
                   {},
                   {},
                   11,
                   true,
                   true});
    all.push_back({"head_loss",
                   smoothing > 0 ? "rows ignored, label smoothing" : "rows ignored",
                   {{6, 5}, {11, 5}},
                   [=](const Inputs& in) { return head_loss(in[0], in[1], labels(in[0]), some); },
                   {},
                   {},
                   11,
                   true,
                   true});
  }
}

inline void text(std::vector<OpCase>& all) {
  embeddings(all);
  layer_norms(all);
  rms_norms(all);
  rotations(all);
  joined_products(all);
  attentions(all);
  text_losses(all);
}

}  // namespace gossamer::testing::rows
