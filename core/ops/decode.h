// Ops of decoding, where texts grow by one id at a time. What changes from step to step lies on the
// device, so that a step can be launched as a graph. Nothing is recorded on the tape.
// Errors and threads: as ops (core/ops.h).
#pragma once

#include "gossamer/core/ops/choice.h"
#include "gossamer/core/tensor.h"

namespace gossamer {

// Where each of several texts is, on their device.
class TextPositions {
 public:
  TextPositions(i64 texts, Device);  // all at 0
  i64 texts() const { return texts_; }
  TextPositions first(i64 texts) const;   // the same, of the first so many
  void move_to(i64 at);                   // all of them
  void advance();                         // each by one, those that are not of the first, too
  Tensor at() const { return row(0); }    // i32 [texts]: tokens so far, so where the next one goes
  Tensor seen() const { return row(1); }  // at + 1: how many tokens the next one sees, with itself

 private:
  Tensor row(i64 i) const {
    return both_.slice(i, i + 1).reshape({both_.shape(1)}).slice(0, texts_);
  }
  Tensor both_;  // i32 [2, all texts]
  i64 texts_;
};

// Keys and values join a cache. qkv [B, T, C + R] -> q [B, T, C]; row t of k and v of text b, of R
// numbers together, becomes row first + t of kv [B, capacity, R], or with positions row at[b] + t.
// ShapeError if there is no such row; for positions on a GPU, where the op cannot look, q is NaN
// and kv stays. CacheRows::ring: it becomes this row modulo the capacity, and of more than
// `capacity` tokens only the last ones are kept: a cache of a window of attention.
enum class CacheRows { line, ring };
Tensor append_keys_values(const Tensor& qkv, const Tensor& kv, i64 first,
                          CacheRows = CacheRows::line);
Tensor append_keys_values(const Tensor& qkv, const Tensor& kv, const TextPositions&,
                          CacheRows = CacheRows::line);

// Row rows[i] of x [N, …] (f32, bf16, f16 or i32) as row i of the result; rows: i32 [M], on x's
// device. ShapeError: there is no such row; on a GPU, where the op cannot look, it is NaN or -1.
Tensor take_rows(const Tensor& x, const Tensor& rows);

// The `count` largest logits of each row of [R, V] (f32, bf16, f16), falling, of equal ones the
// lower id first. log_p: the logarithm of the softmax; NaN if a logit of the row is NaN, or none is
// finite.
struct Likeliest {
  Tensor ids, log_p;  // i32, f32 [R, count]
};
Likeliest likeliest(const Tensor& logits, i64 count);

// The random numbers of each row, on the device: draw n of seed s is the n-th of
// Rng(s).uniform53().
struct Draws {
  Tensor seeds, counts;  // i64 [B]; i32 [B]: draws so far
  // u8 [B, V]: not 0 for ids that a text has; undefined if repetition_penalty is 1. The op adds the
  // id that it chooses, or is given.
  Tensor seen = {};
};
// ids[b] = given[b] where that is not negative, else the id chosen from row b of logits [B, V]
// (f32, bf16, f16) by the next draw, which is counted. -1: a logit is NaN, or none is finite. ids,
// given: i32 [B]. The same bits on every device from the same logits.
void choose_ids(const Tensor& logits, const Choice&, const Draws&, const Tensor& given,
                const Tensor& ids);

}  // namespace gossamer
