// Times the fused passes of a GPU at ResNet-50's shapes, with bytes per second beside what a copy
// reaches on the same GPU; and what products and copies together allow a whole step. Or those of
// GPT-2 small.
//     bench_passes [batch]          (default 256; without a GPU it says why and exits with 77)
//     bench_passes text [texts]     (default 8)
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "bench/timed_passes.h"
#include "gossamer/core/exchange.h"
#include "gossamer/core/input_pass.h"

namespace gossamer::bench {
namespace {

struct Branch : Norm {
  NormGrads grads;
  explicit Branch(const Shape& s) {
    const auto vector = [&] { return Tensor::empty({s[-1]}, DType::f32, kGpu); };
    x = random(s, DType::bf16);
    scale = filled({s[-1]}, 1, DType::f32);
    shift = filled({s[-1]}, 0, DType::f32);
    for (Tensor* t : {&mean, &inv_std, &a, &b}) *t = vector();
    grads = {Tensor::empty(s, DType::bf16, kGpu), vector(), vector()};
    gpu().norm_statistics(*this, 1e-5f, {});
  }
};

void norms(const Shape& shape) {
  Branch one(shape), two(shape);
  const double tensor = static_cast<double>(one.x.bytes());
  Tensor y = Tensor::empty(shape, DType::bf16, kGpu), dy = random(shape, DType::bf16, 2);
  const NormTail alone{.relu = true}, add{.add = &two.x, .relu = true},
      joint{.second = &two, .relu = true};
  Tensor mask;
  row("norm statistics", shape, tensor, [&] { gpu().norm_statistics(one, 1e-5f, {}); });
  row("norm + ReLU", shape, 2 * tensor, [&] { gpu().norm_apply(one, alone, true, y); });
  row("norm + add + ReLU + mask", shape, 3.0625 * tensor,
      [&] { mask = gpu().norm_apply(one, add, true, y); });
  row("two norms + ReLU + mask", shape, 3.0625 * tensor,
      [&] { mask = gpu().norm_apply(one, joint, true, y); });
  row("norm backward", shape, 5 * tensor,
      [&] { gpu().norm_back(one, alone, {}, dy, one.grads, nullptr, nullptr); });
  row("norm backward, shortcut", shape, 6.125 * tensor,
      [&] { gpu().norm_back(one, alone, mask, dy, one.grads, nullptr, &y); });
  row("two norms backward", shape, 8.125 * tensor,
      [&] { gpu().norm_back(one, joint, mask, dy, one.grads, &two.grads, nullptr); });
}

void stem(i64 n) {
  const Shape shape{n, 112, 112, 64}, pooled{n, 56, 56, 64};
  Branch b(shape);
  Tensor y = Tensor::empty(pooled, DType::bf16, kGpu), taken;
  const double tensor = static_cast<double>(b.x.bytes());
  const NormTail tail{.relu = true, .pool = true};
  row("norm + ReLU + pooling", shape, 1.375 * tensor,
      [&] { taken = gpu().norm_apply(b, tail, true, y); });
  row("pooling + norm backward", shape, 3.75 * tensor,
      [&] { gpu().norm_back(b, tail, taken, y, b.grads, nullptr, nullptr); });
  std::vector<Picture> pictures(static_cast<std::size_t>(n));
  const int width = 330, height = 270;  // the mean of random crops of ImageNet
  for (std::size_t k = 0; k < pictures.size(); ++k)
    pictures[k] = {static_cast<i64>(k) * width * height * 3,
                   width * 3,
                   width,
                   height,
                   224,
                   224,
                   0,
                   0,
                   static_cast<int>(k % 2)};
  Tensor table = Tensor::empty({n * static_cast<i64>(sizeof(Picture))}, DType::u8);
  std::memcpy(table.data(), pictures.data(), table.bytes());
  const Tensor there = table.to(kGpu), bytes = random({n * width * height * 3}, DType::u8);
  Tensor images = Tensor::empty({n, 224, 224, 3}, DType::bf16, kGpu);
  row("input: resize, flip", images.shape(), static_cast<double>(bytes.bytes() + images.bytes()),
      [&] {
        input_pass(bytes, there, {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}, images);
      });
}

void head(i64 n) {
  Tensor x = random({n, 7, 7, 2048}, DType::bf16), y = Tensor::empty({n, 2048}, DType::bf16, kGpu);
  row("global average", x.shape(), static_cast<double>(x.bytes()),
      [&] { gpu().global_average(x, y); });
  const Tensor z = random({n, 1000}, DType::f32), labels = Tensor::zeros({n}, DType::i32, kGpu),
               dz = Tensor::empty({n, 1000}, DType::f32, kGpu);
  Tensor losses = Tensor::empty({n}, DType::f32, kGpu);
  row("softmax, loss", z.shape(), static_cast<double>(2 * z.bytes() + dz.bytes()),
      [&] { gpu().softmax_loss(z, labels, {.label_smoothing = 0.1f}, losses, dz); });
}

void updates() {
  const i64 n = 25'557'056, halves = 25'502'912;
  const auto block = [&](DType type = DType::f32) { return random({n}, type); };
  Tensor w = random({halves / 32, 32}, DType::f32), b = random({n - halves}, DType::f32);
  FlatParams params({{"w", w}, {"b", b}}, {}, {.compute = DType::bf16, .separate = true});
  params.settle_grads();
  Tensor(params.grads()).copy_from(block());
  const SgdRule sgd{block(), 0.9f, 0, false};
  const Tensor quiet = numbers_on_gpu(0), jump = numbers_on_gpu(1);
  const auto size = static_cast<double>(n);
  const Shape shape{n};
  row("SGD", shape, 22 * size, [&] { sgd_pass(params, sgd, quiet); });
  UpdateBlocks blocks{block(), {}, {}};
  row("SGD with twin", shape, 30 * size, [&] { sgd_pass(params, sgd, quiet, blocks); });
  blocks.own = block();
  blocks.received = block();
  row("SGD with twin, no difference came", shape, 30 * size,
      [&] { sgd_pass(params, sgd, quiet, blocks); });
  row("SGD with twin and difference f32", shape, 38 * size,
      [&] { sgd_pass(params, sgd, jump, blocks); });
  blocks.own = blocks.received = block(DType::f16);
  row("SGD with twin and difference f16", shape, 34 * size,
      [&] { sgd_pass(params, sgd, jump, blocks); });
  const AdamRule adam{block(), Tensor::full({n}, 1, DType::f32, kGpu), {}, 0, true};
  row("AdamW", shape, 30 * size, [&] { adam_pass(params, adam, quiet); });
  Tensor snapshot = block(), half = block(DType::f16);
  row("snapshot with twin f32", shape, 12 * size,
      [&] { take_snapshot(params.values(), blocks.twin, 0.9f, 0.1f, snapshot); });
  row("snapshot with twin f16", shape, 10 * size,
      [&] { take_snapshot(params.values(), blocks.twin, 0.9f, 0.1f, half); });
}

// The least a step could take: its products at the rate of a large one, its passes at that of a
// copy (tests/bench/PREDICTIONS-GPU.md counts their bytes). Needs cuBLASLt.
void step(i64 batch) {
  // of an image: forward and both gradients; batch norm, pooling, input, update
  constexpr double flops = 24.3e9, bytes = 187e6;
  const i64 n = 8192;
  const Tensor a = random({n, n}, DType::bf16), b = random({n, n}, DType::bf16, 2);
  Tensor c = Tensor::empty({n, n}, DType::bf16, kGpu);
  const double rate =
      2.0 * n * n * n / seconds_of([&] { backend(kGpu).gemm(false, true, a, b, c, false); });
  const double products = flops * static_cast<double>(batch) / rate,
               passes = bytes * static_cast<double>(batch) / copy_rate;
  std::printf(
      "a bf16 product of 8192 x 8192: %.0f TFLOP/s. ResNet-50's step: products %.1f ms, passes "
      "%.1f ms: %.0f images/s at most\n",
      rate / 1e12, products * 1e3, passes * 1e3, static_cast<double>(batch) / (products + passes));
}

int run(bool text, i64 batch) {
  if (cuda::device_count() == 0) {
    std::printf("no GPU: %s\n", cuda::why_none().c_str());
    return 77;
  }
  const cuda::Properties& p = cuda::properties(kGpu);
  {
    const Tensor from = random({1 << 30}, DType::u8),
                 to = Tensor::zeros({1 << 30}, DType::u8, kGpu);
    copy_rate = 2.0 * (1 << 30) / seconds_of([&] {
                  cuda::copy(to.data(), from.data(), 1 << 30, cuda::current_stream(kGpu));
                });
  }
  std::printf("%s, %d multiprocessors, L2 %.0f MB; a copy of 1 GiB: %.0f GB/s; batch %lld\n",
              p.name.c_str(), p.multiprocessors, static_cast<double>(p.l2) / 1e6, copy_rate / 1e9,
              static_cast<long long>(batch));
  if (text) {
    text_passes(batch);
    return 0;
  }
  updates();
  stem(batch);
  head(batch);
  for (const auto& [side, channels] : {std::pair<i64, i64>{56, 64},
                                       {56, 256},
                                       {28, 128},
                                       {28, 512},
                                       {14, 256},
                                       {14, 1024},
                                       {7, 512},
                                       {7, 2048}})
    norms({batch, side, side, channels});
  // Last: where the vendor's libraries are missing, our own passes have been timed by now.
  try {
    step(batch);
  } catch (const DeviceError& e) {
    std::printf("no product was timed: %s\n", e.what());
  }
  return 0;
}

}  // namespace
}  // namespace gossamer::bench

int main(int argc, char** argv) {
  try {
    const bool text = argc > 1 && std::string(argv[1]) == "text";
    const int at = text ? 2 : 1;
    const long batch = argc > at ? std::strtol(argv[at], nullptr, 10) : 0;
    return gossamer::bench::run(text, batch > 0 ? batch : text ? 8 : 256);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_passes: %s\n", e.what());
    return 4;
  }
}
