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
  explicit Model(const nn::Weights&);
  const models::OpenedModel& file() const { return file_; }
  i64 parameters() const { return parameters_; }
  i64 classes() const { return static_cast<i64>(file_.classes.size()); }
  i64 channels() const { return file_.pictures.channels(); }
  void check_reads_pictures() const;  // ConfigError
  data::Shrink filter() const;
  // x: f32 [N, h, w, 3], normalized. ArgumentError: not all are finite
  Tensor logits(const Tensor& x) const;
  // image: u8 [1, size, size, 3]
  void classify(const Tensor& image, gsm_class* classes, int32_t* count) const;

 private:
  models::OpenedModel file_;  // without its network
  i64 parameters_;
  nn::Inference net_;
};

}  // namespace gossamer::capi
