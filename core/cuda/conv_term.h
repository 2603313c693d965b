// One element of a convolution or of one of its gradients as a sum of products: term i of element
// `at`. A kernel's result is checked with it, independently of how it was computed. The formulas
// are those of core/README.md.
#pragma once

#include "gossamer/core/cuda/cudnn_plan.h"
#include "gossamer/core/ops/kernel.h"

namespace gossamer::cudnn {

template <class T>
struct ConvTerm {
  ConvOp op;
  i64 n, h, w, c, k, r, s, ho, wo, stride, pad, dilation, groups;
  const T *x, *weight, *y;  // the two operands; the third is not read
  i64 at;                   // element of the result

  ConvTerm(const ConvProblem& p, const T* x_, const T* weight_, const T* y_, i64 at_)
      : op(p.op),
        n(p.n),
        h(p.h),
        w(p.w),
        c(p.c),
        k(p.k),
        r(p.r),
        s(p.s),
        ho(p.ho()),
        wo(p.wo()),
        stride(p.stride),
        pad(p.pad_before),
        dilation(p.dilation),
        groups(p.groups),
        x(x_),
        weight(weight_),
        y(y_),
        at(at_) {}

  static i64 results(const ConvProblem& p) {
    switch (p.op) {
      case ConvOp::forward:
        return p.n * p.ho() * p.wo() * p.k;
      case ConvOp::backward_data:
        return p.n * p.h * p.w * p.c;
      default:
        return p.k * p.r * p.s * (p.c / p.groups);
    }
  }
  static i64 terms(const ConvProblem& p) {
    switch (p.op) {
      case ConvOp::forward:
        return p.r * p.s * (p.c / p.groups);
      case ConvOp::backward_data:
        return p.r * p.s * (p.k / p.groups);
      default:
        return p.n * p.ho() * p.wo();
    }
  }

  GOSSAMER_HD float operator()(i64 i) const {
    const i64 cg = c / groups, kg = k / groups;
    if (op == ConvOp::forward) {
      const i64 filter = at % k, q = at / k % wo, o = at / k / wo % ho, image = at / k / wo / ho;
      const i64 channel = i % cg, sx = i / cg % s, rx = i / cg / s;
      return product(image, o, q, filter, rx, sx, channel);
    }
    if (op == ConvOp::backward_filter) {
      const i64 channel = at % cg, sx = at / cg % s, rx = at / cg / s % r, filter = at / cg / s / r;
      return product(i / wo / ho, i / wo % ho, i % wo, filter, rx, sx, channel);
    }
    const i64 channel = at % c, column = at / c % w, row = at / c / w % h, image = at / c / w / h,
              group = channel / cg;
    const i64 filter = group * kg + i % kg, sx = i / kg % s, rx = i / kg / s;
    const i64 down = row + pad - rx * dilation, across = column + pad - sx * dilation;
    if (down < 0 || across < 0 || down % stride || across % stride || down / stride >= ho ||
        across / stride >= wo)
      return 0;
    return load(y, ((image * ho + down / stride) * wo + across / stride) * k + filter) *
           load(weight, ((filter * r + rx) * s + sx) * cg + channel - group * cg);
  }

 private:
  // What output pixel (o, q) and filter see through tap (rx, sx) and channel of the filter's group.
  GOSSAMER_HD float product(i64 image, i64 o, i64 q, i64 filter, i64 rx, i64 sx,
                            i64 channel) const {
    const i64 cg = c / groups, row = o * stride + rx * dilation - pad,
              column = q * stride + sx * dilation - pad;
    if (row < 0 || row >= h || column < 0 || column >= w) return 0;
    const float value =
        load(x, ((image * h + row) * w + column) * c + filter / (k / groups) * cg + channel);
    return value * (op == ConvOp::forward
                        ? load(weight, ((filter * r + rx) * s + sx) * cg + channel)
                        : load(y, ((image * ho + o) * wo + q) * k + filter));
  }
};

// Fills the result (x, w or y, by p.op) before the run that conv_error checks: small multiples of a
// power of two, exact in every type, of the size that sums of products of values in (-1, 1) have. A
// plan that ignores p.accumulate, or that adds where it should overwrite, is then wrong everywhere.
void prepare_check(Device, const ConvProblem& p, const ConvMemory&);

// Largest difference between elements of a result and what they should be, over the root mean
// square of the latter; `samples` elements spread over the result. With p.accumulate the result
// must have been filled by prepare_check. All memory is of the device. The host waits.
double conv_error(Device, const ConvProblem& p, const ConvMemory&, int samples = 48);

}  // namespace gossamer::cudnn
