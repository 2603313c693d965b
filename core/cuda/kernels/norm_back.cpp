// Batch norm backward: launches of norm_back.h and norm_pool_back.h, in the directions that
// norm.cpp says.
#include "gossamer/core/cuda/kernels/norm_back.h"

#include "gossamer/core/cuda/fused.h"
#include "gossamer/core/cuda/kernels/norm_pool_back.h"

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

// The three passes over `rows` rows of tiles, or over windows of pixels. Sums sums(tiles, partial)
// and Apply apply(tiles, factors [6, wide]).
template <bool joint, class Sums, class Apply>
void three_passes(const Branches& b, i64 rows, i64 blocks_of_sums, const Sums& sums,
                  const Apply& apply) {
  const Norm& one = b.one;
  const Device device = one.x.device();
  // rows of factors start on 16 bytes
  const i64 cols = one.x.shape(-1), wide = (cols + 3) / 4 * 4;
  constexpr int kSums = joint ? 3 : 2;
  const Tiles tiles = Tiles::over(rows, cols, blocks_of_sums, true);
  const Scratch partial(kSums * tiles.parts * cols, device), factors(6 * wide, device);
  for_each_block(device, tiles.blocks(), sums(tiles, partial.data()));
  float* const f = factors.data();
  const FinishBack<joint> finish{
      factors_of(one, b.grads, f, wide),
      factors_of(joint ? *b.two : one, joint ? *b.grads2 : b.grads, f + 3 * wide, wide),
      static_cast<double>(one.x.numel() / cols)};
  const JoinParts<kSums, FinishBack<joint>> join{partial.data(), tiles.parts, cols, finish};
  for_each_block(device, join.blocks(), join);
  const Tiles back = Tiles::over(rows, cols, kBlocksOfPasses, false);
  for_each_block(device, back.blocks(), apply(back, f, wide));
}

template <class T, Mask mask, bool whole, bool joint>
void run(const Tensor& dy, const Tensor& bits, const Branches& b) {
  const Norm& one = b.one;
  const NormBackInput<T, mask, whole, joint> in{
      dy.as<T>(),
      one.x.as<T>(),
      joint ? b.two->x.as<T>() : nullptr,
      mask == Mask::bits ? bits.as<std::uint8_t>() : nullptr,
      one.a.as<float>(),
      one.b.as<float>()};
  three_passes<joint>(
      b, one.x.numel() / one.x.shape(-1), kBlocksOfSums,
      [&](const Tiles& tiles, float* partial) {
        return NormBackSums<T, mask, whole, joint>{
            tiles, in, one.mean.as<float>(), joint ? b.two->mean.as<float>() : nullptr, partial};
      },
      [&](const Tiles& tiles, const float* f, i64 wide) {
        return NormBackApply<T, mask, whole, joint>{tiles,
                                                    in,
                                                    f,
                                                    f + wide,
                                                    f + 2 * wide,
                                                    f + 3 * wide,
                                                    f + 4 * wide,
                                                    f + 5 * wide,
                                                    b.grads.dx.as<T>(),
                                                    joint ? b.grads2->dx.as<T>() : nullptr,
                                                    b.d_add ? b.d_add->as<T>() : nullptr};
      });
}

template <class T, bool whole>
void run_pooled(const Tensor& dy, const Tensor& taken, const Branches& b) {
  const auto extent = [](const Tensor& t, int d) { return static_cast<unsigned>(t.shape(d)); };
  const Norm& n = b.one;
  const NormPoolBackInput<T, whole> in{dy.as<T>(),     n.x.as<T>(),    taken.as<std::uint8_t>(),
                                       extent(n.x, 1), extent(n.x, 2), extent(dy, 1),
                                       extent(dy, 2)};
  three_passes<false>(
      b, dy.numel() / dy.shape(-1), NormPoolBackSums<T, whole>::blocks,
      [&](const Tiles& tiles, float* partial) {
        return NormPoolBackSums<T, whole>{tiles, in, n.mean.as<float>(), partial};
      },
      [&](const Tiles& tiles, const float* f, i64 wide) {
        return NormPoolBackApply<T, whole>{tiles,    in,           f,
                                           f + wide, f + 2 * wide, b.grads.dx.as<T>()};
      });
}

template <class T, bool whole>
void choose(const Tensor& dy, const Tensor& mask, const NormTail& tail, const Branches& b) {
  if (tail.pool)
    run_pooled<T, whole>(dy, mask, b);
  else if (b.two)
    run<T, Mask::bits, whole, true>(dy, mask, b);
  else if (!tail.relu)
    run<T, Mask::none, whole, false>(dy, mask, b);
  else if (mask.defined())
    run<T, Mask::bits, whole, false>(dy, mask, b);
  else
    run<T, Mask::factors, whole, false>(dy, mask, b);
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
