// Gradient tracking, for workers whose data differ: y follows the mean of all workers' gradients,
// and the optimizer sees it in place of the own gradient g, so the fixed point is the minimum of
// the mean loss.
//   overlap (AWC; DIGing, Nedic et al. 2017):  y' = W y + g - g_,    x' = W x + u(y')
//   without (ATC):                             y' = W (y + g - g_),  x' = W (x + u(y'))
// g_ is the gradient of the step before, and y begins as g. u is the optimizer's step: with the
// momentum of SGD and overlap it is Momentum Tracking (Takezawa et al. 2023, arXiv 2209.15505) from
// a start of zeros. Every W keeps sum y = sum g if its rows and columns sum to 1.
#include "gossamer/dist/methods/mixing_options.h"
#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {
namespace {

class GradientTracking final : public RoundFormula {
 public:
  explicit GradientTracking(const OverlapOptions& o) : overlap_(o.overlap) {}
  bool sends_ahead() const override { return overlap_; }
  bool uses_gradient() const override { return true; }
  std::vector<OwnVector> own_vectors() const override {
    return {{.name = "tracking.mean"}, {.name = "tracking.gradient"}};
  }
  // ATC needs the mixed y before x can be sent.
  std::vector<Vector> sends_beside() const override {
    return overlap_ ? std::vector{kMean} : std::vector<Vector>{};
  }
  int messages_per_round() const override { return overlap_ ? 1 : 2; }

  void step(RoundWorker& worker, i64 k) const override {
    if (overlap_) worker.mix_ahead();
    // A worker alone: y - g_ is exactly 0, so y is g to the bit.
    worker.blend(kMean, 1, -1, kBefore);
    worker.blend(kMean, 1, 1, Vector::gradient);
    worker.blend(kBefore, 0, 1, Vector::gradient);
    // The first y is g itself. Each round mixes x, and y in the step after it.
    if (!overlap_ && k > 0) worker.mix_alone(kMean);
    worker.blend(Vector::gradient, 0, 1, kMean);
    worker.update();
    if (!overlap_) worker.mix();
  }

 private:
  static constexpr Vector kMean = Vector::first, kBefore = Vector::second;
  const bool overlap_;
};

}  // namespace

MethodRow gradient_tracking_row() {
  return row_of_formula<OverlapOptions>({.name = "gradient-tracking"}, [](const OverlapOptions& o) {
    return std::make_unique<GradientTracking>(o);
  });
}

}  // namespace gossamer::dist
