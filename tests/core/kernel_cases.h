// The cases in which fused passes are compared between a CPU and a GPU: each runs on the device it
// is given and returns what it made.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/kernel_helpers.h"
#include "gossamer/core/backend.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/update.h"

namespace gossamer::testing {

using Results = std::vector<std::pair<std::string, Tensor>>;
struct KernelCase {
  std::string name;
  std::function<Results(Device)> run;
  double relative, absolute;  // both 0: the same bits
};

inline Tensor on(Device device, const Tensor& t) { return device.is_cpu() ? t : t.to(device); }
inline Tensor raw(Device device, const void* data, std::size_t bytes) {
  Tensor t = Tensor::empty({static_cast<i64>(bytes)}, DType::u8);
  std::memcpy(t.data(), data, bytes);
  return on(device, t);
}

struct NormOn {
  Tensor x, gamma, beta;
  fused::NormFactors factors;
  NormOn(Device d, const Shape& shape, DType type, std::uint64_t seed)
      : x(on(d, normal(shape, seed, type, 0.5f, 2))),
        gamma(on(d, normal({shape[-1]}, seed + 1, DType::f32, 1, 0.5f))),
        beta(on(d, normal({shape[-1]}, seed + 2))),
        factors(fused::NormFactors::empty(shape[-1], d)) {}
};

inline Results norm_case(Device d, const Shape& shape, DType type, fused::NormGradient::Relu relu) {
  using Relu = fused::NormGradient::Relu;
  NormOn n(d, shape, type, 1);
  const i64 c = shape[-1];
  fused::NormRunning running{on(d, Tensor::zeros({c})), on(d, Tensor::full({c}, 1)), 0.1f};
  fused::norm_statistics(n.x, n.gamma, n.beta, 1e-5f, running, n.factors);
  const Tensor add = on(d, normal(shape, 30, type)), dy = on(d, normal(shape, 31, type));
  const bool joined = relu == Relu::bits || relu == Relu::output;
  Tensor y = Tensor::empty(shape, type, d),
         mask = Tensor::empty({fused::norm_mask_bytes(y)}, DType::u8, d);
  fused::norm_apply(n.x, n.factors,
                    {.add = joined ? &add : nullptr, .relu = relu != Relu::none, .mask = &mask}, y);
  Tensor dx = Tensor::empty(shape, type, d), d_add = Tensor::empty(shape, type, d),
         scale = Tensor::empty({c}, DType::f32, d), shift = Tensor::empty({c}, DType::f32, d);
  fused::norm_back({.dy = dy,
                    .relu = relu,
                    .mask = relu == Relu::bits     ? mask
                            : relu == Relu::output ? y
                                                   : Tensor()},
                   {n.x, n.factors, n.gamma, dx, scale, shift}, nullptr, &d_add);
  return {{"mean", n.factors.mean},
          {"inv_std", n.factors.inv_std},
          {"running mean", running.mean},
          {"running var", running.var},
          {"y", y},
          {"dx", dx},
          {"d_add", d_add},
          {"d_gamma", scale},
          {"d_beta", shift}};
}

inline Results projection_case(Device d, const Shape& shape, DType type) {
  NormOn one(d, shape, type, 1), two(d, shape, type, 50);
  for (NormOn* n : {&one, &two})
    fused::norm_statistics(n->x, n->gamma, n->beta, 1e-5f, {}, n->factors);
  Tensor y = Tensor::empty(shape, type, d),
         mask = Tensor::empty({fused::norm_mask_bytes(y)}, DType::u8, d),
         dy = on(d, normal(shape, 60, type));
  fused::norm_apply(one.x, one.factors,
                    {.second = &two.x, .second_factors = &two.factors, .relu = true, .mask = &mask},
                    y);
  const auto vector = [&] { return Tensor::empty({shape[-1]}, DType::f32, d); };
  Tensor dx = Tensor::empty(shape, type, d), dx2 = Tensor::empty(shape, type, d), s = vector(),
         h = vector(), s2 = vector(), h2 = vector();
  const fused::NormBack a{one.x, one.factors, one.gamma, dx, s, h},
      b{two.x, two.factors, two.gamma, dx2, s2, h2};
  fused::norm_back({.dy = dy, .relu = fused::NormGradient::Relu::bits, .mask = mask}, a, &b);
  return {{"y", y},         {"dx", dx},    {"dx2", dx2},   {"d_gamma", s},
          {"d_gamma2", s2}, {"d_beta", h}, {"d_beta2", h2}};
}

inline Results stem_case(Device d, const Shape& shape, DType type) {
  NormOn n(d, shape, type, 1);
  fused::norm_statistics(n.x, n.gamma, n.beta, 1e-5f, {}, n.factors);
  const Shape pooled{shape[0], (shape[1] - 1) / 2 + 1, (shape[2] - 1) / 2 + 1, shape[3]};
  Tensor y = Tensor::empty(pooled, type, d), taken = Tensor::empty(pooled, DType::u8, d),
         dy = on(d, normal(pooled, 9, type));
  fused::stem_pool(n.x, n.factors, y, taken);
  Tensor dx = Tensor::empty(shape, type, d), s = Tensor::empty({shape[3]}, DType::f32, d),
         h = Tensor::empty({shape[3]}, DType::f32, d);
  fused::norm_back({.from = fused::NormGradient::From::pooled, .dy = dy, .taken = taken},
                   {n.x, n.factors, n.gamma, dx, s, h});
  Tensor images = on(d, normal({2, 20, 24, 3}, 3, type)),
         pairs = Tensor::empty({2, 10, 12, 16}, type, d), w = on(d, normal({8, 7, 7, 3}, 4)),
         filters = Tensor::empty({8, 4, 4, 16}, type, d),
         dw = Tensor::empty({8, 7, 7, 3}, DType::f32, d);
  fused::stem_input(images, pairs);
  fused::stem_weight(w, filters);
  fused::stem_weight_grad(filters, dw);
  return {{"y", y},         {"dx", dx},           {"d_gamma", s}, {"d_beta", h},
          {"pairs", pairs}, {"filters", filters}, {"dw", dw}};
}

inline Results pool_case(Device d, const Shape& s, DType type, int kernel, int stride,
                         int padding) {
  const i64 height = (s[1] + 2 * padding - kernel) / stride + 1,
            width = (s[2] + 2 * padding - kernel) / stride + 1;
  const PoolGeometry p{s[0], s[1], s[2], s[3], height, width, kernel, stride, padding};
  const Shape pooled{p.n, p.ho, p.wo, p.c};
  const Tensor x = on(d, normal(s, 1, type)), dy = on(d, normal(pooled, 2, type));
  Tensor y = Tensor::empty(pooled, type, d), mean = Tensor::empty(pooled, type, d),
         taken = Tensor::empty(pooled, DType::u8, d), dx = Tensor::empty(s, type, d),
         d_mean = Tensor::empty(s, type, d);
  fused::max_pool(p, x, y, taken);
  fused::max_pool_back(p, dy, taken, dx);
  fused::avg_pool(p, x, mean);
  fused::avg_pool_back(p, dy, d_mean);
  return {{"max", y}, {"dx", dx}, {"average", mean}, {"d_average", d_mean}};
}

inline Results head_case(Device d, DType type, i64 classes, i64 channels) {
  const Shape shape{6, 7, 7, channels};
  Tensor x = on(d, normal(shape, 1, type)), y = Tensor::empty({6, channels}, type, d),
         dy = on(d, normal({6, channels}, 2, type)), dx = Tensor::empty(shape, type, d);
  fused::global_average(x, y);
  fused::global_average_back(dy, dx);
  std::vector<std::int32_t> wanted;
  for (i64 r = 0; r < 70; ++r) wanted.push_back(static_cast<std::int32_t>((7 * r + 1) % classes));
  Tensor z = on(d, normal({70, classes}, 5, type, 20, 3)),
         labels = on(d, Tensor::from(wanted, {70})), losses = Tensor::empty({70}, DType::f32, d),
         dz = Tensor::empty({70, classes}, type, d), counters = fused::new_counters(d);
  fused::softmax_loss(z, labels, 0.1f, 1.0f / 70, losses, dz, counters);
  const fused::Counters c = fused::read_counters(counters);
  const std::vector<float> counts{static_cast<float>(c.loss), static_cast<float>(c.top1),
                                  static_cast<float>(c.top5), static_cast<float>(c.rows)};
  return {{"y", y},
          {"dx", dx},
          {"losses", losses},
          {"dz", dz},
          {"counters", Tensor::from(counts, {4})}};
}

inline Results update_case(Device d, bool adam, bool with_twin, DType wire, DType compute) {
  const i64 n = 32 * 1000;
  const auto block = [&](std::uint64_t seed) { return on(d, normal({n}, seed)); };
  Tensor w = on(d, normal({70, 320}, 1)), b = on(d, normal({9600}, 7));
  FlatParams params({{"w", w}, {"b", b}}, {}, {.compute = compute, .frozen = true});
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

inline Results input_case(Device d, DType type, bool pairs) {
  const int h = 50, w = 64, n = 5;
  std::vector<std::uint8_t> bytes(3 * 220 * 300);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
  const fused::Picture pictures[n] = {{0, 900, 300, 220, w, h, 0, 0, 0},
                                      {30, 900, 200, 190, w, h, 0, 0, 1},
                                      {1800, 900, 30, 20, w, h, 0, 0, 0},
                                      {0, 900, 300, 220, w + 20, h + 10, 7, 5, 1},
                                      {0, 900, 64, 50, w, h, 0, 0, 0}};
  fused::check_pictures(pictures, static_cast<i64>(bytes.size()), h, w);
  Tensor out =
      pairs ? Tensor::empty({n, h / 2, w / 2, 16}, type, d) : Tensor::empty({n, h, w, 3}, type, d);
  fused::input_pass(raw(d, bytes.data(), bytes.size()), raw(d, pictures, sizeof pictures),
                    {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}, out);
  return {{"out", out}};
}

inline std::vector<KernelCase> kernel_cases() {
  using Relu = fused::NormGradient::Relu;
  std::vector<KernelCase> all;
  const auto add = [&](std::string name, std::function<Results(Device)> run, double relative,
                       double absolute) {
    for (char& c : name)
      if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    all.push_back({std::move(name), std::move(run), relative, absolute});
  };
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    const std::string t = name_of(type);
    const double relative = 2 * rounding(type);
    for (const Shape& shape : {Shape{8, 28, 28, 64}, Shape{4, 7, 7, 2048}, Shape{3, 5, 5, 24},
                               Shape{2, 9, 3, 13}, Shape{1000, 3}})
      for (const Relu relu : {Relu::none, Relu::factors, Relu::bits, Relu::output})
        add(
            "norm" + shape.str() + t + "relu" + std::to_string(static_cast<int>(relu)),
            [=](Device d) { return norm_case(d, shape, type, relu); }, relative, 1e-2);
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
    for (const bool pairs : {false, true})
      add(
          std::string("input") + (pairs ? "pairs" : "plain") + t,
          [=](Device d) { return input_case(d, type, pairs); }, relative, 1e-4);
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
