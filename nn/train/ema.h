// The exponential moving average (EMA) of a worker's parameters and running statistics, after every
// gradient. Each of several workers keeps its own; the end of a run averages them.
// Threads: one at a time for an Ema and its FlatParams.
#pragma once

#include <vector>

#include "gossamer/core/flat.h"

namespace gossamer::nn {

class Ema {
 public:
  // decay: in (0, 1)
  Ema(const FlatParams&, double decay);
  // average <- d average + (1 - d) model. In the t-th update, t = 1, 2 …, d is
  // min(decay, 1 - t^(-2/3)): timm's warm-up (ModelEmaV3), in which the first update copies the
  // model.
  void update(const FlatParams&);
  static double decay_at(double decay, i64 update);
  void restart(const FlatParams&);                  // forgets all updates
  const Tensor& values() const { return values_; }  // as those of FlatParams
  const Tensor& buffers() const { return buffers_; }
  // For checkpoints: windows by the names of parameters and buffers, and "updates".
  std::vector<NamedTensor> state(const FlatParams&, const std::string& prefix) const;

 private:
  friend class EmaInPlace;
  double decay_;
  Tensor values_, buffers_;  // as those of FlatParams
  Tensor updates_;           // i64 [1], on the host
};

// While one lives, the model and the average have changed places: layers compute with the average.
// No method may exchange the parameters meanwhile.
class EmaInPlace {
 public:
  EmaInPlace(Ema& ema, FlatParams& params) : ema_(ema), params_(params) { swap(); }
  ~EmaInPlace() { swap(); }
  EmaInPlace(const EmaInPlace&) = delete;
  EmaInPlace& operator=(const EmaInPlace&) = delete;

 private:
  void swap();
  Ema& ema_;
  FlatParams& params_;
};

}  // namespace gossamer::nn
