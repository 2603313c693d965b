// The losses of the steps since somebody looked. On a GPU they are summed there, by the step
// itself, and looking waits for the device.
#pragma once

#include "gossamer/core/tensor.h"
#include "gossamer/core/update.h"

namespace gossamer::apps {

class LossSum {
 public:
  // deferred: as on a GPU, for tests on a CPU.
  explicit LossSum(Device device, bool deferred = false)
      : sum_(Tensor::zeros({1}, DType::f32, device)), at_hand_(device.is_cpu() && !deferred) {}
  bool at_hand() const { return at_hand_; }  // looking costs nothing
  void add(const Tensor& loss) {             // may be recorded
    Tensor one = loss.detach().reshape({1});
    axpy(sum_, 1, one);
  }
  double take() {
    const double sum = static_cast<double>(sum_.item());
    sum_.zero();
    return sum;
  }

 private:
  Tensor sum_;
  bool at_hand_;
};

}  // namespace gossamer::apps
