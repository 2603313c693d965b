// Dropout: word k of Philox(seed)(j, stream) decides whether element 4j + k is kept, so no mask has
// to be stored. The stream is read from the device's memory, since a number that the host gave to a
// kernel would be the same in every launch of a captured graph.
#include "gossamer/core/ops/kernel.h"
#include "gossamer/core/ops/op_helpers.h"
#include "gossamer/core/random.h"

namespace gossamer {
namespace {

template <class T, bool whole, bool adds>
struct Drop {             // whole: all four elements of a group exist
  const T *x, *residual;  // residual: if adds
  T* y;
  float p, factor;
  Philox random;
  const i64* stream;
  i64 first, n;
  GOSSAMER_HD void operator()(i64 group) const {
    const i64 j = first + group;
    const Philox::Four four =
        random(static_cast<std::uint64_t>(j), static_cast<std::uint64_t>(*stream));
    if constexpr (whole) {  // without a loop, so that groups vectorise
      keep(4 * j, four.v[0]);
      keep(4 * j + 1, four.v[1]);
      keep(4 * j + 2, four.v[2]);
      keep(4 * j + 3, four.v[3]);
    } else {
      for (i64 i = 4 * j; i < n; ++i) keep(i, four.v[i % 4]);
    }
  }
  GOSSAMER_HD void keep(i64 i, std::uint32_t word) const {
    // always read: a conditional load would not vectorise
    const float v = factor * load(x, i), kept = to_unit(word) >= p ? v : 0.0f;
    store(y, i, adds ? load(residual, i) + kept : kept);
  }
};
template <bool adds>
Tensor drop(const Tensor& x, const Tensor& residual, float p, std::uint64_t seed,
            const Tensor& stream) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  with_floating(x.dtype(), "dropout", [&]<class T>() {
    const i64 n = x.numel(), groups = n / 4;
    const T* other = adds ? residual.as<T>() : nullptr;
    const auto part = [&]<bool whole>(i64 first) {
      return Drop<T, whole, adds>{x.as<T>(),        other, y.as<T>(), p, 1 / (1 - p), Philox(seed),
                                  stream.as<i64>(), first, n};
    };
    for_each(x.device(), groups, part.template operator()<true>(0), 1 << 12);
    if (n % 4) for_each(x.device(), 1, part.template operator()<false>(groups));
  });
  return y;
}
Tensor drop(const Tensor& x, float p, std::uint64_t seed, const Tensor& stream) {
  return drop<false>(x, {}, p, seed, stream);
}

struct TakeNumber {
  i64 *counter, *taken;
  GOSSAMER_HD void operator()(i64) const { *taken = (*counter)++; }
};

}  // namespace

Tensor take_number(const Tensor& counter) {
  check<ShapeError>(
      counter.defined() && counter.dtype() == DType::i64 && counter.numel() == 1,
      "take_number: wanted a counter i64 [], given ",
      counter.defined() ? counter.shape().str() + " " + name_of(counter.dtype()) : "nothing");
  Tensor taken = Tensor::empty({}, DType::i64, counter.device());
  for_each(counter.device(), 1, TakeNumber{counter.as<i64>(), taken.as<i64>()});
  return taken;
}

void detail::check_dropout(const char* op, const Tensor& x, float p, const Tensor& stream) {
  check<ShapeError>(p >= 0 && p < 1, op, ": dropout ", p, " is not in [0, 1)");
  if (p == 0) return;
  check<ShapeError>(
      stream.defined() && stream.dtype() == DType::i64 && stream.numel() == 1, op,
      ": the stream of dropout is ",
      stream.defined() ? stream.shape().str() + " " + name_of(stream.dtype()) : "not given",
      "; wanted i64 [], as take_number() returns it");
  check_device(op, x, stream);
}

Tensor dropout(const Tensor& x, float p, std::uint64_t seed, const Tensor& stream) {
  detail::check_floating("dropout", "input", x);
  detail::check_dropout("dropout", x, p, stream);
  if (p == 0) return x;
  Tensor y = drop(x, p, seed, stream);
  record("dropout", y, {x}, {stream}, [=](const Tensor& g, const std::vector<Tensor>& saved) {
    return Grads{drop(g, p, seed, saved[0])};
  });
  return y;
}

Tensor dropout_add(const Tensor& x, const Tensor& residual, float p, std::uint64_t seed,
                   const Tensor& stream) {
  detail::check_floating("dropout_add", "input", x);
  detail::check_floating("dropout_add", "residual", residual);
  detail::check_device("dropout_add", x, residual);
  check<ShapeError>(x.shape() == residual.shape() && x.dtype() == residual.dtype(),
                    "dropout_add: input is ", x.dtype(), " ", x.shape(), ", residual is ",
                    residual.dtype(), " ", residual.shape(), "; they must be alike");
  detail::check_dropout("dropout_add", x, p, stream);
  if (p == 0) return add(residual, x);
  Tensor y = drop<true>(x, residual, p, seed, stream);
  record("dropout_add", y, {x, residual}, {stream},
         [=, want_x = detail::wants(x)](const Tensor& g, const std::vector<Tensor>& saved) {
           return Grads{want_x ? drop(g, p, seed, saved[0]) : Tensor(), g};
         });
  return y;
}

}  // namespace gossamer
