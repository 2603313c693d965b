// Local SGD (Stich 2019): `period` steps of its own, then all workers average their parameters.
// period 1 is parameter averaging in each step.
#include "gossamer/dist/methods/mixing_options.h"
#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {
namespace {

class LocalSgd final : public RoundFormula {
 public:
  explicit LocalSgd(i64 period) : period_(period) {}
  void step(RoundWorker& worker, i64 k) const override {
    worker.update();
    if ((k + 1) % period_ == 0) worker.average();
  }

 private:
  const i64 period_;
};

}  // namespace

MethodRow local_sgd_row() {
  return row_of_formula<PeriodOptions>(
      {.name = "local-sgd", .graph = false, .coded = false, .controllable = true},
      [](const PeriodOptions& o) { return std::make_unique<LocalSgd>(o.period); });
}

}  // namespace gossamer::dist
