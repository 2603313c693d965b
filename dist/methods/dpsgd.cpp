// D-PSGD. Parameters are exchanged; AWC and ATC differ in when.
#include "gossamer/dist/methods/dpsgd.h"

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

RoundTraffic traffic_of(const MethodContext& with, const DpsgdOptions& o) {
  if (!o.overlap || with.group.size() < 2 || with.params.size() == 0)
    return {{{0, with.params.size()}}};
  return {with.params.buckets(o.bucket_bytes())};
}

// The row of D-PSGD, or of a method that is D-PSGD under another name.
MethodRow row_like_dpsgd(const MethodTraits& traits) {
  MethodRow row = row_with<DpsgdOptions>(traits);
  row.make = [traits](const MethodContext& with) {
    return std::make_unique<DpsgdMethod>(traits, with,
                                         with.options.settings.as<DpsgdOptions>(traits.name));
  };
  row.formula = [name = traits.name](const Settings& s) {
    return std::make_unique<MixingFormula>(s.as<DpsgdOptions>(name).overlap);
  };
  return row;
}

// The simulator is told the period s of accumulated Adam. Workers that train have it from the
// optimizer.
struct SimulatedAccumulation : DpsgdOptions, PeriodOptions {
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    DpsgdOptions::visit(self, f);
    PeriodOptions::visit(self, f);
  }
};

}  // namespace

MethodRow dpsgd_row() { return row_like_dpsgd({.name = "dpsgd", .controllable = true}); }

MethodRow dpsgd_atc_row() {
  MethodRow row = row_like_dpsgd(
      {.name = "dpsgd-atc", .controllable = true, .simulated_only = true, .variant_of = "dpsgd"});
  row.formula = [](const Settings&) { return std::make_unique<MixingFormula>(false); };
  return row;
}

MethodRow dadam_row() {
  return row_like_dpsgd({.name = "dadam", .variant_of = "dpsgd", .optimizer = "adam"});
}

MethodRow accum_adam_row() {
  MethodRow row =
      row_like_dpsgd({.name = "accum-adam", .variant_of = "dpsgd", .optimizer = "accum-adam"});
  row.simulated_settings = settings_with<PeriodOptions>;
  row.formula = [](const Settings& s) {
    return std::make_unique<MixingFormula>(s.as<SimulatedAccumulation>("accum-adam").overlap);
  };
  return row;
}

DpsgdMethod::DpsgdMethod(const MethodTraits& traits, const MethodContext& with,
                         const DpsgdOptions& options)
    : SynchronousMethod(traits, with,
                        std::make_unique<MixingFormula>(options.overlap, options.consensus_factor),
                        traffic_of(with, options)),
      overlap_(options.overlap) {
  if (!overlap_) return;
  std::vector<FlatRange> ranges;
  for (int slot = 0; slot < slots(); ++slot) ranges.push_back(piece(slot));
  params_.on_ready(ranges, [this](std::size_t piece) { ready(piece); });
}

DpsgdMethod::~DpsgdMethod() {
  if (overlap_) params_.on_ready({}, nullptr);
}

void DpsgdMethod::prepare(double learning_rate) {
  if (!overlap_ || options_.clip_norm > 0 || params_.overflow().defined() || alone()) return;
  check<Error>(!prepared_ || done_ == 0, name(),
               ": prepare() again after backward, without step()");
  if (!prepared_) optimizer_.begin_step();
  resume_ahead();
  prepared_rate_ = learning_rate;
  prepared_ = true;
  done_ = 0;
  ready_.assign(static_cast<std::size_t>(slots()), false);
  params_.arm_ready();
}

// Pieces are sent in one order by all workers, whatever order backward has.
void DpsgdMethod::ready(std::size_t piece) {
  if (!prepared_) return;
  ready_[piece] = true;
  while (done_ < slots() && ready_[static_cast<std::size_t>(done_)]) {
    if (done_ == 0) round_ = next_round();
    advance(done_);
    launch(done_, round_, values_of(done_));
    ++done_;
  }
}

void DpsgdMethod::advance(int slot) {
  if (pending(slot)) mix(slot);
  optimizer_.update(piece(slot), static_cast<float>(prepared_rate_));
}

void DpsgdMethod::local_step() {
  if (!prepared_) return SynchronousMethod::local_step();
  check<Error>(learning_rate() == prepared_rate_, name(), ": step with learning rate ",
               learning_rate(), " after prepare with ", prepared_rate_,
               ": some parameters have been updated with the other already");
  // the pieces of which some parameter got no gradient
  for (int slot = done_; slot < slots(); ++slot) ready(static_cast<std::size_t>(slot));
  prepared_ = false;
}

}  // namespace gossamer::dist
