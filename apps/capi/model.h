// A model for inference as a handle of gossamer.h.
#pragma once

#include "gossamer/apps/capi/objects.h"
#include "gossamer/core/tensor.h"
#include "gossamer/data/codec/image.h"
#include "gossamer/models/model_file.h"
#include "gossamer/nn/inference.h"
#include "gossamer/nn/weights.h"

namespace gossamer::capi {

class Model final : public Object {
 public:
  Model(const nn::Weights&, Device, DType);
  const models::OpenedModel& file() const { return file_; }
  i64 parameters() const { return parameters_; }
  i64 classes() const { return static_cast<i64>(file_.classes.size()); }
  i64 channels() const { return file_.pictures.channels(); }
  void check_reads_pictures() const;  // ConfigError
  data::Shrink filter() const;
  // images [N, h, w, channels] on the CPU: u8, which is normalized, or f32, which is already.
  // f32 [N, classes] on the CPU. ArgumentError: not all are finite
  Tensor logits(const Tensor& images) const;
  // image: u8 [1, size, size, 3]
  void classify(const Tensor& image, gsm_class* classes, int32_t* count) const;

 private:
  Device device_;
  DType type_;
  models::OpenedModel file_;  // without its network
  i64 parameters_;
  nn::Inference net_;
};

}  // namespace gossamer::capi
