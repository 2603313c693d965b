// Launches of attention.h: tiles of 32 rows for heads of up to 64 numbers, fewer for wider ones;
// and of attention_few.h.
#include "gossamer/core/cuda/kernels/attention.h"

#include "gossamer/core/cuda/fused.h"
#include "gossamer/core/cuda/kernels/attention_few.h"

namespace gossamer {
namespace {

using namespace kernels;

template <class T, class U = const T>
RowsOnDevice<U> query_rows(const Attention& a, const PackedRows& p) {
  return {p.t.as<T>() + p.first, a.queries, p.row, 1};
}
template <class T, class U = const T>
RowsOnDevice<U> key_rows(const Attention& a, const PackedRows& p) {
  return {p.t.as<T>() + p.first, a.keys, p.row, a.group()};
}
// y and dy [B, Tq, H D]
template <class T, class U = const T>
RowsOnDevice<U> results(const Attention& a, const Tensor& y) {
  return {y.as<T>(), a.queries, a.heads * a.size, 1};
}

template <class T>
AttentionParts<T> parts_of(const Attention& a) {
  return {a.heads,
          a.queries,
          a.keys,
          a.size,
          keys_seen(a),
          a.dropout,
          1 / std::sqrt(static_cast<float>(a.size)),
          dropout_of(a),
          query_rows<T>(a, a.q),
          key_rows<T>(a, a.k),
          key_rows<T>(a, a.v)};
}

// f.template operator()<T, N, wide>(): shared memory of a block is 48 KB at most.
template <class F>
void with_tiles(const Attention& a, F&& f) {
  check<ShapeError>(a.size <= 256, "attention: heads of ", a.size,
                    " numbers; a GPU's kernels take at most 256");
  with_floating(a.q.t.dtype(), "attention", [&]<class T>() {
    if (a.size <= 64)
      f.template operator()<T, 32, 64>();
    else if (a.size <= 128)
      f.template operator()<T, 16, 128>();
    else
      f.template operator()<T, 8, 256>();
  });
}

i64 tiles(i64 rows, i64 n) { return (rows + n - 1) / n; }

bool in_vectors(const Attention& a) {
  const auto fits = [](const PackedRows& p) {
    return p.row % 8 == 0 && p.first % 8 == 0 && aligned16(p.t.data());
  };
  return a.size % 8 == 0 && fits(a.k) && fits(a.v);
}

// A step of decoding.
void attention_of_few(const Attention& a, Tensor& y) {
  const Device device = y.device();
  const i64 items = a.batch * a.heads * a.queries, splits = splits_of(a.keys),
            pieces = items * splits;
  const Scratch memory(pieces * (a.size + 2), device);
  float* const at = memory.data();
  const SplitSums sums{at, at + pieces * a.size, at + pieces * (a.size + 1), splits};
  with_tiles(a, [&]<class T, int N, int wide>() {
    const AttentionParts<T> parts = parts_of<T>(a);
    if (in_vectors(a))
      for_each_block(device, pieces, AttentionOfSplit<T, wide, true>{parts, sums});
    else
      for_each_block(device, pieces, AttentionOfSplit<T, wide, false>{parts, sums});
    for_each(device, items * a.size, JoinSplits<T>{parts, sums, results<T, T>(a, y)});
  });
}

}  // namespace

void FusedBackend::attention(const Attention& a, Tensor& y, const Tensor& log_sums) {
  if (a.queries <= kFewQueries && a.dropout == 0 && !log_sums.defined())
    return attention_of_few(a, y);
  with_tiles(a, [&]<class T, int N, int wide>() {
    for_each_block(
        y.device(), a.batch * a.heads * tiles(a.queries, N),
        AttentionForward<T, N, wide>{parts_of<T>(a), results<T, T>(a, y),
                                     log_sums.defined() ? log_sums.as<float>() : nullptr});
  });
}

void FusedBackend::attention_back(const Attention& a, const Tensor& y, const Tensor& log_sums,
                                  const Tensor& dy, const PackedRows& dq, const PackedRows& dk,
                                  const PackedRows& dv) {
  const Device device = y.device();
  const i64 heads = a.batch * a.heads;
  const Scratch through(heads * a.queries, device);
  with_tiles(a, [&]<class T, int N, int wide>() {
    const AttentionParts<T> parts = parts_of<T>(a);
    for_each(device, heads * a.queries,
             AttentionThrough<T>{parts, results<T>(a, y), results<T>(a, dy), through.data()});
    const AttentionBackParts<T> back{parts, a.group(), results<T>(a, dy), log_sums.as<float>(),
                                     through.data()};
    for_each_block(device, heads * tiles(a.queries, N),
                   AttentionBackQueries<T, N, wide>{back, query_rows<T, T>(a, dq)});
    for_each_block(
        device, a.batch * a.kv_heads * tiles(a.keys, N),
        AttentionBackKeys<T, N, wide>{back, key_rows<T, T>(a, dk), key_rows<T, T>(a, dv)});
  });
}

}  // namespace gossamer
