// Type conversions and fills: one loop for CPU and GPU.
#include <type_traits>

#include "gossamer/core/ops/copy.h"
#include "gossamer/core/ops/kernel.h"

namespace gossamer::detail {
namespace {

template <class T>
constexpr bool is_half = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

template <class A, class B>
struct Convert {
  const A* from;
  B* to;
  GOSSAMER_HD void operator()(i64 i) const {
    if constexpr (is_half<A> || is_half<B>)
      to[i] = B(static_cast<float>(from[i]));
    else
      to[i] = static_cast<B>(from[i]);
  }
};
template <class T>
struct Fill {
  T* to;
  T value;
  GOSSAMER_HD void operator()(i64 i) const { to[i] = value; }
};

template <class F>
void with_type(DType type, F&& f) {
  switch (type) {
    case DType::f32:
      f.template operator()<float>();
      return;
    case DType::bf16:
      f.template operator()<bf16>();
      return;
    case DType::f16:
      f.template operator()<f16>();
      return;
    case DType::u8:
      f.template operator()<std::uint8_t>();
      return;
    case DType::i32:
      f.template operator()<std::int32_t>();
      return;
    case DType::i64:
      f.template operator()<i64>();
      return;
  }
}

}  // namespace

void convert(Device device, DType from_type, const void* from, DType to_type, void* to, i64 n) {
  with_type(from_type, [&]<class A>() {
    with_type(to_type, [&]<class B>() {
      for_each(device, n, Convert<A, B>{static_cast<const A*>(from), static_cast<B*>(to)});
    });
  });
}

void fill(Device device, DType type, void* to, float value, i64 n) {
  with_type(type, [&]<class T>() { for_each(device, n, Fill<T>{static_cast<T*>(to), T(value)}); });
}

}  // namespace gossamer::detail
