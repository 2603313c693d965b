// ClippedGossip (He, Karimireddy, Jaggi 2022, arXiv 2202.01545): D-PSGD in which no neighbour pulls
// a worker further than a radius (../rounds/mixing.h), so that one that is broken, or lies, does
// little harm:
//   h = x + u,   x_i' = h_i + sum_j W_ij clip(h_j - h_i)
// A small fixed radius also keeps workers with unlike data from agreeing.
#include "gossamer/core/setting.h"
#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {
namespace {

struct ClippingOptions {
  double clip_radius = 0;
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    f(self.clip_radius,
      Setting{.name = "clip_radius",
              .about = "clipped-gossip: how much of the difference to a neighbour is used at most; "
                       "0: adaptive, the second largest distance to a neighbour",
              .range = Range::at_least(0)});
  }
};

class ClippedGossip final : public MixingFormula {
 public:
  explicit ClippedGossip(const ClippingOptions& o) : MixingFormula(false), by_{o.clip_radius} {}
  const Clipping* clipping() const override { return &by_; }

 private:
  const Clipping by_;
};

}  // namespace

MethodRow clipped_gossip_row() {
  return row_of_formula<ClippingOptions>(
      {.name = "clipped-gossip", .coded = false},
      [](const ClippingOptions& o) { return std::make_unique<ClippedGossip>(o); });
}

}  // namespace gossamer::dist
