// See cudnn_builder.h.
#ifdef GOSSAMER_HAS_CUDA
#include "gossamer/core/cuda/cudnn_builder.h"

#include <utility>

namespace gossamer::cudnn {
namespace {

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

GraphBuilder::Place GraphBuilder::number(std::int64_t id) {
  return tensor(id, CUDNN_DATA_FLOAT, {{1, 1, 1, 1}, {1, 1, 1, 1}}, false, true);
}

void GraphBuilder::product(Place a, Place b, Place c) {
  const Place how = all_.size();
  all_.emplace_back(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  all_[how].set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
  all_[how].finalize("matrix product");
  Descriptor step(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  step.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, all_[a]);
  step.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, all_[b]);
  step.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, all_[c]);
  step.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, all_[how]);
  add(std::move(step), "product");
}

void GraphBuilder::reduce(cudnnReduceTensorOp_t op, Place x, Place y) {
  const Place how = all_.size();
  all_.emplace_back(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  all_[how].set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  all_[how].set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op);
  all_[how].finalize("reduction");
  Descriptor step(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  step.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, all_[x]);
  step.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, all_[y]);
  step.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, all_[how]);
  add(std::move(step), "reduction");
}

void GraphBuilder::transpose(Place x, Place y) {
  Descriptor step(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  step.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, all_[x]);
  step.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, all_[y]);
  add(std::move(step), "transposition");
}

void GraphBuilder::each(cudnnPointwiseMode_t mode, Place x, Place b, Place y, Place chosen,
                        cudnnDataType_t in, std::int64_t axis) {
  const Place how = all_.size();
  all_.emplace_back(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  all_[how].set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  all_[how].set(CUDNN_ATTR_POINTWISE_MATH_PREC, in);
  if (axis >= 0) all_[how].set(CUDNN_ATTR_POINTWISE_AXIS, axis);
  all_[how].finalize("pointwise step");
  Descriptor step(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  step.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, all_[how]);
  step.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, all_[x]);
  if (b != none) step.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, all_[b]);
  if (chosen != none) step.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, all_[chosen]);
  step.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, all_[y]);
  step.set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1.0f);
  step.set(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1.0f);
  add(std::move(step), "pointwise step");
}

void GraphBuilder::convolve(const ConvProblem& p, Place x, Place w, Place y) {
  const Place how = all_.size();
  Descriptor& conv = all_.emplace_back(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
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
  Descriptor step(name.type);
  step.set(name.conv, all_[how]);
  step.set(name.x, all_[x]);
  step.set(name.w, all_[w]);
  step.set(name.y, all_[y]);
  step.set(name.alpha, 1.0f);
  step.set(name.beta, p.accumulate ? 1.0f : 0.0f);
  add(std::move(step), "convolution");
}

std::vector<Descriptor> GraphBuilder::finish(const Planner::Target& target,
                                             const std::string& key) {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const Descriptor& step : steps_) operations.push_back(step.raw());
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<std::int64_t>(operations.size()), operations.data());
  // 800 is …_HANDLE: its name is deprecated.
  if (target.handle)
    graph.set(static_cast<cudnnBackendAttributeName_t>(800), CUDNN_TYPE_HANDLE, 1, &target.handle);
  graph.finalize("operation graph " + key);
  for (Descriptor& step : steps_) all_.push_back(std::move(step));
  all_.push_back(std::move(graph));
  return std::move(all_);
}

GraphBuilder::Place GraphBuilder::tensor(std::int64_t id, cudnnDataType_t type, const Extent& e,
                                         bool is_virtual, bool by_value,
                                         cudnnBackendTensorReordering_t order) {
  Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, e.sizes);
  t.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, e.strides);
  t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, std::int64_t{16});
  t.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
  t.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
  if (order != CUDNN_TENSOR_REORDERING_NONE)
    t.set(CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE, 1, &order);
  t.finalize("tensor of a graph");
  all_.push_back(std::move(t));
  return all_.size() - 1;
}

void GraphBuilder::add(Descriptor step, const char* what) {
  step.finalize(what);
  steps_.push_back(std::move(step));
}

}  // namespace gossamer::cudnn
#endif
