// rope: rotary positions, in place on packed rows where nothing else holds them. Backward is the
// same rotation the other way round, so nothing is kept.
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

constexpr const char* kOp = "rope";

// Row: a token of x. Columns: first the heads D/2 pairs, then, unless y is x, what is kept.
template <class T>
struct Rotate {
  const T* x;
  T* y;
  const float* table;  // [all, D]
  const std::int32_t* positions;
  i64 times, all, width, heads, half;  // times: positions that repeat for each text
  float sign;                          // of the sines
  GOSSAMER_HD void operator()(i64 row, i64 begin, i64 end) const {
    const i64 at = positions[row % times], pairs = heads * half;
    const bool known = at >= 0 && at < all;  // on a GPU: the op does not look there
    const float *cosines = table + (known ? at : 0) * 2 * half, *sines = cosines + half;
    const T* const from = x + row * width;
    T* const to = y + row * width;
    i64 c = begin;
    while (c < end && c < pairs) {
      const i64 head = c / half, i0 = c - head * half;
      const i64 count = half - i0 < end - c ? half - i0 : end - c;
      const T *a = from + head * 2 * half + i0, *b = a + half;
      T *to_a = to + head * 2 * half + i0, *to_b = to_a + half;
      GOSSAMER_IVDEP
      for (i64 i = 0; i < count; ++i) {
        const float cosine = known ? cosines[i0 + i] : __builtin_nanf(""),
                    sine = sign * sines[i0 + i], va = load(a, i), vb = load(b, i);
        store(to_a, i, va * cosine - vb * sine);
        store(to_b, i, vb * cosine + va * sine);
      }
      c += count;
    }
    for (; c < end; ++c) to[pairs + c] = from[pairs + c];
  }
};

// y: like x, or x itself
void rotate(const Tensor& x, const Tensor& y, const Tensor& table, const Tensor& positions,
            i64 heads, float sign) {
  const i64 width = x.shape(2), half = table.shape(1) / 2, pairs = heads * half;
  const bool in_place = x.data() == y.data();
  with_floating(x.dtype(), kOp, [&]<class T>() {
    for_each_row(x.device(), x.shape(0) * x.shape(1), in_place ? pairs : width - pairs,
                 Rotate<T>{x.as<T>(), y.as<T>(), table.as<float>(), positions.as<std::int32_t>(),
                           positions.numel(), table.shape(0), width, heads, half, sign});
  });
}

Tensor place_for(const Tensor& x) {
  return x.sole() ? x.detach() : Tensor::empty(x.shape(), x.dtype(), x.device());
}

}  // namespace

Tensor rope(Tensor x, const Tensor& table, const Tensor& positions, i64 heads) {
  detail::check_floating(kOp, "input", x);
  check<ShapeError>(
      table.defined() && table.dtype() == DType::f32 && table.rank() == 2 && table.shape(0) > 0 &&
          table.shape(1) > 0 && table.shape(1) % 2 == 0,
      kOp, ": the table is ",
      table.defined() ? table.shape().str() + " " + name_of(table.dtype()) : "undefined",
      "; wanted f32 [P, D] with an even D");
  check<ShapeError>(x.rank() == 3 && heads >= 1 && heads <= x.shape(2) / table.shape(1), kOp,
                    ": input is ", x.shape(), "; wanted [B, T, W] with ", heads, " heads of ",
                    table.shape(1), " columns");
  const i64 batch = x.shape(0), length = x.shape(1);
  check<ShapeError>(
      positions.defined() && positions.dtype() == DType::i32 &&
          (positions.shape() == Shape{length} || positions.shape() == Shape{batch, length}),
      kOp, ": positions are ", positions.defined() ? positions.shape() : Shape{}, " for an input ",
      x.shape(), "; wanted i32 [T] or [B, T]");
  detail::check_device(kOp, x, table);
  detail::check_device(kOp, x, positions);
  if (positions.device().is_cpu())
    for (const std::int32_t at : positions.span<std::int32_t>())
      check<ShapeError>(at >= 0 && at < table.shape(0), kOp, ": position ", at,
                        " is not in the table of ", table.shape(0));
  Tensor y = place_for(x);
  rotate(x, y, table, positions, heads, 1);
  record(kOp, y, {std::move(x)}, {table, positions},
         [heads](const Tensor& g, const std::vector<Tensor>& saved) {
           const Tensor dx = place_for(g);
           rotate(g, dx, saved[0], saved[1], heads, -1);
           return Grads{dx};
         });
  return y;
}

}  // namespace gossamer
