// DecentLaM (Yuan et al. 2021, arXiv 2104.11981): D-PSGD whose momentum is that of the whole step,
// mixing too, in place of that of the worker's own gradients:
//   t = (x - W (x - lr g))/lr,   m' = beta m + t,   x' = x - lr m'
// beta is the momentum of SGD, which sees t in place of g. Where the workers' data differ, the
// momentum adds nothing to what they disagree about: with it they end where D-PSGD without it does.
#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {
namespace {

class DecentLam final : public RoundFormula {
 public:
  std::vector<OwnVector> own_vectors() const override { return {{}, {}}; }
  bool uses_velocity() const override { return true; }
  bool uses_gradient() const override { return true; }
  bool clips_first() const override { return true; }

  void step(RoundWorker& worker, i64) const override {
    constexpr Vector before = Vector::first, way = Vector::second;
    const double rate = worker.learning_rate();
    if (rate == 0) return worker.mix();  // x moves by mixing alone, which is no gradient
    worker.blend(before, 0, 1, Vector::model);
    worker.blend(Vector::model, 1, -rate, Vector::gradient);
    worker.blend(way, 0, 1, Vector::model);
    worker.mix();
    // t = g + (h - W h)/lr with h = x - lr g: of a worker alone it is g to the bit
    worker.blend(way, 1, -1, Vector::model);
    worker.blend(Vector::gradient, 1, 1 / rate, way);
    worker.blend(Vector::model, 0, 1, before);
    worker.update();
  }
};

}  // namespace

MethodRow decentlam_row() {
  return row_of_formula<NoSettings>(
      {.name = "decentlam"}, [](const NoSettings&) { return std::make_unique<DecentLam>(); });
}

}  // namespace gossamer::dist
