// Checking the result of a convolution at some elements, for plans of cuDNN that nobody else has
// checked.
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

}  // namespace

double conv_error(Device device, const ConvProblem& p, const void* x, const void* w, const void* y,
                  int samples) {
  double worst = 0;
  with_floating(p.type, "conv_error", [&]<class T>() {
    const T *tx = static_cast<const T*>(x), *tw = static_cast<const T*>(w),
            *ty = static_cast<const T*>(y);
    const T* const result = p.op == ConvOp::forward ? ty : p.op == ConvOp::backward_data ? tx : tw;
    const i64 size = ConvTerm<T>::results(p), count = size < samples ? size : samples;
    // An odd distance walks through all channels and positions.
    const i64 stride = count > 1 ? (size / count) | 1 : 1,
              picked = (size - 1) / stride + 1 < count ? (size - 1) / stride + 1 : count;
    const Tensor got = Tensor::empty({picked}, DType::f32, device);
    for_each(device, picked, Pick<T>{result, got.as<float>(), stride, 0});
    const Tensor here = got.to(Device::cpu());
    double squares = 0;
    for (i64 i = 0; i < picked; ++i) {
      const double want =
          sum_all(device, ConvTerm<T>::terms(p), ConvTerm<T>(p, tx, tw, ty, i * stride));
      const double gap = std::abs(want - static_cast<double>(here.as<float>()[i]));
      if (worst == worst && !(gap <= worst)) worst = gap;  // a NaN stays
      squares += want * want;
    }
    worst /= std::sqrt(squares / static_cast<double>(picked)) + 1e-30;
  });
  return worst;
}

}  // namespace gossamer::cudnn
