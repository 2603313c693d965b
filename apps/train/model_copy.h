// A second network with the model of a run: it is evaluated and written while the first one trains
// and exchanges.
#pragma once

#include <memory>

#include "gossamer/apps/train/trainer.h"

namespace gossamer::apps {

class ModelCopy {
 public:
  ModelCopy(const TaskModel&, Device);
  // The trainer's model as it is between two events.
  void take_model(Trainer&);
  void take_ema(const Trainer&);  // the moving average

  std::unique_ptr<nn::Module> net;
  std::unique_ptr<FlatParams> params;

 private:
  void copy(const Tensor& values, const Tensor& buffers, const Trainer&);
};

}  // namespace gossamer::apps
