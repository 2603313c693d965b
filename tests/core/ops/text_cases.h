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

inline void attentions(std::vector<OpCase>& all) {
  // keys 0: packed q, k and v
  const auto add = [&](const char* what, i64 batch, i64 queries, i64 keys, i64 width,
                       const AttentionOptions& like, const std::vector<std::int32_t>& seen = {}) {
    const bool packed = keys == 0;
    std::vector<Shape> inputs{{batch, queries, (packed ? 3 : 1) * width}};
    if (!packed) inputs.push_back({batch, keys, 2 * width});
    all.push_back({"attention",
                   what,
                   inputs,
                   [=](const Inputs& in) {
                     const Tensor lengths =
                         seen.empty() ? Tensor() : integers(seen, {batch}, in[0]);
                     AttentionOptions options = like;
                     options.stream = stream_of(4, in[0]);
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
  attentions(all);
  text_losses(all);
}

}  // namespace gossamer::testing::rows
