// attention on packed rows: checks, where the rows of q, k and v lie, and the tape around the
// backend's two calls.
#include "gossamer/core/backend.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

constexpr const char* kOp = "attention";

i64 kv_heads_of(const AttentionOptions& o) { return o.kv_heads == 0 ? o.heads : o.kv_heads; }

// The width of a head in rows of so many heads.
i64 size_of_head(const char* what, const char* wanted, const Tensor& x, i64 heads) {
  detail::check_floating(kOp, what, x);
  check<ShapeError>(x.rank() == 3 && x.shape(2) > 0, kOp, ": ", what, " is ", x.shape(),
                    "; wanted ", wanted);
  check<ShapeError>(heads >= 1 && x.shape(2) % heads == 0, kOp, ": ", x.shape(2), " columns of ",
                    what, " cannot be divided among ", heads, " heads; wanted ", wanted);
  return x.shape(2) / heads;
}

void check_heads(const AttentionOptions& o) {
  const i64 kv_heads = kv_heads_of(o);
  check<ShapeError>(o.heads >= 1 && kv_heads >= 1 && o.heads % kv_heads == 0, kOp, ": ", o.heads,
                    " heads of queries cannot share ", kv_heads, " heads of keys");
}

// Where a text's documents begin: on a GPU the op cannot look.
void check_begins(const Tensor& begins, const Tensor& q, i64 queries) {
  check<ShapeError>(begins.dtype() == DType::i32 && begins.shape() == Shape{q.shape(0), queries},
                    kOp, ": begins are ", begins.dtype(), " ", begins.shape(), "; wanted i32 [",
                    q.shape(0), ", ", queries, "]");
  detail::check_device(kOp, q, begins);
  if (!begins.device().is_cpu()) return;
  const auto* at = begins.as<std::int32_t>();
  for (i64 i = 0; i < begins.numel(); ++i)
    check<ShapeError>(at[i] >= 0 && (i % queries == 0 || at[i] >= at[i - 1]), kOp, ": begins[",
                      i / queries, "][", i % queries, "] is ", at[i],
                      "; it must not be negative, nor below the one before it");
}

Attention call_of(const AttentionOptions& o, i64 size, const Tensor& lengths, const Tensor& q,
                  i64 queries, i64 keys) {
  const i64 batch = q.shape(0);
  check<ShapeError>(o.window == 0 || (o.window > 0 && o.causal), kOp, ": a window of ", o.window,
                    o.causal ? "; wanted 0 or more" : " without a causal mask");
  if (o.begins.defined()) check_begins(o.begins, q, queries);
  detail::check_dropout(kOp, q, o.dropout, o.stream);
  check<ShapeError>(o.first >= 0 && (!o.causal || o.first + queries <= keys), kOp, ": ", queries,
                    " causal queries from position ", o.first, " on need as many keys, not ", keys);
  if (lengths.defined()) {
    check<ShapeError>(lengths.dtype() == DType::i32 && lengths.shape() == Shape{batch}, kOp,
                      ": lengths are ", lengths.dtype(), " ", lengths.shape(), "; wanted i32 [",
                      batch, "]");
    detail::check_device(kOp, q, lengths);
  }
  return {.batch = batch,
          .heads = o.heads,
          .kv_heads = kv_heads_of(o),
          .queries = queries,
          .keys = keys,
          .size = size,
          .causal = o.causal,
          .first = o.first,
          .window = o.window,
          .dropout = o.dropout,
          .seed = o.seed,
          .stream = o.stream,
          .q = {},
          .k = {},
          .v = {},
          .lengths = lengths,
          .begins = o.begins};
}

// q, k and v in one tensor, or k and v in a second one.
void place(Attention& a, const Tensor& q, const Tensor& kv) {
  const i64 width = a.heads * a.size, kv_width = a.kv_heads * a.size;
  if (kv.defined()) {
    a.q = {q, 0, width};
    a.k = {kv, 0, 2 * kv_width};
    a.v = {kv, kv_width, 2 * kv_width};
  } else {
    const i64 row = width + 2 * kv_width;
    a.q = {q, 0, row};
    a.k = {q, width, row};
    a.v = {q, width + kv_width, row};
  }
}

Tensor like(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype(), x.device()); }

Tensor attend(Attention a, const Tensor& q, const Tensor& kv) {
  place(a, q, kv);
  const Device device = q.device();
  const bool back = wants_grad({q, kv});
  Tensor y = Tensor::empty({a.batch, a.queries, a.heads * a.size}, q.dtype(), device);
  const Tensor log_sums =
      back ? Tensor::empty({a.batch, a.heads, a.queries}, DType::f32, device) : Tensor();
  backend(device).attention(a, y, log_sums);
  if (!back) return y;
  const Tensor lengths = a.lengths, stream = a.stream, begins = a.begins;
  a.q = a.k = a.v = {};  // the tape saves these, and frees them in time
  a.lengths = a.stream = a.begins = {};
  record(kOp, y, {q, kv}, {q, kv, lengths, y, log_sums, stream, begins},
         [a](const Tensor& dy, const std::vector<Tensor>& saved) {
           Attention forward = a, grads = a;
           forward.lengths = saved[2];
           forward.stream = saved[5];
           forward.begins = saved[6];
           place(forward, saved[0], saved[1]);
           const Tensor dq = like(saved[0]), dkv = saved[1].defined() ? like(saved[1]) : Tensor();
           place(grads, dq, dkv);
           backend(dy.device())
               .attention_back(forward, saved[3], saved[4], dy, grads.q, grads.k, grads.v);
           return Grads{dq, dkv};
         });
  return y;
}

}  // namespace

Tensor attention(const Tensor& qkv, const AttentionOptions& options, const Tensor& lengths) {
  check_heads(options);
  const i64 kv_heads = kv_heads_of(options);
  const char* wanted = kv_heads == options.heads ? "[B, T, 3 H D]" : "[B, T, (H + 2 K) D]";
  const i64 size = size_of_head("qkv", wanted, qkv, options.heads + 2 * kv_heads),
            rows = qkv.shape(1);
  return attend(call_of(options, size, lengths, qkv, rows, rows), qkv, {});
}

Tensor attention(const Tensor& q, const Tensor& kv, const AttentionOptions& options,
                 const Tensor& lengths) {
  check_heads(options);
  const i64 size = size_of_head("q", "[B, Tq, H D]", q, options.heads);
  check<ShapeError>(size_of_head("kv", "[B, Tk, 2 K D]", kv, 2 * kv_heads_of(options)) == size &&
                        kv.shape(0) == q.shape(0) && kv.dtype() == q.dtype(),
                    kOp, ": q is ", q.dtype(), " ", q.shape(), ", kv is ", kv.dtype(), " ",
                    kv.shape(), "; wanted [B, Tq, H D] and [B, Tk, 2 K D] of one type");
  detail::check_device(kOp, q, kv);
  return attend(call_of(options, size, lengths, q, q.shape(1), kv.shape(1)), q, kv);
}

}  // namespace gossamer
