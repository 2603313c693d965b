// QG-DSGDm (Lin et al. 2021, arXiv 2102.04761): D-PSGD with a momentum that follows the way of the
// model through mixing, in place of that of the worker's own gradients:
//   v = beta m + g,   x' = W (x - lr v),   m' = mu m + (1 - mu) (x - x') / lr
// beta is the momentum of SGD, which takes v for its own; with its Nesterov form it is QG-DSGDm-N.
// Where the workers' data differ, local momentum makes what they disagree about 1/(1 - beta) times
// as large; this one does not.
#include "gossamer/core/setting.h"
#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {
namespace {

struct QuasiGlobalOptions {
  double memory = 0.9;
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    f(self.memory, Setting{.name = "memory",
                           .about = "qg-dsgdm: how much of the momentum stays in a step (mu)",
                           .range = Range::from_below(0, 1)});
  }
};

class QuasiGlobal final : public RoundFormula {
 public:
  explicit QuasiGlobal(const QuasiGlobalOptions& o) : mu_(o.memory) {}
  std::vector<OwnVector> own_vectors() const override {
    return {{.name = "qg.momentum", .cleared = false}, {.name = ""}};
  }
  bool uses_velocity() const override { return true; }

  void step(RoundWorker& worker, i64) const override {
    constexpr Vector momentum = Vector::first, before = Vector::second;
    worker.blend(before, 0, 1, Vector::model);
    worker.blend(Vector::velocity, 0, 1, momentum);
    worker.update();
    worker.mix();
    const double rate = worker.learning_rate();
    if (rate == 0) return;  // x has moved by mixing alone, which says nothing of a gradient
    worker.blend(momentum, mu_, (1 - mu_) / rate, before);
    worker.blend(momentum, 1, -(1 - mu_) / rate, Vector::model);
  }

 private:
  const double mu_;
};

}  // namespace

MethodRow qg_dsgdm_row() {
  return row_of_formula<QuasiGlobalOptions>({.name = "qg-dsgdm"}, [](const QuasiGlobalOptions& o) {
    return std::make_unique<QuasiGlobal>(o);
  });
}

}  // namespace gossamer::dist
