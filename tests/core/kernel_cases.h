// The cases in which fused passes are compared between a CPU and a GPU: each runs on the device it
// is given and returns what it made.
#pragma once

#include <cctype>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/attention_rounding.h"
#include "core/kernel_helpers.h"
#include "gossamer/core/cuda/stem.h"
#include "gossamer/core/exchange.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/input_pass.h"
#include "gossamer/core/update.h"

namespace gossamer::testing {

using Results = std::vector<std::pair<std::string, Tensor>>;
struct KernelCase {
  std::string name;
  std::function<Results(Device)> run;
  double relative, absolute;  // both 0: the same bits
  // What each element may differ by beside that, for the results of these names; none: nothing.
  std::function<Results()> slack{};
};

inline Tensor raw(Device device, const void* data, std::size_t bytes) {
  Tensor t = Tensor::empty({static_cast<i64>(bytes)}, DType::u8);
  std::memcpy(t.data(), data, bytes);
  return on(device, t);
}

// add and ReLU: the mask is bits; ReLU alone: it is computed again.
inline Results norm_case(Device d, const Shape& shape, DType type, bool relu, bool with_add) {
  NormOn n(shape, type, d);
  const i64 c = shape[-1];
  const NormRunning running{on(d, Tensor::zeros({c})), on(d, Tensor::full({c}, 1)), 0.1f};
  passes(d).norm_statistics(n, NormOn::kEps, running);
  const Tensor add = on(d, normal(shape, 30, type)), dy = on(d, normal(shape, 31, type));
  const NormTail tail{.add = with_add ? &add : nullptr, .relu = relu};
  Tensor y = Tensor::empty(shape, type, d), d_add = Tensor::empty(shape, type, d);
  const Tensor mask = passes(d).norm_apply(n, tail, true, y);
  const NormGrads grads = grads_like(n);
  passes(d).norm_back(n, tail, mask, dy, grads, nullptr, &d_add);
  return {{"mean", n.mean},
          {"inv_std", n.inv_std},
          {"running mean", running.mean},
          {"running var", running.var},
          {"y", y},
          {"dx", grads.dx},
          {"d_add", d_add},
          {"d_scale", grads.d_scale},
          {"d_shift", grads.d_shift}};
}

inline Results projection_case(Device d, const Shape& shape, DType type) {
  const NormOn one(shape, type, d), two(shape, type, d, 50);
  const NormTail tail{.second = &two, .relu = true};
  Tensor y = Tensor::empty(shape, type, d);
  const Tensor dy = on(d, normal(shape, 60, type)), mask = passes(d).norm_apply(one, tail, true, y);
  const NormGrads a = grads_like(one), b = grads_like(two);
  passes(d).norm_back(one, tail, mask, dy, a, &b, nullptr);
  return {{"y", y},
          {"dx", a.dx},
          {"dx2", b.dx},
          {"d_scale", a.d_scale},
          {"d_scale2", b.d_scale},
          {"d_shift", a.d_shift},
          {"d_shift2", b.d_shift}};
}

inline Results stem_case(Device d, const Shape& shape, DType type) {
  const NormOn n(shape, type, d);
  const Shape pooled{shape[0], (shape[1] - 1) / 2 + 1, (shape[2] - 1) / 2 + 1, shape[3]};
  const NormTail tail{.relu = true, .pool = true};
  Tensor y = Tensor::empty(pooled, type, d);
  const Tensor taken = passes(d).norm_apply(n, tail, true, y), dy = on(d, normal(pooled, 9, type));
  const NormGrads grads = grads_like(n);
  passes(d).norm_back(n, tail, taken, dy, grads, nullptr, nullptr);
  Tensor images = on(d, normal({2, 20, 24, 3}, 3, type)),
         pairs = Tensor::empty({2, 10, 12, 16}, type, d), w = on(d, normal({8, 7, 7, 3}, 4)),
         filters = Tensor::empty({8, 4, 4, 16}, type, d),
         dw = Tensor::empty({8, 7, 7, 3}, DType::f32, d);
  stem::pair_images(images, pairs);
  stem::pair_filters(w, filters);
  stem::unpair_filters(filters, dw);
  return {{"y", y},
          {"dx", grads.dx},
          {"d_scale", grads.d_scale},
          {"d_shift", grads.d_shift},
          {"pairs", pairs},
          {"filters", filters},
          {"dw", dw}};
}

inline Results pool_case(Device d, const Shape& s, DType type, int kernel, int stride,
                         int padding) {
  const i64 height = (s[1] + 2 * padding - kernel) / stride + 1,
            width = (s[2] + 2 * padding - kernel) / stride + 1;
  const PoolGeometry p{s[0], s[1], s[2], s[3], height, width, kernel, stride, padding};
  const Shape pooled{p.n, p.ho, p.wo, p.c};
  const Tensor x = on(d, normal(s, 1, type)), dy = on(d, normal(pooled, 2, type)),
               taken = Tensor::empty(pooled, DType::u8, d);
  Tensor y = Tensor::empty(pooled, type, d), mean = Tensor::empty(pooled, type, d),
         dx = Tensor::empty(s, type, d), d_mean = Tensor::empty(s, type, d);
  passes(d).max_pool(p, x, y, taken);
  passes(d).max_pool_back(p, dy, taken, dx);
  passes(d).avg_pool(p, x, mean);
  passes(d).avg_pool_back(p, dy, d_mean);
  return {{"max", y}, {"dx", dx}, {"average", mean}, {"d_average", d_mean}};
}

inline Results head_case(Device d, DType type, i64 classes, i64 channels) {
  const Shape shape{6, 7, 7, channels};
  Tensor x = on(d, normal(shape, 1, type)), y = Tensor::empty({6, channels}, type, d),
         dy = on(d, normal({6, channels}, 2, type)), dx = Tensor::empty(shape, type, d);
  passes(d).global_average(x, y);
  passes(d).global_average_back(dy, dx);
  std::vector<std::int32_t> wanted;
  for (i64 r = 0; r < 70; ++r) wanted.push_back(static_cast<std::int32_t>((7 * r + 1) % classes));
  const Tensor z = on(d, normal({70, classes}, 5, type, 20, 3)),
               labels = on(d, Tensor::from(wanted, {70})),
               dz = Tensor::empty({70, classes}, type, d);
  Tensor losses = Tensor::empty({70}, DType::f32, d);
  passes(d).softmax_loss(z, labels, {.label_smoothing = 0.1f}, losses, dz);
  const Tensor of_f32 = Tensor::empty({70, classes}, type, d);
  passes(d).softmax_loss(z.to(DType::f32), labels, {.label_smoothing = 0.1f}, losses, of_f32);
  Tensor kept = z.clone(), norms = Tensor::empty({70, 2}, DType::f32, d);
  passes(d).softmax_norms(kept, labels, {.label_smoothing = 0.1f}, losses, norms);
  passes(d).softmax_back(kept, labels, {.label_smoothing = 0.1f}, norms,
                         Tensor::full({}, 0.5f, DType::f32, d),
                         Tensor::full({}, 0.25f, DType::f32, d));
  return {{"y", y},
          {"dx", dx},
          {"losses", losses},
          {"dz", dz},
          {"dz of f32", of_f32},
          {"dz in place", kept}};
}

inline Results layer_norm_case(Device d, DType type, i64 cols) {
  const Shape shape{70, cols};
  const Tensor x = on(d, normal(shape, 1, type)), dy = on(d, normal(shape, 2, type));
  RowNorm n{x,     on(d, normal({cols}, 3)),           on(d, normal({cols}, 4)),
            1e-5f, Tensor::empty({70}, DType::f32, d), Tensor::empty({70}, DType::f32, d)};
  Tensor sum = Tensor::empty(shape, type, d), y = Tensor::empty(shape, type, d),
         dx = on(d, normal(shape, 5, type)), d_scale = Tensor::empty({cols}, DType::f32, d),
         d_shift = Tensor::empty({cols}, DType::f32, d);
  passes(d).layer_norm(n, &dy, &sum, y);
  n.x = sum;
  passes(d).layer_norm_back(n, dy, true, dx, d_scale, d_shift);
  return {{"sum", sum}, {"y", y}, {"dx", dx}, {"d_scale", d_scale}, {"d_shift", d_shift}};
}

inline Results attention_case(Device d, DType type, i64 length, i64 size, float dropout) {
  const i64 width = 2 * size;
  const Tensor qkv = on(d, normal({2, length, 3 * width}, 1, type)),
               dy = on(d, normal({2, length, width}, 2, type));
  Tensor y = Tensor::empty(dy.shape(), type, d), dqkv = Tensor::empty(qkv.shape(), type, d);
  const Tensor sums = Tensor::empty({2, 2, length}, DType::f32, d);
  const auto third = [&](const Tensor& t, i64 part) {
    return PackedRows{t, part * width, 3 * width};
  };
  const Attention a{.batch = 2,
                    .heads = 2,
                    .kv_heads = 2,
                    .queries = length,
                    .keys = length,
                    .size = size,
                    .causal = true,
                    .first = 0,
                    .window = 0,
                    .dropout = dropout,
                    .seed = 7,
                    .stream = stream_of(8, y),
                    .q = third(qkv, 0),
                    .k = third(qkv, 1),
                    .v = third(qkv, 2),
                    .lengths = {},
                    .begins = {}};
  passes(d).attention(a, y, sums);
  passes(d).attention_back(a, y, sums, dy, third(dqkv, 0), third(dqkv, 1), third(dqkv, 2));
  return {{"y", y}, {"log sums", sums}, {"dqkv", dqkv}};
}

inline Results attention_slack(DType type, i64 length, i64 size) {
  const AttentionInDouble bound = attention_in_double(
      normal({2, length, 6 * size}, 1, type), normal({2, length, 2 * size}, 2, type), 2, true);
  return {{"y", bound.y_slack}, {"dqkv", bound.dqkv_slack}};
}

inline Results update_case(Device d, bool adam, bool with_twin, DType wire, DType compute) {
  const i64 n = 32 * 1000;
  const auto block = [&](std::uint64_t seed) { return on(d, normal({n}, seed)); };
  Tensor w = on(d, normal({70, 320}, 1)), b = on(d, normal({9600}, 7));
  FlatParams params({{"w", w}, {"b", b}}, {}, {.compute = compute, .separate = true});
  params.settle_grads();
  Tensor(params.grads()).copy_from(block(3));
  UpdateBlocks blocks{with_twin ? block(2) : Tensor(), Tensor::empty({n}, wire, d),
                      Tensor::empty({n}, wire, d)};
  take_snapshot(params.values(), blocks.twin, 0.9f, 0.1f, blocks.own);
  take_snapshot(block(4), {}, 1, 0, blocks.received);
  const StepNumbers numbers{.learning_rate = 0.1f,
                            .grad_scale = 0.5f,
                            .mix_c = 0.8f,
                            .mix_s = 0.2f,
                            .jump_x = 0.5f,
                            .jump_twin = 0.6f,
                            .jump = 1,
                            .adam = AdamFactors<float>::at(3, 1, 0.1, 0.9, 0.999, 1e-8)};
  const Tensor on_device = raw(d, &numbers, sizeof numbers);
  const SgdRule sgd{block(5), 0.9f, 0.01f, true};
  const AdamRule rule{block(6), on(d, Tensor::full({n}, 0.2f)), {}, 0.01f, true};
  for (int step = 0; step < 2; ++step) {
    if (adam)
      adam_pass(params, rule, on_device, blocks);
    else
      sgd_pass(params, sgd, on_device, blocks);
  }
  Results r{{"values", params.values()}, {"full", params.compute_f32()}, {"own", blocks.own},
            {"momentum", sgd.momentum},  {"first", rule.first},          {"second", rule.second}};
  if (compute != DType::f32) r.push_back({"half", params.compute_half()});
  if (with_twin) r.push_back({"twin", blocks.twin});
  Tensor x = params.values().clone();
  apply_difference(x, blocks.twin, 0.5f, 0.7f, blocks.own, blocks.received);
  r.push_back({"difference", x});
  return r;
}

inline Results input_case(Device d, DType type) {
  const int h = 50, w = 64, n = 5;
  std::vector<std::uint8_t> bytes(3 * 220 * 300);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
  const Picture pictures[n] = {{0, 900, 300, 220, w, h, 0, 0, 0},
                               {30, 900, 200, 190, w, h, 0, 0, 1},
                               {1800, 900, 30, 20, w, h, 0, 0, 0},
                               {0, 900, 300, 220, w + 20, h + 10, 7, 5, 1},
                               {0, 900, 64, 50, w, h, 0, 0, 0}};
  check_pictures(pictures, static_cast<i64>(bytes.size()), h, w);
  Tensor out = Tensor::empty({n, h, w, 3}, type, d);
  input_pass(raw(d, bytes.data(), bytes.size()), raw(d, pictures, sizeof pictures),
             {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}, out);
  return {{"out", out}};
}

inline std::vector<KernelCase> kernel_cases() {
  std::vector<KernelCase> all;
  const auto add = [&](std::string name, std::function<Results(Device)> run, double relative,
                       double absolute, std::function<Results()> slack = {}) {
    for (char& c : name)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    all.push_back({std::move(name), std::move(run), relative, absolute, std::move(slack)});
  };
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    const std::string t = name_of(type);
    const double relative = 2 * rounding(type);
    for (const Shape& shape : {Shape{8, 28, 28, 64}, Shape{4, 7, 7, 2048}, Shape{3, 5, 5, 24},
                               Shape{2, 9, 3, 13}, Shape{1000, 3}})
      for (const auto& [relu, joined] : {std::pair{false, false}, {true, false}, {true, true}})
        add(
            "norm" + shape.str() + t + (relu ? "relu" : "") + (joined ? "add" : ""),
            [=, relu = relu, joined = joined](Device d) {
              return norm_case(d, shape, type, relu, joined);
            },
            relative, 1e-2);
    for (const Shape& shape : {Shape{8, 14, 14, 256}, Shape{3, 3, 3, 11}})
      add(
          "projection" + shape.str() + t, [=](Device d) { return projection_case(d, shape, type); },
          relative, 1e-2);
    for (const Shape& shape : {Shape{4, 56, 56, 64}, Shape{2, 7, 9, 5}})
      add(
          "stem" + shape.str() + t, [=](Device d) { return stem_case(d, shape, type); }, relative,
          1e-2);
    for (const Shape& shape : {Shape{2, 28, 28, 64}, Shape{2, 7, 9, 5}})
      add(
          "pool" + shape.str() + t, [=](Device d) { return pool_case(d, shape, type, 3, 2, 1); },
          relative, 1e-5);
    for (const i64 classes : {1000, 10})
      add(
          "head" + std::to_string(classes) + t,
          [=](Device d) { return head_case(d, type, classes, classes == 10 ? 13 : 64); }, relative,
          1e-5);
    for (const i64 cols : {768, 13})
      add(
          "layer norm" + std::to_string(cols) + t,
          [=](Device d) { return layer_norm_case(d, type, cols); }, relative, 1e-4);
    for (const i64 size : {5, 64, 96, 160})
      for (const float dropout : {0.0f, 0.2f})
        add(
            "attention" + std::to_string(size) + t + (dropout > 0 ? "dropout" : ""),
            [=](Device d) { return attention_case(d, type, 100, size, dropout); }, relative, 1e-4,
            // cuDNN knows no dropout of ours
            type == DType::f32 || dropout > 0 ? std::function<Results()>()
                                              : [=] { return attention_slack(type, 100, size); });
    add(
        "input" + t, [=](Device d) { return input_case(d, type); }, relative, 1e-4);
  }
  for (const bool adam : {false, true})
    for (const bool twin : {false, true})
      for (const DType wire : {DType::f32, DType::f16})
        for (const DType half : {DType::bf16, DType::f16})
          add(
              std::string("update") + (adam ? "adam" : "sgd") + (twin ? "twin" : "") +
                  name_of(wire) + name_of(half),
              [=](Device d) { return update_case(d, adam, twin, wire, half); }, 0, 0);
  return all;
}

}  // namespace gossamer::testing
