// How f32 values travel between workers (MethodOptions::payload). A method that keeps the mean
// mixes with what it sent, not with what it has: what the receiver lost by rounding, the sender
// keeps.
#pragma once

#include <string>

#include "gossamer/core/flat.h"
#include "gossamer/core/tensor.h"

namespace gossamer::dist {

constexpr i64 kInt8Block = 256;  // values that share a scale, the largest of them over 127

// f32: as they are. bf16: the upper half of each value, rounded to nearest. int8: a quarter of the
// bytes, in blocks of kInt8Block.
enum class Coding : std::uint8_t { f32, bf16, int8 };
Coding coding_of(const std::string& name);  // ConfigError lists the names
i64 coded_bytes(Coding, i64 values);

// One tensor's codes on their way. On CPUs; not for f32.
class Coded {
 public:
  // error: f32, as many as values; what rounding takes from values is added to those of the next
  // encode(), so that the sum of all that was sent is right to within one rounding. It belongs in
  // checkpoints. Undefined: int8 has one of its own, 0; bf16 has none.
  Coded(Coding, i64 values, Tensor error = {});
  // bytes() <- codes of `values` [n] f32, and values <- what they stand for, which is what the
  // receiver gets.
  void encode(const Tensor& values);
  // The same in two halves, where a checkpoint may come before what was sent is used, and a resumed
  // run sends it again: sent <- what the codes stand for; keep_error() when it is used.
  void encode(const Tensor& values, const Tensor& sent);
  void keep_error(const Tensor& values, const Tensor& sent);
  // values <- what codes, from the peer's encode(), stand for. NaN where the sender had no finite
  // number.
  static void decode(Coding, const Tensor& codes, const Tensor& values);
  const Tensor& bytes() const { return bytes_; }  // u8 [coded_bytes()]
  // to u8 [coded_bytes(values of the part)] <- the codes of these values alone, of those in
  // bytes(). The part begins at a multiple of kInt8Block, or is empty.
  void copy_part(FlatRange part, const Tensor& to) const;
  Coding coding() const { return coding_; }

 private:
  void encode(const Tensor& values, const Tensor& sent, bool keep);
  Coding coding_;
  i64 values_;
  Tensor bytes_, error_;
};

}  // namespace gossamer::dist
