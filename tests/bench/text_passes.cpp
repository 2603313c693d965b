// The passes of GPT-2 small, forward and backward, as a training step calls them: for each its time
// and its bytes beside those of a copy. Attention is bound by its products and not by its bytes.
#include "bench/timed_passes.h"
#include "gossamer/core/ops.h"

namespace gossamer::bench {
namespace {

constexpr i64 kIds = 1024, kHeads = 12, kSize = 64, kWidth = kHeads * kSize, kVocabulary = 50304;
constexpr DType kType = DType::bf16;

double bytes_of(std::initializer_list<Tensor> tensors) {
  double sum = 0;
  for (const Tensor& t : tensors) sum += static_cast<double>(t.bytes());
  return sum;
}
Tensor room(Shape shape, DType type = DType::f32) { return Tensor::empty(shape, type, kGpu); }

void attention(i64 texts) {
  const Tensor qkv = random({texts, kIds, 3 * kWidth}, kType), d_qkv = room(qkv.shape(), kType),
               dy = random({texts, kIds, kWidth}, kType, 2), log_sums = room({texts, kHeads, kIds});
  Tensor y = room(dy.shape(), kType);
  const auto part = [](const Tensor& t, i64 k) { return PackedRows{t, k * kWidth, 3 * kWidth}; };
  const Attention a{.batch = texts,
                    .heads = kHeads,
                    .kv_heads = kHeads,
                    .queries = kIds,
                    .keys = kIds,
                    .size = kSize,
                    .causal = true,
                    .first = 0,
                    .window = 0,
                    .dropout = 0,
                    .seed = 0,
                    .stream = {},
                    .q = part(qkv, 0),
                    .k = part(qkv, 1),
                    .v = part(qkv, 2),
                    .lengths = {},
                    .begins = {}};
  row("attention", qkv.shape(), bytes_of({qkv, y, log_sums}),
      [&] { gpu().attention(a, y, log_sums); });
  row("attention backward", qkv.shape(), bytes_of({qkv, y, log_sums, dy, d_qkv}), [&] {
    gpu().attention_back(a, y, log_sums, dy, part(d_qkv, 0), part(d_qkv, 1), part(d_qkv, 2));
  });
}

void layer_norm(i64 texts) {
  const Shape shape{texts, kIds, kWidth};
  const RowNorm n{random(shape, kType),
                  filled({kWidth}, 1, DType::f32),
                  filled({kWidth}, 0, DType::f32),
                  1e-5f,
                  room({texts * kIds}),
                  room({texts * kIds})};
  const Tensor add = random(shape, kType, 2), dy = random(shape, kType, 3),
               d_scale = room({kWidth}), d_shift = room({kWidth});
  Tensor y = room(shape, kType), sum = room(shape, kType), dx = filled(shape, 0, kType);
  row("layer norm", shape, bytes_of({n.x, y}), [&] { gpu().layer_norm(n, nullptr, nullptr, y); });
  row("add + layer norm", shape, bytes_of({n.x, add, sum, y}),
      [&] { gpu().layer_norm(n, &add, &sum, y); });
  row("layer norm backward, added", shape, bytes_of({n.x, dy, dx, dx}),
      [&] { gpu().layer_norm_back(n, dy, true, dx, d_scale, d_shift); });
}

// In pieces of 1024 rows: all of the logits in f32 would be 1.6 GB.
void loss() {
  const Tensor labels = Tensor::zeros({kIds}, DType::i32, kGpu),
               dz = room({kIds, kVocabulary}, kType);
  Tensor losses = room({kIds});
  for (const DType type : {DType::f32, kType}) {
    const Tensor z = random({kIds, kVocabulary}, type);
    row(type == kType ? "softmax, loss, bf16" : "softmax, loss, f32", z.shape(), bytes_of({z, dz}),
        [&] { gpu().softmax_loss(z, labels, {}, losses, dz); });
  }
}

void gelu(i64 texts) {
  const Tensor x = random({texts, kIds, 4 * kWidth}, kType);
  row("GELU (tanh)", x.shape(), bytes_of({x, x}), [&] { gelu_tanh(x); });
}

// The parameters of GPT-2 small, whose head is its table of ids.
void update() {
  const i64 n = 124'475'904;
  Tensor w = random({n / 32, 32}, DType::f32);
  FlatParams params({{"w", w}}, {}, {.compute = kType, .separate = true});
  params.settle_grads();
  Tensor(params.grads()).copy_from(random({n}, DType::f32));
  const AdamRule adam{random({n}, DType::f32), filled({n}, 1, DType::f32), {}, 0, true};
  const Tensor numbers = numbers_on_gpu(0);
  row("AdamW", {n}, 30 * static_cast<double>(n), [&] { adam_pass(params, adam, numbers); });
}

}  // namespace

void text_passes(i64 texts) {
  attention(texts);
  layer_norm(texts);
  loss();
  gelu(texts);
  update();
}

}  // namespace gossamer::bench
