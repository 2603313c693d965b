// The passes of exchange.h. No product is fused with a sum (-ffp-contract=off), as in
// op_update.cpp, so that a drift in a snapshot and the same drift in an update give the same bits.
#include <algorithm>

#include "gossamer/core/exchange.h"
#include "gossamer/core/ops/block_terms.h"
#include "gossamer/core/ops/lanes.h"
#include "gossamer/core/update.h"

namespace gossamer {
namespace {

template <int N, bool has_twin, class Wire>
struct TakeSnapshot {
  const float *x, *twin;
  float c, s;
  Wire* out;
  GOSSAMER_HD void operator()(i64 i) const {
    const i64 at = N * i;
    Lanes<N> a = load_lanes<N>(x + at);
    if constexpr (has_twin) {
      Lanes<N> b = load_lanes<N>(twin + at);
      GOSSAMER_UNROLL
      for (int j = 0; j < N; ++j) mix_element(c, s, a.v[j], b.v[j]);
    }
    store_lanes<N>(out + at, a);
  }
};
template <int N, bool has_twin, class Wire>
struct ApplyDifference {
  float *x, *twin;
  const Wire *own, *received;
  float jump_x, jump_twin;
  GOSSAMER_HD void operator()(i64 i) const {
    const i64 at = N * i;
    const Lanes<N> mine = load_lanes<N, Reuse::never>(own + at),
                   theirs = load_lanes<N, Reuse::never>(received + at);
    Lanes<N> a = load_lanes<N>(x + at), b{};
    if constexpr (has_twin) b = load_lanes<N>(twin + at);
    GOSSAMER_UNROLL
    for (int j = 0; j < N; ++j)
      jump_element(jump_x, jump_twin, mine.v[j] - theirs.v[j], a.v[j], b.v[j]);
    store_lanes<N>(x + at, a);
    if constexpr (has_twin) store_lanes<N>(twin + at, b);
  }
};
struct MixElement {
  float *x, *y;
  float c, s;
  GOSSAMER_HD void operator()(i64 i) const { mix_element(c, s, x[i], y[i]); }
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

i64 check_exchanged(const char* op, const Tensor& x, const Tensor& twin) {
  check<ShapeError>(x.defined() && x.numel() % 8 == 0, op, ": x is ",
                    x.defined() ? x.shape().str() : "undefined",
                    "; wanted a multiple of 8 elements");
  check_block(op, "x", x, x.numel(), DType::f32, x.device());
  if (twin.defined()) check_block(op, "twin", twin, x.numel(), DType::f32, x.device());
  return x.numel();
}

}  // namespace

void take_snapshot(const Tensor& x, const Tensor& twin, float c, float s, Tensor& out) {
  const char* op = "take_snapshot";
  const i64 size = check_exchanged(op, x, twin);
  check_block(op, "the snapshot", out, size, out.defined() ? out.dtype() : DType::f32, x.device());
  with_wire(op, out, [&]<class Wire>() {
    with_lanes(x.device(), twin, [&]<int N, bool has_twin>() {
      for_each(x.device(), size / N,
               TakeSnapshot<N, has_twin, Wire>{x.as<float>(), pointer(twin), c, s, out.as<Wire>()});
    });
  });
}

void apply_difference(Tensor& x, Tensor& twin, float jump_x, float jump_twin, const Tensor& own,
                      const Tensor& received) {
  const char* op = "apply_difference";
  const i64 size = check_exchanged(op, x, twin);
  check_exchange(op, own, received, size, x.device());
  with_wire(op, own, [&]<class Wire>() {
    with_lanes(x.device(), twin, [&]<int N, bool has_twin>() {
      for_each(x.device(), size / N,
               ApplyDifference<N, has_twin, Wire>{x.as<float>(), pointer(twin), own.as<Wire>(),
                                                  received.as<Wire>(), jump_x, jump_twin});
    });
  });
}

void mix(Tensor& x, Tensor& y, float c, float s) {
  check_same("mix", x, y);
  for_each(x.device(), x.numel(), MixElement{x.as<float>(), y.as<float>(), c, s});
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

}  // namespace gossamer
