// Keys and values that join a cache, and where texts are: a launch each, whatever the batch.
#include <algorithm>

#include "gossamer/core/ops/decode.h"
#include "gossamer/core/ops/op_helpers.h"

namespace gossamer {
namespace {

constexpr const char* kOp = "append_keys_values";

template <class T>
struct AppendRow {  // row: a token of qkv
  const T* qkv;
  T *q, *kv;
  i64 tokens, width, kv_width, capacity, first;
  const std::int32_t* at;  // null: `first`
  bool ring;
  GOSSAMER_HD void operator()(i64 row, i64 begin, i64 end) const {
    const i64 text = row / tokens, token = row % tokens, place = (at ? at[text] : first) + token,
              slot = ring && place >= 0 ? place % capacity : place;
    const bool fits = slot >= 0 && slot < capacity,
               stays = fits && !(ring && tokens - token > capacity);
    const T* from = qkv + row * (width + kv_width);
    T *to_q = q + row * width, *to_kv = kv + (text * capacity + slot) * kv_width - width;
    for (i64 c = begin; c < end; ++c)
      if (c < width)
        to_q[c] = fits ? from[c] : T(__builtin_nanf(""));
      else if (stays)
        to_kv[c] = from[c];
  }
};

Tensor append(const Tensor& qkv, const Tensor& kv, i64 first, const Tensor& at, CacheRows rows) {
  detail::check_floating(kOp, "qkv", qkv);
  check<ShapeError>(qkv.rank() == 3 && kv.defined() && kv.rank() == 3 &&
                        kv.shape(0) == qkv.shape(0) && kv.shape(1) > 0 && kv.shape(2) > 0 &&
                        kv.shape(2) < qkv.shape(2) && kv.dtype() == qkv.dtype(),
                    kOp, ": qkv is ", qkv.dtype(), " ", qkv.shape(), ", the cache ",
                    kv.defined() ? kv.shape() : Shape{},
                    "; wanted [B, T, C + R] and [B, capacity, R] of one type");
  const i64 batch = qkv.shape(0), tokens = qkv.shape(1), kv_width = kv.shape(2),
            width = qkv.shape(2) - kv_width;
  const bool ring = rows == CacheRows::ring;
  detail::check_device(kOp, qkv, kv);
  if (at.defined()) detail::check_device(kOp, qkv, at);
  const i64 capacity = kv.shape(1);
  const auto* places = at.defined() ? at.as<std::int32_t>() : nullptr;
  if (!places || at.device().is_cpu())
    for (i64 b = 0; b < (places ? batch : 1); ++b) {
      const i64 begin = places ? places[b] : first;
      check<ShapeError>(begin >= 0 && (ring || begin + tokens <= capacity), kOp, ": ", tokens,
                        " tokens more than the cache of ", capacity, " has room for behind ",
                        begin);
    }
  Tensor q = Tensor::empty({batch, tokens, width}, qkv.dtype(), qkv.device());
  with_floating(qkv.dtype(), kOp, [&]<class T>() {
    for_each_row(qkv.device(), batch * tokens, width + kv_width,
                 AppendRow<T>{qkv.as<T>(), q.as<T>(), kv.as<T>(), tokens, width, kv_width, capacity,
                              first, places, ring});
  });
  return q;
}

template <class Bits>
struct TakeRow {
  const Bits* x;
  Bits* y;
  const std::int32_t* rows;
  i64 all, width;
  GOSSAMER_HD void operator()(i64 row, i64 begin, i64 end) const {
    const i64 from = rows[row];
    const bool fits = from >= 0 && from < all;  // on a GPU: the op does not look there
    for (i64 c = begin; c < end; ++c) y[row * width + c] = fits ? x[from * width + c] : Bits(-1);
  }
};

struct AddOne {
  std::int32_t* numbers;
  GOSSAMER_HD void operator()(i64 i) const { ++numbers[i]; }
};

}  // namespace

TextPositions::TextPositions(i64 texts, Device device)
    : both_(Tensor::empty({2, texts}, DType::i32, device)), texts_(texts) {
  move_to(0);
}
TextPositions TextPositions::first(i64 texts) const {
  check<ShapeError>(texts >= 0 && texts <= texts_, "TextPositions: the first ", texts, " of ",
                    texts_);
  TextPositions out = *this;
  out.texts_ = texts;
  return out;
}
void TextPositions::move_to(i64 at) {
  both_.slice(0, 1).fill(static_cast<float>(at));
  both_.slice(1, 2).fill(static_cast<float>(at + 1));
}
void TextPositions::advance() {
  for_each(both_.device(), both_.numel(), AddOne{both_.as<std::int32_t>()});
}

Tensor append_keys_values(const Tensor& qkv, const Tensor& kv, i64 first, CacheRows rows) {
  return append(qkv, kv, first, {}, rows);
}
Tensor append_keys_values(const Tensor& qkv, const Tensor& kv, const TextPositions& positions,
                          CacheRows rows) {
  check<ShapeError>(qkv.defined() && qkv.rank() == 3 && positions.at().shape(0) == qkv.shape(0),
                    kOp, ": qkv is ", qkv.defined() ? qkv.shape() : Shape{},
                    " at the positions of ", positions.at().shape(0), " texts");
  return append(qkv, kv, 0, positions.at(), rows);
}

Tensor take_rows(const Tensor& x, const Tensor& rows) {
  check<ShapeError>(x.defined() && x.rank() >= 1 && rows.defined() && rows.rank() == 1 &&
                        rows.dtype() == DType::i32,
                    "take_rows: wanted [N, ...] and i32 [M]");
  detail::check_device("take_rows", x, rows);
  const auto* from = rows.as<std::int32_t>();
  const i64 count = rows.numel(), all = x.shape(0), width = all > 0 ? x.numel() / all : 0;
  if (rows.device().is_cpu())
    for (i64 i = 0; i < count; ++i)
      check<ShapeError>(from[i] >= 0 && from[i] < all, "take_rows: row ", from[i], " of ",
                        x.shape());
  i64 extents[Shape::max_rank];
  std::copy(x.shape().begin(), x.shape().end(), extents);
  extents[0] = count;
  Tensor y = Tensor::empty(Shape::of(extents, x.rank()), x.dtype(), x.device());
  const auto take = [&]<class Bits>() {
    for_each_row(x.device(), count, width,
                 TakeRow<Bits>{static_cast<const Bits*>(x.data()), static_cast<Bits*>(y.data()),
                               from, all, width});
  };
  if (size_of(x.dtype()) == 2)
    take.template operator()<std::uint16_t>();
  else if (size_of(x.dtype()) == 4)
    take.template operator()<std::uint32_t>();
  else
    fail<ShapeError>("take_rows: ", x.dtype(), "; wanted a type of two or four bytes");
  return y;
}

}  // namespace gossamer
