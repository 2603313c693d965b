// Describing a convolution to cuDNN: dimensions are given as N, C, H, W, strides say that C runs
// fastest.
#ifdef GOSSAMER_HAS_CUDA
#include "gossamer/core/cuda/cudnn_graph.h"

namespace gossamer::cudnn {
namespace {

// a [n, h, w, c] block in memory.
Descriptor tensor(std::int64_t id, DType type, i64 n, i64 h, i64 w, i64 c) {
  Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, vendor_type(type));
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, {n, c, h, w});
  t.set(CUDNN_ATTR_TENSOR_STRIDES, {h * w * c, 1, w * c, c});
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  t.finalize("tensor descriptor");
  return t;
}

struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t conv, x, w, y, alpha, beta;
};
OperationNames names_of(ConvOp op) {
  switch (op) {
    case ConvOp::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvOp::backward_data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
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

Descriptor graph_of(const std::vector<cudnnBackendDescriptor_t>& operations,
                    const Planner::Target& target, const std::string& key) {
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<std::int64_t>(operations.size()), operations.data());
  // 800 is …_HANDLE: its name is deprecated.
  if (target.handle)
    graph.set(static_cast<cudnnBackendAttributeName_t>(800), CUDNN_TYPE_HANDLE, 1, &target.handle);
  graph.finalize("operation graph " + key);
  return graph;
}

std::vector<Descriptor> conv_graph(const ConvProblem& p, const Planner::Target& target) {
  std::vector<Descriptor> all;
  all.push_back(tensor(kX, p.type, p.n, p.h, p.w, p.c));
  all.push_back(tensor(kW, p.type, p.k, p.r, p.s, p.c / p.groups));
  all.push_back(tensor(kY, p.type, p.n, p.ho(), p.wo(), p.k));

  Descriptor& conv = all.emplace_back(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  conv.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
  conv.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  conv.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  conv.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, {p.pad_before, p.pad_before});
  conv.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, {p.pad_after, p.pad_after});
  conv.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, {p.dilation, p.dilation});
  conv.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, {p.stride, p.stride});
  conv.finalize("convolution " + p.key());

  const OperationNames name = names_of(p.op);
  Descriptor operation(name.type);
  operation.set(name.conv, all[3]);
  operation.set(name.x, all[0]);
  operation.set(name.w, all[1]);
  operation.set(name.y, all[2]);
  operation.set(name.alpha, 1.0f);
  operation.set(name.beta, p.accumulate ? 1.0f : 0.0f);
  operation.finalize("operation " + p.key());
  all.push_back(std::move(operation));

  all.push_back(graph_of({all.back().raw()}, target, p.key()));
  return all;
}

}  // namespace gossamer::cudnn
#endif
