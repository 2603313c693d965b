// Batch norm of fused.h, forward: checks and launches of norm_kernels.h.
#include <cmath>

#include "gossamer/core/ops/fused_checks.h"
#include "gossamer/core/ops/norm_kernels.h"

namespace gossamer::fused {

using namespace kernels;

NormFactors NormFactors::empty(i64 channels, Device device) {
  const auto vector = [&] { return Tensor::empty({channels}, DType::f32, device); };
  return {vector(), vector(), vector(), vector()};
}

void norm_statistics(const Tensor& x, const Tensor& gamma, const Tensor& beta, float eps,
                     const NormRunning& running, NormFactors& out, Sweep sweep) {
  const Matrix m = matrix_of("norm_statistics", x);
  check_vectors("norm_statistics", x,
                {&gamma, &beta, &out.mean, &out.inv_std, &out.scale, &out.shift});
  if (running.mean.defined()) check_vectors("norm_statistics", x, {&running.mean});
  if (running.var.defined()) check_vectors("norm_statistics", x, {&running.var});
  check<ShapeError>(m.rows > 1, "norm_statistics: input ", x.shape(),
                    " has one value a channel; training needs two or more");
  const Tiles tiles = Tiles::over(m.rows, m.cols, kBlocksOfSums, sweep == Sweep::down);
  const Scratch partial(2 * tiles.parts * m.cols, x.device());
  with_floating(x.dtype(), "norm_statistics", [&]<class T>() {
    if (fits_vectors(m.cols, {&x}))
      for_each_block(x.device(), tiles.blocks(),
                     NormSums<T, true>{tiles, x.as<T>(), partial.data()});
    else
      for_each_block(x.device(), tiles.blocks(),
                     NormSums<T, false>{tiles, x.as<T>(), partial.data()});
    const FinishStatistics<T> finish{x.as<T>(),
                                     gamma.as<float>(),
                                     beta.as<float>(),
                                     static_cast<double>(m.rows),
                                     eps,
                                     running.momentum,
                                     out.mean.as<float>(),
                                     out.inv_std.as<float>(),
                                     out.scale.as<float>(),
                                     out.shift.as<float>(),
                                     running.mean.defined() ? running.mean.as<float>() : nullptr,
                                     running.var.defined() ? running.var.as<float>() : nullptr};
    const JoinParts<2, FinishStatistics<T>> join{partial.data(), tiles.parts, m.cols, finish};
    for_each_block(x.device(), join.blocks(), join);
  });
}

void norm_factors(const Tensor& gamma, const Tensor& beta, NormFactors& f) {
  check_vectors("norm_factors", gamma, {&gamma, &beta, &f.mean, &f.inv_std, &f.scale, &f.shift});
  for_each(gamma.device(), gamma.numel(),
           NormFactorsFrom{gamma.as<float>(), beta.as<float>(), f.mean.as<float>(),
                           f.inv_std.as<float>(), f.scale.as<float>(), f.shift.as<float>()});
}

i64 norm_mask_bytes(const Tensor& y) { return y.numel() / y.shape(-1) * ((y.shape(-1) + 7) / 8); }

void norm_apply(const Tensor& x, const NormFactors& f, const NormJoin& join, Tensor& y,
                Sweep sweep) {
  const Matrix m = matrix_of("norm_apply", x);
  check_like("norm_apply", "y", y, x);
  check_vectors("norm_apply", x, {&f.scale, &f.shift});
  const Tensor* other = join.add ? join.add : join.second;
  check<ShapeError>(!(join.add && join.second),
                    "norm_apply: add and second are both given; one of them can be joined");
  if (other) check_like("norm_apply", "what is joined", *other, x);
  const NormFactors* f2 = join.second ? join.second_factors : nullptr;
  check<ShapeError>(!join.second || f2, "norm_apply: second is given without second_factors");
  if (f2) check_vectors("norm_apply", x, {&f2->scale, &f2->shift});
  if (join.mask)
    check<ShapeError>(join.mask->dtype() == DType::u8 && join.mask->numel() == norm_mask_bytes(y),
                      "norm_apply: mask is ", join.mask->dtype(), " ", join.mask->shape(),
                      "; wanted u8 of ", norm_mask_bytes(y), " bytes for ", y.shape());
  const Tiles tiles = Tiles::over(m.rows, m.cols, kBlocksOfPasses, sweep == Sweep::down);
  const bool whole = fits_vectors(m.cols, {&x, &y, &f.scale, &f.shift, other,
                                           f2 ? &f2->scale : nullptr, f2 ? &f2->shift : nullptr});
  with_floating(x.dtype(), "norm_apply", [&]<class T>() {
    const auto go = [&]<bool w, Join j>() {
      for_each_block(x.device(), tiles.blocks(),
                     NormApply<T, w, j>{
                         tiles, x.as<T>(), other ? other->as<T>() : nullptr, f.scale.as<float>(),
                         f.shift.as<float>(), f2 ? f2->scale.as<float>() : nullptr,
                         f2 ? f2->shift.as<float>() : nullptr, y.as<T>(),
                         join.mask ? join.mask->as<std::uint8_t>() : nullptr, join.relu});
    };
    const auto chosen = [&]<bool w>() {
      if (join.add)
        go.template operator()<w, Join::add>();
      else if (join.second)
        go.template operator()<w, Join::norm>();
      else
        go.template operator()<w, Join::none>();
    };
    if (whole)
      chosen.template operator()<true>();
    else
      chosen.template operator()<false>();
  });
}

}  // namespace gossamer::fused
