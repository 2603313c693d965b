// What passes over the parameters share: N neighbouring numbers, eight on a GPU and one on a CPU,
// and checks of their blocks.
#pragma once

#include <string>
#include <type_traits>

#include "gossamer/core/ops/eight.h"

namespace gossamer {

// N neighbouring numbers
struct One {
  float v[1];
};
template <int N>
using Lanes = std::conditional_t<N == 8, Eight, One>;
template <int N, Reuse reuse = Reuse::later, class T>
GOSSAMER_HD inline Lanes<N> load_lanes(const T* p) {
  if constexpr (N == 8)
    return load_eight<true, reuse>(p, 8);
  else
    return {{static_cast<float>(*p)}};
}
template <int N, class T>
GOSSAMER_HD inline void store_lanes(T* p, const Lanes<N>& value) {
  if constexpr (N == 8)
    store_eight<true>(p, 8, value);
  else
    *p = T(value.v[0]);
}
// f.operator()<N, has_twin>(), N by the device.
template <class F>
void with_lanes(Device device, const Tensor& twin, F&& f) {
  if (device.is_cpu())
    twin.defined() ? f.template operator()<1, true>() : f.template operator()<1, false>();
  else
    twin.defined() ? f.template operator()<8, true>() : f.template operator()<8, false>();
}

inline void check_block(const char* op, const char* what, const Tensor& t, i64 size, DType type,
                        Device device) {
  check<ShapeError>(
      t.defined() && t.dtype() == type && t.numel() == size, op, ": ", what, " is ",
      t.defined() ? std::string(name_of(t.dtype())) + " " + t.shape().str() : "undefined",
      "; wanted ", type, " of ", size, " elements, the layout of the parameters");
  check<DeviceError>(t.device() == device, op, ": ", what, " is on ", t.device(),
                     ", the parameters on ", device);
  check<ShapeError>(aligned16(t.data()), op, ": ", what, " must start on 16 bytes");
}
// f.template operator()<Wire>() for the type of a snapshot.
template <class F>
void with_wire(const char* op, const Tensor& snapshot, F&& f) {
  if (!snapshot.defined() || snapshot.dtype() == DType::f32) return f.template operator()<float>();
  check<ShapeError>(snapshot.dtype() == DType::f16, op, ": a snapshot is ", snapshot.dtype(),
                    "; wanted f32 or f16");
  f.template operator()<f16>();
}
inline void check_exchange(const char* op, const Tensor& own, const Tensor& received, i64 size,
                           Device device) {
  check_block(op, "own", own, size, own.defined() ? own.dtype() : DType::f32, device);
  check_block(op, "received", received, size, own.dtype(), device);
}
inline float* pointer(const Tensor& t) { return t.defined() ? t.as<float>() : nullptr; }

}  // namespace gossamer
