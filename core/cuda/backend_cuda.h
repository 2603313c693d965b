// The GPU's backend: what of it can be set, and its engines for callers that want more than Backend
// offers. No vendor type appears here.
#pragma once

#include <string>

#include "gossamer/core/backend.h"
#include "gossamer/core/cuda/cudnn_attention.h"
#include "gossamer/core/cuda/cudnn_engine.h"

namespace gossamer {

struct CudaOptions {
  // f32 products may be rounded to 10 bits: several times faster, about 3 digits
  bool tf32 = false;
  // measure the plans of each convolution when it is first met
  bool autotune = true;
  std::string plan_file;  // where measured plans are kept between runs; "": nowhere
};
// For the whole process, before a GPU's backend is first used; DeviceError afterwards.
void configure_cuda(const CudaOptions&);

// The engine behind backend(device): gradients added in place, paddings that differ before and
// after. DeviceError without a GPU.
cudnn::ConvEngine& conv_engine(Device);
// The same for attention: what was chosen.
const cudnn::AttentionEngine& attention_engine(Device);

}  // namespace gossamer
