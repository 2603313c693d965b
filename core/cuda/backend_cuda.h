// The engines of the GPU's backend, for callers that want more than Backend offers. No vendor type
// appears here.
#pragma once

#include "gossamer/core/backend.h"
#include "gossamer/core/compute.h"
#include "gossamer/core/cuda/cublas_gemm.h"
#include "gossamer/core/cuda/cudnn_attention.h"
#include "gossamer/core/cuda/cudnn_engine.h"

namespace gossamer {

// The engine behind backend(device): gradients added in place, paddings that differ before and
// after. DeviceError without a GPU.
cudnn::ConvEngine& conv_engine(Device);
// The same for attention and for products: what was chosen.
const cudnn::AttentionEngine& attention_engine(Device);
const cublas::Gemm& gemm_engine(Device);

}  // namespace gossamer
