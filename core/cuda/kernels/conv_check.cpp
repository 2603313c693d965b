// Checking the result of a convolution at some elements, for plans of cuDNN on the machine at hand.
#include <cmath>
#include <vector>

#include "gossamer/core/cuda/conv_term.h"

namespace gossamer::cudnn {
namespace {

template <class T>
struct Pick {  // out[i] = p[at(i)]
  const T* p;
  float* out;
  i64 stride, first;
  GOSSAMER_HD void operator()(i64 i) const { out[i] = load(p, first + i * stride); }
};

// What element `at` holds before a run that is checked: -3 … 3 units, another value at each
// neighbour.
struct Before {
  float unit;
  explicit Before(i64 terms)
      : unit(static_cast<float>(
            std::exp2(std::round(std::log2(std::sqrt(static_cast<double>(terms)) / 6))))) {}
  GOSSAMER_HD float operator()(i64 at) const { return unit * static_cast<float>(at % 7 - 3); }
};
template <class T>
struct Fill {
  T* p;
  Before before;
  GOSSAMER_HD void operator()(i64 i) const { store(p, i, before(i)); }
};

template <class T>
T* result_of(const ConvProblem& p, T* x, T* w, T* y) {
  return p.op == ConvOp::forward ? y : p.op == ConvOp::backward_data ? x : w;
}

}  // namespace

void prepare_check(Device device, const ConvProblem& p, void* x, void* w, void* y) {
  with_floating(p.type, "prepare_check", [&]<class T>() {
    for_each(device, ConvTerm<T>::results(p),
             Fill<T>{static_cast<T*>(result_of(p, x, w, y)), Before(ConvTerm<T>::terms(p))});
  });
}

double conv_error(Device device, const ConvProblem& p, const void* x, const void* w, const void* y,
                  int samples) {
  double worst = 0;
  with_floating(p.type, "conv_error", [&]<class T>() {
    const T *tx = static_cast<const T*>(x), *tw = static_cast<const T*>(w),
            *ty = static_cast<const T*>(y);
    const T* const result = result_of(p, tx, tw, ty);
    const Before before(ConvTerm<T>::terms(p));
    const i64 size = ConvTerm<T>::results(p), count = size < samples ? size : samples;
    // An odd distance walks through all channels and positions.
    const i64 stride = count > 1 ? (size / count) | 1 : 1,
              picked = (size - 1) / stride + 1 < count ? (size - 1) / stride + 1 : count;
    const Tensor got = Tensor::empty({picked}, DType::f32, device);
    for_each(device, picked, Pick<T>{result, got.as<float>(), stride, 0});
    const Tensor here = got.to(Device::cpu());
    double squares = 0;
    for (i64 i = 0; i < picked; ++i) {
      double want = sum_all(device, ConvTerm<T>::terms(p), ConvTerm<T>(p, tx, tw, ty, i * stride));
      if (p.accumulate) want += static_cast<double>(before(i * stride));
      const double gap = std::abs(want - static_cast<double>(here.as<float>()[i]));
      if (worst == worst && !(gap <= worst)) worst = gap;  // a NaN stays
      squares += want * want;
    }
    worst /= std::sqrt(squares / static_cast<double>(picked)) + 1e-30;
  });
  return worst;
}

}  // namespace gossamer::cudnn
