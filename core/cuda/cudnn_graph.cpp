// Describing a convolution to cuDNN, and what follows it in inference: dimensions are given as N,
// C, H, W, strides say that C runs fastest.
#ifdef GOSSAMER_HAS_CUDA
#include "gossamer/core/cuda/cudnn_graph.h"

#include "gossamer/core/cuda/cudnn_builder.h"

namespace gossamer::cudnn {
namespace {

// a [n, h, w, c] block in memory
Extent channels_last(i64 n, i64 h, i64 w, i64 c) {
  return {{n, c, h, w}, {h * w * c, 1, w * c, c}};
}

}  // namespace

cudnnDataType_t vendor_type(DType type) {
  switch (type) {
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    case DType::f16:
      return CUDNN_DATA_HALF;
    default:
      fail<DeviceError>("cuDNN: tensors of type ", name_of(type),
                        " are not supported; use f32, bf16 or f16");
  }
}

std::vector<Descriptor> conv_graph(const ConvProblem& p, const Planner::Target& target) {
  GraphBuilder g;
  const cudnnDataType_t type = vendor_type(p.type);
  const Extent result = channels_last(p.n, p.ho(), p.wo(), p.k);
  const auto x = g.in_memory(kX, type, channels_last(p.n, p.h, p.w, p.c)),
             w = g.in_memory(kW, type, channels_last(p.k, p.r, p.s, p.c / p.groups)),
             y = g.in_memory(kY, type, result);
  if (!p.bias) {
    g.convolve(p, x, w, y);
    return g.finish(target, p.key());
  }
  // In this order, and with a bias of the type of the rest, cuDNN has kernels of its own for it.
  const auto bias = g.in_memory(kBias, type, channels_last(1, 1, 1, p.k));
  auto sums = g.between(result);
  g.convolve(p, x, w, sums);
  if (p.add) {
    const auto with = g.between(result);
    g.each(CUDNN_POINTWISE_ADD, sums, g.in_memory(kAdd, type, result), with);
    sums = with;
  }
  const auto biased = p.relu ? g.between(result) : y;
  g.each(CUDNN_POINTWISE_ADD, sums, bias, biased);
  if (p.relu) g.each(CUDNN_POINTWISE_RELU_FWD, biased, GraphBuilder::none, y);
  return g.finish(target, p.key());
}

}  // namespace gossamer::cudnn
#endif
