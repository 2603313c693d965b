// Batch norm backward: launches of norm_back.h, in the directions that norm.cpp says.
#include "gossamer/core/cuda/kernels/norm_back.h"

#include "gossamer/core/cuda/fused.h"

namespace gossamer {
namespace {

using namespace kernels;

struct Branches {
  const Norm& one;
  const Norm* two;
  const NormGrads& grads;
  const NormGrads* grads2;
  Tensor* d_add;
};

// gain, slope and constant of the last pass: f32 [3, C] for each branch.
NormBackFactors factors_of(const Norm& n, const NormGrads& grads, float* out, i64 cols) {
  return {n.scale.as<float>(),
          n.mean.as<float>(),
          n.inv_std.as<float>(),
          n.given,
          out,
          out + cols,
          out + 2 * cols,
          grads.d_scale.as<float>(),
          grads.d_shift.as<float>()};
}

template <class T, class Source, Mask mask, bool whole, bool joint>
void run(const Source& source, const Tensor& bits, const Branches& b) {
  using Sums = NormBackSums<T, Source, mask, whole, joint>;
  const Norm& one = b.one;
  const Device device = one.x.device();
  // rows of factors start on 16 bytes
  const i64 cols = one.x.shape(-1), rows = one.x.numel() / cols, wide = (cols + 3) / 4 * 4;
  const Tiles tiles = Tiles::over(rows, cols, kBlocksOfSums, true);
  const Scratch partial(Sums::sums * tiles.parts * cols, device), factors(6 * wide, device);
  const NormBackInput<T, Source, mask, whole, joint> in{
      source,
      one.x.as<T>(),
      joint ? b.two->x.as<T>() : nullptr,
      mask == Mask::bits ? bits.as<std::uint8_t>() : nullptr,
      one.a.as<float>(),
      one.b.as<float>()};
  for_each_block(device, tiles.blocks(),
                 Sums{tiles, in, one.mean.as<float>(), joint ? b.two->mean.as<float>() : nullptr,
                      partial.data()});
  float* const f = factors.data();
  const FinishBack<joint> finish{
      factors_of(one, b.grads, f, wide),
      factors_of(joint ? *b.two : one, joint ? *b.grads2 : b.grads, f + 3 * wide, wide),
      static_cast<double>(rows)};
  const JoinParts<Sums::sums, FinishBack<joint>> join{partial.data(), tiles.parts, cols, finish};
  for_each_block(device, join.blocks(), join);
  const Tiles back = Tiles::over(rows, cols, kBlocksOfPasses, false);
  for_each_block(device, back.blocks(),
                 NormBackApply<T, Source, mask, whole, joint>{
                     back, in, f, f + wide, f + 2 * wide, f + 3 * wide, f + 4 * wide, f + 5 * wide,
                     b.grads.dx.as<T>(), joint ? b.grads2->dx.as<T>() : nullptr,
                     b.d_add ? b.d_add->as<T>() : nullptr});
}

template <class T, bool whole>
void choose(const Tensor& dy, const Tensor& mask, const NormTail& tail, const Branches& b) {
  if (tail.pool) {
    const auto extent = [](const Tensor& t, int d) { return static_cast<unsigned>(t.shape(d)); };
    const PooledGradient<T> source{dy.as<T>(),         mask.as<std::uint8_t>(), extent(b.one.x, 1),
                                   extent(b.one.x, 2), extent(dy, 1),           extent(dy, 2)};
    return run<T, PooledGradient<T>, Mask::none, whole, false>(source, mask, b);
  }
  using Source = DenseGradient<T>;
  const Source source{dy.as<T>()};
  if (b.two)
    run<T, Source, Mask::bits, whole, true>(source, mask, b);
  else if (!tail.relu)
    run<T, Source, Mask::none, whole, false>(source, mask, b);
  else if (mask.defined())
    run<T, Source, Mask::bits, whole, false>(source, mask, b);
  else
    run<T, Source, Mask::factors, whole, false>(source, mask, b);
}

}  // namespace

void FusedBackend::norm_back(const Norm& n, const NormTail& tail, const Tensor& mask,
                             const Tensor& dy, const NormGrads& grads, const NormGrads* second,
                             Tensor* d_add) {
  check<ShapeError>(!d_add || d_add->data() != grads.dx.data(),
                    "norm_back: d_add and dx are one memory; only one of them can take the place "
                    "of dy");
  const Branches b{n, tail.second, grads, second, d_add};
  const Norm& two = b.two ? *b.two : n;
  with_vectors("batch_norm", n.x, n.x.shape(-1),
               {&n.x, &grads.dx, &n.mean, &n.a, &n.b, &two.x, &two.mean,
                second ? &second->dx : nullptr, d_add, &dy, tail.pool ? &mask : nullptr},
               [&]<class T, bool whole>() { choose<T, whole>(dy, mask, tail, b); });
}

}  // namespace gossamer
