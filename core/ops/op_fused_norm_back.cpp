// Batch norm of fused.h, backward: checks and launches of norm_back_kernels.h.
#include <cmath>

#include "gossamer/core/ops/fused_checks.h"
#include "gossamer/core/ops/norm_back_kernels.h"

namespace gossamer::fused {
namespace {

using namespace kernels;
using From = NormGradient::From;
using Relu = NormGradient::Relu;

struct Shapes {
  Matrix m;
  Sweep sweep;
  bool whole;
};

void check_arguments(const NormGradient& g, const NormBack& one, const NormBack* two,
                     const Tensor* d_add) {
  const char* op = "norm_back";
  const Tensor& x = one.x;
  const Matrix m = matrix_of(op, x);
  for (const NormBack* b : {&one, two}) {
    if (!b) continue;
    check_like(op, "an input", b->x, x);
    check_like(op, "dx", b->dx, x);
    check_vectors(op, x,
                  {&b->gamma, &b->factors.mean, &b->factors.inv_std, &b->factors.scale,
                   &b->factors.shift, &b->d_gamma, &b->d_beta});
  }
  if (d_add) check_like(op, "d_add", *d_add, x);
  check<ShapeError>(!d_add || d_add->data() != one.dx.data(), op,
                    ": d_add and dx are one memory; only one of them can take the place of dy");
  if (g.from == From::dense)
    check_like(op, "dy", g.dy, x);
  else
    check<ShapeError>(x.rank() == 4 && m.rows < (i64{1} << 32), op, ": input is ", x.shape(),
                      "; wanted [N, H, W, C] with less than 2^32 pixels");
  if (g.from == From::pooled) {
    const Shape pooled{x.shape(0), (x.shape(1) - 1) / 2 + 1, (x.shape(2) - 1) / 2 + 1, x.shape(3)};
    check_type(op, "dy", g.dy, pooled, x.dtype(), x.device());
    check_type(op, "taken", g.taken, pooled, DType::u8, x.device());
    check<ShapeError>(g.relu == Relu::none, op,
                      ": a pooled gradient has its ReLU's mask in `taken`; set relu to none");
  }
  if (g.relu == Relu::output) check_like(op, "the output", g.mask, x);
  if (g.relu == Relu::bits)
    check<ShapeError>(
        g.mask.defined() && g.mask.dtype() == DType::u8 && g.mask.numel() == norm_mask_bytes(x), op,
        ": mask is ", g.mask.defined() ? g.mask.shape().str() : "undefined", "; wanted u8 of ",
        norm_mask_bytes(x), " bytes for ", x.shape());
  check<ShapeError>(!two || (g.from == From::dense && g.relu == Relu::bits), op,
                    ": two branches together need a dense gradient and a mask of bits");
}

// gamma inv_std and the other factors of the last pass: f32 [3, C] for each branch.
NormBackFactors factors_of(const NormBack& b, float* out, i64 cols) {
  return {b.gamma.as<float>(),
          b.factors.mean.as<float>(),
          b.factors.inv_std.as<float>(),
          out,
          out + cols,
          out + 2 * cols,
          b.d_gamma.as<float>(),
          b.d_beta.as<float>()};
}

template <class T, class Source, Mask mask, bool whole, bool joint>
void run(const Source& source, const NormGradient& g, const NormBack& one, const NormBack* two,
         Tensor* d_add, const Shapes& s) {
  using Sums = NormBackSums<T, Source, mask, whole, joint>;
  const Device device = one.x.device();
  const i64 rows = s.m.rows, cols = s.m.cols, wide = (cols + 3) / 4 * 4;
  const Tiles tiles = Tiles::over(rows, cols, kBlocksOfSums, s.sweep == Sweep::down);
  const Scratch partial(Sums::sums * tiles.parts * cols, device), factors(6 * wide, device);
  const NormBackInput<T, Source, mask, whole, joint> in{
      source,
      one.x.as<T>(),
      joint ? two->x.as<T>() : nullptr,
      mask == Mask::output ? g.mask.as<T>() : nullptr,
      mask == Mask::bits ? g.mask.as<std::uint8_t>() : nullptr,
      one.factors.scale.as<float>(),
      one.factors.shift.as<float>()};
  for_each_block(device, tiles.blocks(),
                 Sums{tiles, in, one.factors.mean.as<float>(),
                      joint ? two->factors.mean.as<float>() : nullptr, partial.data()});
  float* const f = factors.data();
  const FinishBack<joint> finish{factors_of(one, f, wide),
                                 factors_of(joint ? *two : one, f + 3 * wide, wide),
                                 static_cast<double>(rows)};
  const JoinParts<Sums::sums, FinishBack<joint>> join{partial.data(), tiles.parts, cols, finish};
  for_each_block(device, join.blocks(), join);
  const Tiles back = Tiles::over(rows, cols, kBlocksOfPasses, s.sweep == Sweep::up);
  for_each_block(
      device, back.blocks(),
      NormBackApply<T, Source, mask, whole, joint>{
          back, in, f, f + wide, f + 2 * wide, f + 3 * wide, f + 4 * wide, f + 5 * wide,
          one.dx.as<T>(), joint ? two->dx.as<T>() : nullptr, d_add ? d_add->as<T>() : nullptr});
}

template <class T, bool whole>
void choose(const NormGradient& g, const NormBack& one, const NormBack* two, Tensor* d_add,
            const Shapes& s) {
  const T* dy = g.dy.as<T>();
  if (g.from == From::pooled) {
    const auto extent = [](const Tensor& t, int d) { return static_cast<unsigned>(t.shape(d)); };
    const PooledGradient<T> source{dy,
                                   g.taken.as<std::uint8_t>(),
                                   extent(one.x, 1),
                                   extent(one.x, 2),
                                   extent(g.dy, 1),
                                   extent(g.dy, 2)};
    return run<T, PooledGradient<T>, Mask::none, whole, false>(source, g, one, two, d_add, s);
  }
  const DenseGradient<T> source{dy};
  if (two) return run<T, DenseGradient<T>, Mask::bits, whole, true>(source, g, one, two, d_add, s);
  const auto with = [&]<Mask mask>() {
    run<T, DenseGradient<T>, mask, whole, false>(source, g, one, two, d_add, s);
  };
  switch (g.relu) {
    case Relu::none:
      return with.template operator()<Mask::none>();
    case Relu::factors:
      return with.template operator()<Mask::factors>();
    case Relu::bits:
      return with.template operator()<Mask::bits>();
    case Relu::output:
      return with.template operator()<Mask::output>();
  }
}

}  // namespace

void norm_back(const NormGradient& g, const NormBack& one, const NormBack* two, Tensor* d_add,
               Sweep sweep) {
  check_arguments(g, one, two, d_add);
  Shapes s{matrix_of("norm_back", one.x), sweep, true};
  for (const NormBack* b : {&one, two})
    if (b)
      s.whole =
          s.whole && fits_vectors(s.m.cols, {&b->x, &b->dx, &b->factors.mean, &b->factors.scale,
                                             &b->factors.shift, d_add, &g.dy});
  if (g.relu == Relu::output) s.whole = s.whole && fits_vectors(s.m.cols, {&g.mask});
  if (g.from == From::pooled) s.whole = s.whole && fits_vectors(s.m.cols, {&g.taken});
  with_floating(one.x.dtype(), "norm_back", [&]<class T>() {
    if (s.whole)
      choose<T, true>(g, one, two, d_add, s);
    else
      choose<T, false>(g, one, two, d_add, s);
  });
}

}  // namespace gossamer::fused
