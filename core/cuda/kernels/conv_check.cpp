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
  i64 stride, size;
  GOSSAMER_HD void operator()(i64 i) const { out[i] = load(p, i * stride % size); }
};
// Every stride-th element of what holds `size` and begins anew behind the last.
template <class T>
Tensor pick(Device device, const void* p, i64 count, i64 stride, i64 size) {
  const Tensor out = Tensor::empty({count}, DType::f32, device);
  for_each(device, count, Pick<T>{static_cast<const T*>(p), out.as<float>(), stride, size});
  return out.to(Device::cpu());
}

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

void* result_of(const ConvProblem& p, const ConvMemory& m) {
  return p.op == ConvOp::forward ? m.y : p.op == ConvOp::backward_data ? m.x : m.w;
}

}  // namespace

void prepare_check(Device device, const ConvProblem& p, const ConvMemory& m) {
  with_floating(p.type, "prepare_check", [&]<class T>() {
    for_each(device, ConvTerm<T>::results(p),
             Fill<T>{static_cast<T*>(result_of(p, m)), Before(ConvTerm<T>::terms(p))});
  });
}

double conv_error(Device device, const ConvProblem& p, const ConvMemory& m, int samples) {
  double worst = 0;
  with_floating(p.type, "conv_error", [&]<class T>() {
    const T *x = static_cast<const T*>(m.x), *w = static_cast<const T*>(m.w),
            *y = static_cast<const T*>(m.y);
    const Before before(ConvTerm<T>::terms(p));
    const i64 size = ConvTerm<T>::results(p), count = size < samples ? size : samples;
    // An odd distance walks through all channels and positions.
    const i64 stride = count > 1 ? (size / count) | 1 : 1,
              picked = (size - 1) / stride + 1 < count ? (size - 1) / stride + 1 : count;
    const Tensor got = pick<T>(device, result_of(p, m), picked, stride, size),
                 bias = p.bias ? pick<T>(device, m.bias, picked, stride, p.k) : Tensor(),
                 add = p.add ? pick<T>(device, m.add, picked, stride, size) : Tensor();
    double squares = 0;
    for (i64 i = 0; i < picked; ++i) {
      const auto of = [&](const Tensor& t) {
        return t.defined() ? static_cast<double>(t.as<float>()[i]) : 0.0;
      };
      double want = sum_all(device, ConvTerm<T>::terms(p), ConvTerm<T>(p, x, w, y, i * stride));
      if (p.accumulate) want += static_cast<double>(before(i * stride));
      want += of(bias) + of(add);
      if (p.relu && want < 0) want = 0;
      const double gap = std::abs(want - of(got));
      if (worst == worst && !(gap <= worst)) worst = gap;  // a NaN stays
      squares += want * want;
    }
    worst /= std::sqrt(squares / static_cast<double>(picked)) + 1e-30;
  });
  return worst;
}

}  // namespace gossamer::cudnn
