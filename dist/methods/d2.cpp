// D^2 (Tang et al. 2018, arXiv 1803.07068): D-PSGD with a correction c that cancels what the
// workers' data pull apart, so the fixed point is the minimum of the mean loss:
//   h = x + u,   x' = W (h + s c),   c' = x' - h
// u is the optimizer's step, whatever the optimizer, and s is `damp`: 1 for D^2; below, the global
// update tracking of Aketi et al. (2023, arXiv 2305.04792), whose bias is that of D-PSGD with
// (1 - s) of the learning rate. exact-diffusion (Yuan et al. 2019) is D^2 with (I + W)/2.
// W must be the same in all rounds, and its eigenvalues above -1/3: otherwise c grows.
#include "gossamer/core/error.h"
#include "gossamer/core/setting.h"
#include "gossamer/dist/graph/theory.h"
#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {
namespace {

constexpr double kLeastEigenvalue = -1.0 / 3;
constexpr int kMostWorkers = 1024;  // of which eigenvalues are computed: a second

struct DampOptions {
  double damp = 1;
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    f(self.damp, Setting{.name = "damp",
                         .about = "d2, exact-diffusion: share of the correction that is used, 0 to "
                                  "1; 0 is dpsgd, and between them it is GUT",
                         .range = Range::from_to(0, 1)});
  }
};

class D2 final : public RoundFormula {
 public:
  D2(const DampOptions& o, double factor) : damp_(o.damp), factor_(factor) {}
  double consensus_factor() const override { return factor_; }
  std::vector<OwnVector> own_vectors() const override { return {{.name = "d2.correction"}, {}}; }

  // A worker alone: c stays exactly 0, and the step is the optimizer's.
  void step(RoundWorker& worker, i64) const override {
    constexpr Vector correction = Vector::first, h = Vector::second;
    worker.update();
    worker.blend(h, 0, 1, Vector::model);
    worker.blend(Vector::model, 1, damp_, correction);
    worker.mix();
    worker.blend(correction, 0, 1, Vector::model);
    worker.blend(correction, 1, -1, h);
  }

 private:
  const double damp_, factor_;
};

void check_fixed(const std::string& method, const Rounds& rounds) {
  check_same_rounds(method, rounds, "its correction would grow");
}

void check_eigenvalues(const std::string& method, const Rounds& rounds) {
  if (rounds.workers() < 2) return;
  const char* remedy = "; take the method exact-diffusion, which is right for every graph";
  check<ConfigError>(rounds.workers() <= kMostWorkers, "method ", method, ": the graph has ",
                     rounds.workers(), " workers, and the eigenvalues of at most ", kMostWorkers,
                     " are checked", remedy);
  double least = 1;
  for (const double value : mixing_eigenvalues(rounds)) least = std::min(least, value);
  constexpr double kRounding = 1e-9;
  check<ConfigError>(least > kLeastEigenvalue + kRounding, "method ", method,
                     ": the least eigenvalue of the graph ", rounds.name(), " of ",
                     rounds.workers(), " workers is ", least, "; it must be above -1/3", remedy);
}

MethodRow row_of_d2(const MethodTraits& traits, double factor) {
  return row_of_formula<DampOptions>(
      traits, [factor](const DampOptions& o) { return std::make_unique<D2>(o, factor); });
}

}  // namespace

MethodRow d2_row() {
  MethodRow row = row_of_d2({.name = "d2"}, 1);
  row.check_rounds = [name = row.traits.name](const Rounds& rounds) {
    check_fixed(name, rounds);
    check_eigenvalues(name, rounds);
  };
  return row;
}

MethodRow exact_diffusion_row() {
  MethodRow row = row_of_d2({.name = "exact-diffusion"}, 0.5);
  row.check_rounds = [name = row.traits.name](const Rounds& rounds) { check_fixed(name, rounds); };
  return row;
}

}  // namespace gossamer::dist
