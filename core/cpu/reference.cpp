// The reference backend: plain loops that say what each call means. The oracle of the tests. Sums
// are in double, so that its rounding never counts; never clever.
#include <algorithm>
#include <cmath>
#include <vector>

#include "gossamer/core/cpu/cpu_backend.h"
#include "gossamer/core/cpu/reference_text.h"
#include "gossamer/core/ops/kernel.h"

namespace gossamer {
namespace {

// Input row (or column) under tap r of output o; -1 in the padding.
i64 source(i64 o, i64 r, const ConvGeometry& g, i64 extent) {
  const i64 i = o * g.stride + r * g.dilation - g.padding;
  return i >= 0 && i < extent ? i : -1;
}
// Output that sees input i under tap r; -1 if there is none.
i64 target(i64 i, i64 r, const ConvGeometry& g, i64 extent) {
  const i64 o = i + g.padding - r * g.dilation;
  return o >= 0 && o % g.stride == 0 && o / g.stride < extent ? o / g.stride : -1;
}

class Reference final : public CpuBackend {
 public:
  const char* name() const override { return "reference"; }

  void gemm(bool ta, bool tb, const Tensor& a, const Tensor& b, Tensor& c, bool add) override {
    const i64 m = c.shape(0), n = c.shape(1), k = a.shape(ta ? 0 : 1);
    with_floating(a.dtype(), c.dtype(), "gemm", [&]<class T, class C>() {
      const T *pa = a.as<T>(), *pb = b.as<T>();
      C* pc = c.as<C>();
      parallel_for(m, 1, [&](i64 begin, i64 end) {
        std::vector<double> row(static_cast<std::size_t>(n));
        for (i64 i = begin; i < end; ++i) {
          std::fill(row.begin(), row.end(), 0.0);
          for (i64 p = 0; p < k; ++p) {
            const double left = static_cast<double>(load(pa, ta ? p * m + i : i * k + p));
            for (i64 j = 0; j < n; ++j)
              row[static_cast<std::size_t>(j)] +=
                  left * static_cast<double>(load(pb, tb ? j * k + p : p * n + j));
          }
          for (i64 j = 0; j < n; ++j) {
            double v = row[static_cast<std::size_t>(j)];
            if (add) v += static_cast<double>(load(pc, i * n + j));
            store(pc, i * n + j, static_cast<float>(v));
          }
        }
      });
    });
  }

  void conv(const ConvGeometry& g, const Tensor& x, const Tensor& w, Tensor& y) override {
    const i64 cg = g.c / g.groups, kg = g.k / g.groups;
    with_floating(x.dtype(), "conv", [&]<class T>() {
      const T *px = x.as<T>(), *pw = w.as<T>();
      T* py = y.as<T>();
      parallel_for(g.n * g.ho, 1, [&](i64 begin, i64 end) {
        for (i64 row = begin; row < end; ++row)
          for (i64 j = 0; j < g.wo; ++j)
            for (i64 k = 0; k < g.k; ++k) {
              double sum = 0;
              for (i64 r = 0; r < g.r; ++r)
                for (i64 s = 0; s < g.s; ++s) {
                  const i64 n = row / g.ho, h = source(row % g.ho, r, g, g.h),
                            v = source(j, s, g, g.w);
                  if (h < 0 || v < 0) continue;
                  const T* from = px + ((n * g.h + h) * g.w + v) * g.c + k / kg * cg;
                  const T* tap = pw + ((k * g.r + r) * g.s + s) * cg;
                  for (i64 c = 0; c < cg; ++c)
                    sum += static_cast<double>(load(from, c)) * static_cast<double>(load(tap, c));
                }
              store(py, (row * g.wo + j) * g.k + k, static_cast<float>(sum));
            }
      });
    });
  }

  void conv_dx(const ConvGeometry& g, const Tensor& dy, const Tensor& w, Tensor& dx) override {
    const i64 cg = g.c / g.groups, kg = g.k / g.groups;
    with_floating(dy.dtype(), "conv_dx", [&]<class T>() {
      const T *pdy = dy.as<T>(), *pw = w.as<T>();
      T* pdx = dx.as<T>();
      parallel_for(g.n * g.h, 1, [&](i64 begin, i64 end) {
        std::vector<double> sum(static_cast<std::size_t>(g.c));
        for (i64 row = begin; row < end; ++row)
          for (i64 v = 0; v < g.w; ++v) {
            std::fill(sum.begin(), sum.end(), 0.0);
            for (i64 r = 0; r < g.r; ++r)
              for (i64 s = 0; s < g.s; ++s) {
                const i64 n = row / g.h, i = target(row % g.h, r, g, g.ho),
                          j = target(v, s, g, g.wo);
                if (i < 0 || j < 0) continue;
                for (i64 k = 0; k < g.k; ++k) {
                  const double up =
                      static_cast<double>(load(pdy, ((n * g.ho + i) * g.wo + j) * g.k + k));
                  const T* tap = pw + ((k * g.r + r) * g.s + s) * cg;
                  double* to = sum.data() + k / kg * cg;
                  for (i64 c = 0; c < cg; ++c) to[c] += up * static_cast<double>(load(tap, c));
                }
              }
            for (i64 c = 0; c < g.c; ++c)
              store(pdx, (row * g.w + v) * g.c + c,
                    static_cast<float>(sum[static_cast<std::size_t>(c)]));
          }
      });
    });
  }

  void conv_dw(const ConvGeometry& g, const Tensor& x, const Tensor& dy, Tensor& dw) override {
    const i64 cg = g.c / g.groups, kg = g.k / g.groups;
    with_floating(x.dtype(), "conv_dw", [&]<class T>() {
      const T *px = x.as<T>(), *pdy = dy.as<T>();
      float* pdw = dw.as<float>();
      parallel_for(g.k, 1, [&](i64 begin, i64 end) {
        std::vector<double> sum(static_cast<std::size_t>(cg));
        for (i64 k = begin; k < end; ++k)
          for (i64 r = 0; r < g.r; ++r)
            for (i64 s = 0; s < g.s; ++s) {
              std::fill(sum.begin(), sum.end(), 0.0);
              for (i64 row = 0; row < g.n * g.ho; ++row)
                for (i64 j = 0; j < g.wo; ++j) {
                  const i64 n = row / g.ho, h = source(row % g.ho, r, g, g.h),
                            v = source(j, s, g, g.w);
                  if (h < 0 || v < 0) continue;
                  const double up = static_cast<double>(load(pdy, (row * g.wo + j) * g.k + k));
                  const T* from = px + ((n * g.h + h) * g.w + v) * g.c + k / kg * cg;
                  for (i64 c = 0; c < cg; ++c)
                    sum[static_cast<std::size_t>(c)] += up * static_cast<double>(load(from, c));
                }
              for (i64 c = 0; c < cg; ++c)
                pdw[((k * g.r + r) * g.s + s) * cg + c] =
                    static_cast<float>(sum[static_cast<std::size_t>(c)]);
            }
      });
    });
  }

  void layer_norm(const RowNorm& n, const Tensor* add, Tensor* sum, Tensor& y) override {
    reference::layer_norm(n, add, sum, y);
  }
  void layer_norm_back(const RowNorm& n, const Tensor& dy, bool accumulate, Tensor& dx,
                       const Tensor& d_scale, const Tensor& d_shift) override {
    reference::layer_norm_back(n, dy, accumulate, dx, d_scale, d_shift);
  }
  void attention(const Attention& a, Tensor& y, const Tensor& log_sums) override {
    reference::attention(a, y, log_sums);
  }
  void attention_back(const Attention& a, const Tensor& y, const Tensor& log_sums, const Tensor& dy,
                      const PackedRows& dq, const PackedRows& dk, const PackedRows& dv) override {
    reference::attention_back(a, y, log_sums, dy, dq, dk, dv);
  }
  void softmax_loss(const Tensor& logits, const Tensor& labels, const LossRows& how, Tensor& losses,
                    const Tensor& dz) override {
    reference::softmax_loss(logits, labels, how, losses, dz);
  }

 protected:
  void batch_statistics(Norm& n, float eps) override {
    const i64 cols = n.x.shape(-1), rows = n.x.numel() / cols;
    float *pm = n.mean.as<float>(), *pi = n.inv_std.as<float>();
    with_floating(n.x.dtype(), "batch_norm", [&]<class T>() {
      const T* px = n.x.as<T>();
      parallel_for(cols, 4, [&](i64 begin, i64 end) {
        for (i64 c = begin; c < end; ++c) {
          double sum = 0, squares = 0;
          for (i64 r = 0; r < rows; ++r) sum += static_cast<double>(load(px, r * cols + c));
          const double m = sum / static_cast<double>(rows);
          for (i64 r = 0; r < rows; ++r) {
            const double d = static_cast<double>(load(px, r * cols + c)) - m;
            squares += d * d;
          }
          pm[c] = static_cast<float>(m);
          pi[c] = static_cast<float>(
              1 / std::sqrt(squares / static_cast<double>(rows) + static_cast<double>(eps)));
        }
      });
    });
  }

  Tensor batch_norm(const Norm& n, const Tensor* add, const Norm* second, bool relu,
                    Tensor& y) override {
    const i64 cols = n.x.shape(-1), rows = n.x.numel() / cols;
    with_floating(n.x.dtype(), "batch_norm", [&]<class T>() {
      const auto normalised = [](const Norm& of, i64 i, i64 c) {
        const float xhat =
            (load(of.x.as<T>(), i) - of.mean.as<float>()[c]) * of.inv_std.as<float>()[c];
        return of.scale.as<float>()[c] * xhat + of.shift.as<float>()[c];
      };
      parallel_for(rows, (1 << 15) / cols + 1, [&](i64 begin, i64 end) {
        for (i64 i = begin * cols; i < end * cols; ++i) {
          float v = normalised(n, i, i % cols);
          if (add) v += load(add->as<T>(), i);
          if (second) v += normalised(*second, i, i % cols);
          store(y.as<T>(), i, relu && v < 0 ? 0.0f : v);
        }
      });
    });
    return relu ? y : Tensor();
  }

  void batch_norm_back(const Norm& n, bool relu, const Tensor& y, const Tensor& dy,
                       const NormGrads& grads, Tensor* d_add) override {
    const i64 cols = n.x.shape(-1), rows = n.x.numel() / cols;
    const float *ps = n.scale.as<float>(), *pm = n.mean.as<float>(), *pi = n.inv_std.as<float>();
    with_floating(n.x.dtype(), "batch_norm", [&]<class T>() {
      const T *pdy = dy.as<T>(), *px = n.x.as<T>(), *py = relu ? y.as<T>() : nullptr;
      T *pdx = grads.dx.as<T>(), *pda = d_add ? d_add->as<T>() : nullptr;
      parallel_for(cols, 4, [&](i64 begin, i64 end) {
        for (i64 c = begin; c < end; ++c) {
          const double m = static_cast<double>(pm[c]), inv = static_cast<double>(pi[c]);
          const auto up = [&](i64 i) {
            return py && !(load(py, i) > 0) ? 0.0 : static_cast<double>(load(pdy, i));
          };
          const auto xhat = [&](i64 i) { return (static_cast<double>(load(px, i)) - m) * inv; };
          double sum = 0, dot = 0;
          for (i64 i = c; i < rows * cols; i += cols) {
            sum += up(i);
            dot += up(i) * xhat(i);
          }
          const double share = n.given ? 0 : 1 / static_cast<double>(rows);
          for (i64 i = c; i < rows * cols; i += cols) {
            const double g = up(i);
            if (pda) store(pda, i, static_cast<float>(g));
            store(pdx, i,
                  static_cast<float>(static_cast<double>(ps[c]) * inv *
                                     (g - share * (sum + xhat(i) * dot))));
          }
          grads.d_shift.as<float>()[c] = static_cast<float>(sum);
          grads.d_scale.as<float>()[c] = static_cast<float>(dot);
        }
      });
    });
  }
};

}  // namespace

Backend& reference_backend() {
  static Reference& backend = *new Reference;  // never destroyed: threads may outlive main()
  return backend;
}

}  // namespace gossamer
