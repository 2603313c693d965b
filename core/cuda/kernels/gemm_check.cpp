// Checking a product at some elements, for the kernels of cuBLASLt on the machine at hand.
#include "gossamer/core/cuda/gemm_check.h"

#include <algorithm>
#include <cmath>

#include "gossamer/core/ops/activation.h"
#include "gossamer/core/ops/kernel.h"

namespace gossamer::cublas {
namespace {

template <class T>
struct Pick {  // out[i] = p[i stride]
  const T* p;
  float* out;
  i64 stride;
  GOSSAMER_HD void operator()(i64 i) const { out[i] = load(p, i * stride); }
};
template <class T>
Tensor picked(const Tensor& from, i64 count, i64 stride) {
  const Tensor out = Tensor::empty({count}, DType::f32, from.device());
  for_each(from.device(), count, Pick<T>{from.as<T>(), out.as<float>(), stride});
  return out.to(Device::cpu());
}

template <class T>
struct GemmTerm {  // term i of one element
  const T *a, *b;  // its row of a and column of b
  i64 a_step, b_step;
  GOSSAMER_HD float operator()(i64 i) const { return load(a, i * a_step) * load(b, i * b_step); }
};

double most(DType type) { return type == DType::f16 ? 65504.0 : 3e38; }

}  // namespace

double gemm_error(bool ta, bool tb, const Tensor& a, const Tensor& b, const Tensor& c,
                  const Tensor& bias, bool gelu_tanh, int samples) {
  const i64 m = c.shape(0), n = c.shape(1), k = a.shape(ta ? 0 : 1), size = c.numel();
  const i64 wanted = std::min<i64>(size, samples);
  // An odd distance walks through all rows and columns.
  const i64 stride = wanted > 1 ? (size / wanted) | 1 : 1,
            count = std::min((size - 1) / stride + 1, wanted);
  Tensor got, added;
  with_floating(c.dtype(), "gemm_error", [&]<class T>() {
    got = picked<T>(c, count, stride);
    if (bias.defined()) added = picked<T>(bias, n, 1);
  });
  double worst = 0, squares = 0;
  with_floating(a.dtype(), "gemm_error", [&]<class T>() {
    for (i64 s = 0; s < count; ++s) {
      const i64 row = s * stride / n, column = s * stride % n;
      double want = sum_all(a.device(), k,
                            GemmTerm<T>{a.as<T>() + row * (ta ? 1 : k),
                                        b.as<T>() + column * (tb ? k : 1), ta ? m : 1, tb ? 1 : n});
      if (bias.defined()) want += static_cast<double>(added.as<float>()[column]);
      if (gelu_tanh) want = static_cast<double>(GeluTanh::f(static_cast<float>(want)));
      if (!(std::abs(want) < most(c.dtype()))) continue;
      const double gap = std::abs(want - static_cast<double>(got.as<float>()[s]));
      if (worst == worst && !(gap <= worst)) worst = gap;  // a NaN stays
      squares += want * want;
    }
  });
  // below this f16 has no digits
  const double least = c.dtype() == DType::f16 ? 1e-4 : 1e-30;
  return worst / (std::sqrt(squares / static_cast<double>(count)) + least);
}

}  // namespace gossamer::cublas
