// Passes over whole f32 blocks, beside the tape: mixing, weighted sums, norms, distances, sketches.
#include <algorithm>

#include "gossamer/core/ops/kernel.h"
#include "gossamer/core/update.h"

namespace gossamer {
namespace {

void check_same(const char* op, const Tensor& x, const Tensor& y) {
  check<ShapeError>(x.defined() && y.defined(), op, ": an operand is undefined");
  check<ShapeError>(x.dtype() == DType::f32 && y.dtype() == DType::f32 && x.numel() == y.numel(),
                    op, ": ", x.dtype(), " ", x.shape(), " and ", y.dtype(), " ", y.shape(),
                    "; wanted two f32 blocks of equal length");
  check<DeviceError>(x.device() == y.device(), op, ": operands on ", x.device(), " and ",
                     y.device());
}

struct MixElement {
  float *x, *y;
  float c, s;
  GOSSAMER_HD void operator()(i64 i) const { mix_element(c, s, x[i], y[i]); }
};
struct WeightedSum {
  float* x;
  const float* received;
  float own, share;
  GOSSAMER_HD void operator()(i64 i) const { x[i] = own * x[i] + share * received[i]; }
};
struct SquareGap {
  const float *a, *b;
  GOSSAMER_HD double operator()(i64 i) const {
    const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    return d * d;
  }
};
// One random bit an element, 64 of them in a word (splitmix64).
GOSSAMER_HD std::uint64_t scramble(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
// rows of kSketchWidth elements that one piece adds up
constexpr i64 kSketchWord = 64, kSketchRows = 256;
struct SketchPiece {
  const float* x;
  i64 n;
  std::uint64_t stream;
  double* out;  // [pieces, kSketchWidth]
  GOSSAMER_HD void operator()(i64 p, i64 begin, i64 end) const {
    double* sums = out + p * kSketchWidth;
    for (i64 c = begin; c < end; ++c) sums[c] = 0;
    for (i64 r = p * kSketchRows; r < (p + 1) * kSketchRows; ++r) {
      const i64 row = r * kSketchWidth, last = n - row < end ? n - row : end;
      for (i64 c = begin; c < last;) {
        const i64 word = c / kSketchWord * kSketchWord,
                  stop = word + kSketchWord < last ? word + kSketchWord : last;
        const std::uint64_t signs = scramble(stream ^ static_cast<std::uint64_t>(row + word));
        for (; c < stop; ++c) {
          const auto value = static_cast<double>(x[row + c]);
          sums[c] += (signs >> (c - word) & 1) ? -value : value;
        }
      }
    }
  }
};
struct JoinSketch {  // the first piece becomes the sum
  double* pieces;
  i64 n;
  GOSSAMER_HD void operator()(i64 c) const {
    for (i64 p = 1; p < n; ++p) pieces[c] += pieces[p * kSketchWidth + c];
  }
};
struct ScaleElement {
  float* x;
  float factor;
  GOSSAMER_HD void operator()(i64 i) const { x[i] *= factor; }
};
template <class Y, class X>
struct AddScaled {
  Y* y;
  const X* x;
  float a;
  GOSSAMER_HD void operator()(i64 i) const { store(y, i, load(y, i) + a * load(x, i)); }
};

}  // namespace

void mix(Tensor& x, Tensor& y, float c, float s) {
  check_same("mix", x, y);
  for_each(x.device(), x.numel(), MixElement{x.as<float>(), y.as<float>(), c, s});
}

void weighted_sum(Tensor& x, float own, float share, const Tensor& received) {
  check_same("weighted_sum", x, received);
  for_each(x.device(), x.numel(), WeightedSum{x.as<float>(), received.as<float>(), own, share});
}

double squared_distance(const Tensor& a, const Tensor& b) {
  check_same("squared_distance", a, b);
  return sum_all(a.device(), a.numel(), SquareGap{a.as<float>(), b.as<float>()});
}
void squared_distance_to(const Tensor& a, const Tensor& b, const Tensor& out) {
  check_same("squared_distance_to", a, b);
  check<ShapeError>(out.dtype() == DType::f32 && out.numel() == 1 && out.device() == a.device(),
                    "squared_distance_to: the result goes to ", out.dtype(), " ", out.shape(),
                    " on ", out.device(), "; wanted one f32 on ", a.device());
  sum_to(a.device(), a.numel(), SquareGap{a.as<float>(), b.as<float>()}, 1, out.as<float>());
}
void count_sketch(const Tensor& x, std::uint64_t stream, std::span<double> sums) {
  check<ShapeError>(
      x.dtype() == DType::f32 && sums.size() == static_cast<std::size_t>(kSketchWidth),
      "count_sketch: ", x.dtype(), " ", x.shape(), " into ", sums.size(), " sums; wanted f32 and ",
      kSketchWidth);
  const i64 piece = kSketchRows * kSketchWidth,
            pieces = std::max<i64>(1, (x.numel() + piece - 1) / piece);
  const auto block =
      allocate(static_cast<std::size_t>(pieces * kSketchWidth) * sizeof(double), x.device());
  auto* out = static_cast<double*>(block->data);
  for_each_row(x.device(), pieces, kSketchWidth,
               SketchPiece{x.as<float>(), x.numel(), scramble(stream), out}, piece);
  for_each(x.device(), kSketchWidth, JoinSketch{out, pieces});
  if (x.device().is_cpu())
    std::copy_n(out, sums.size(), sums.begin());
  else
    cuda::read(sums.data(), out, sums.size_bytes(), cuda::current_stream(x.device()));
}

void scale(Tensor& x, float factor) {
  for_each(x.device(), x.numel(), ScaleElement{x.as<float>(), factor});
}

void axpy(Tensor& y, float a, const Tensor& x) {
  check_same("axpy", y, x);
  for_each(y.device(), y.numel(), AddScaled<float, float>{y.as<float>(), x.as<float>(), a});
}

void accumulate(Tensor& y, const Tensor& x) {
  check<ShapeError>(x.defined() && y.defined() && x.numel() == y.numel(),
                    "accumulate: ", x.defined() ? x.shape().str() : "nothing", " into ",
                    y.defined() ? y.shape().str() : "nothing");
  check<DeviceError>(x.device() == y.device(), "accumulate: ", x.device(), " into ", y.device());
  with_floating(y.dtype(), x.dtype(), "accumulate", [&]<class Y, class X>() {
    for_each(y.device(), y.numel(), AddScaled<Y, X>{y.as<Y>(), x.as<X>(), 1});
  });
}

}  // namespace gossamer
