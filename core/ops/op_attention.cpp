// attention on packed rows: checks, where the rows of q, k and v lie, and the tape around the
// backend's two calls.
#include "gossamer/core/backend.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

constexpr const char* kOp = "attention";

void check_rows(const char* what, const char* wanted, const Tensor& x, i64 parts) {
  detail::check_floating(kOp, what, x);
  check<ShapeError>(x.rank() == 3 && x.shape(2) > 0 && x.shape(2) % parts == 0, kOp, ": ", what,
                    " is ", x.shape(), "; wanted ", wanted);
}

Attention call_of(const AttentionOptions& o, i64 width, const Tensor& lengths, const Tensor& q,
                  i64 queries, i64 keys) {
  const i64 batch = q.shape(0);
  check<ShapeError>(o.heads >= 1 && width % o.heads == 0, kOp, ": ", width,
                    " columns cannot be divided among ", o.heads, " heads");
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
          .queries = queries,
          .keys = keys,
          .size = width / o.heads,
          .causal = o.causal,
          .first = o.first,
          .dropout = o.dropout,
          .seed = o.seed,
          .stream = o.stream,
          .q = {},
          .k = {},
          .v = {},
          .lengths = lengths};
}

// q, k and v in one tensor, or k and v in a second one.
void place(Attention& a, const Tensor& q, const Tensor& kv) {
  const i64 width = a.heads * a.size;
  if (kv.defined()) {
    a.q = {q, 0, width};
    a.k = {kv, 0, 2 * width};
    a.v = {kv, width, 2 * width};
  } else {
    a.q = {q, 0, 3 * width};
    a.k = {q, width, 3 * width};
    a.v = {q, 2 * width, 3 * width};
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
  const Tensor lengths = a.lengths, stream = a.stream;
  a.q = a.k = a.v = {};  // the tape saves these, and frees them in time
  a.lengths = a.stream = {};
  record(kOp, y, {q, kv}, {q, kv, lengths, y, log_sums, stream},
         [a](const Tensor& dy, const std::vector<Tensor>& saved) {
           Attention forward = a, grads = a;
           forward.lengths = saved[2];
           forward.stream = saved[5];
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
  check_rows("qkv", "[B, T, 3C]", qkv, 3);
  const i64 rows = qkv.shape(1);
  return attend(call_of(options, qkv.shape(2) / 3, lengths, qkv, rows, rows), qkv, {});
}

Tensor attention(const Tensor& q, const Tensor& kv, const AttentionOptions& options,
                 const Tensor& lengths) {
  check_rows("q", "[B, Tq, C]", q, 1);
  check_rows("kv", "[B, Tk, 2C]", kv, 2);
  check<ShapeError>(
      kv.shape(0) == q.shape(0) && kv.shape(2) == 2 * q.shape(2) && kv.dtype() == q.dtype(), kOp,
      ": q is ", q.dtype(), " ", q.shape(), ", kv is ", kv.dtype(), " ", kv.shape(),
      "; wanted [B, Tq, C] and [B, Tk, 2C] of one type");
  detail::check_device(kOp, q, kv);
  return attend(call_of(options, q.shape(2), lengths, q, q.shape(1), kv.shape(1)), q, kv);
}

}  // namespace gossamer
