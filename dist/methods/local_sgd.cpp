// Local SGD.
#include "gossamer/dist/methods/local_sgd.h"

#include "gossamer/dist/methods/mixing_options.h"

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
