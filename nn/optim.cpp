// Optimizers: what they keep and check. The pass itself is in core/ops/op_update.cpp.
#include "gossamer/nn/optim.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "gossamer/nn/muon.h"

namespace gossamer::nn {

namespace {

// "PATTERN=NUMBER"; nothing: the text is of another form.
std::optional<std::pair<std::string, double>> pattern_and_number(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == text.npos) return std::nullopt;
  const char* const end = text.data() + text.size();
  double number = 0;
  if (std::from_chars(text.data() + equals + 1, end, number) != std::from_chars_result{end, {}})
    return std::nullopt;
  return std::pair(text.substr(0, equals), number);
}

}  // namespace

RateFactor parse_rate_factor(const std::string& text) {
  const auto said = pattern_and_number(text);
  check<ConfigError>(said && said->second > 0 && said->second <= 1e6, "\"", text,
                     "\" must be PATTERN=FACTOR with a factor above 0, up to 1000000, e.g. "
                     "\"fc=10\"; to hold parameters fixed freeze them");
  return {Selection(said->first), said->second};
}

OwnDecay parse_own_decay(const std::string& text) {
  const auto said = pattern_and_number(text);
  check<ConfigError>(said && weight_decays().holds(said->second), "\"", text,
                     "\" must be PATTERN=DECAY with a weight decay of ", weight_decays().wanted,
                     ", e.g. \"wte=0\"");
  return {Selection(said->first), said->second};
}

FlatOptimizer::FlatOptimizer(FlatParams& params, double weight_decay)
    : params_(params),
      numbers_(step_numbers(params.values().device())),
      weight_decay_(static_cast<float>(weight_decay)) {}

Tensor FlatOptimizer::state_block() const {
  return Tensor::zeros({params_.size()}, DType::f32, params_.values().device());
}

void FlatOptimizer::begin_step(const GradientScale& scale) {
  find_overflow(params_);
  if (scale.clip > 0) measure_gradients(numbers_, params_);
  scale_ = scale;
  begun_ = true;
}

void FlatOptimizer::set_groups(const std::vector<RateFactor>& factors,
                               const std::vector<OwnDecay>& decays) {
  std::vector<std::string> names;
  for (const FlatParams::Entry& e : params_.entries()) names.push_back(e.name);
  for (const RateFactor& f : factors) {
    f.which.check_used(names);
    check<ConfigError>(f.factor > 0 && std::isfinite(f.factor), "factor ", f.factor,
                       " of the learning rate; wanted above 0");
  }
  for (const OwnDecay& d : decays) {
    d.which.check_used(names);
    check<ConfigError>(weight_decays().holds(d.weight_decay), "weight decay ", d.weight_decay,
                       "; wanted ", weight_decays().wanted);
  }
  pieces_.clear();
  for (const FlatParams::Entry& e : params_.entries()) {
    Piece piece{e.offset, params_.size(), usual_factor(e), weight_decay_};
    for (const RateFactor& f : factors)
      if (f.which(e.name)) piece.factor = static_cast<float>(f.factor);
    for (const OwnDecay& d : decays)
      if (d.which(e.name)) piece.weight_decay = static_cast<float>(d.weight_decay);
    if (!pieces_.empty()) {
      Piece& last = pieces_.back();
      if (last.factor == piece.factor && last.weight_decay == piece.weight_decay) continue;
      last.end = piece.begin;
    }
    pieces_.push_back(piece);
  }
}

void FlatOptimizer::update(FlatRange range, float learning_rate, const Twin* twin,
                           const Difference* late) {
  check<Error>(begun_, name(), ": update before begin_step");
  const i64 end = range.end < 0 ? params_.size() : range.end;
  if (pieces_.empty())
    return update_piece(range, {range.begin, end, 1, weight_decay_}, learning_rate, twin, late);
  for (const Piece& p : pieces_)
    if (const FlatRange both{std::max(range.begin, p.begin), std::min(end, p.end)};
        both.begin < both.end)
      update_piece(both, p, learning_rate, twin, late);
}

void FlatOptimizer::update_piece(FlatRange range, const Piece& piece, float learning_rate,
                                 const Twin* twin, const Difference* late) {
  StepNumbers numbers{.learning_rate = learning_rate * piece.factor};
  UpdateBlocks blocks;
  if (twin) {
    blocks.twin = twin->values;
    numbers.mix_c = twin->c;
    numbers.mix_s = twin->s;
  }
  if (late) {
    check<ShapeError>(late->own.defined(), name(), ": the difference has no own snapshot");
    blocks.own = late->own;
    blocks.received = late->received;
    numbers.jump_x = late->x;
    numbers.jump_twin = late->twin;
    numbers.jump = 1;
  }
  write_numbers(numbers_, numbers, scale_, count());
  pass(blocks, range, piece.weight_decay);
}

Sgd::Sgd(FlatParams& params, SgdOptions options)
    : FlatOptimizer(params, options.weight_decay),
      rule_{state_block(), static_cast<float>(options.momentum), 0, options.nesterov} {
  check_settings(options, "Sgd");
  check<ConfigError>(rule_.mu < 1, "Sgd: momentum ", options.momentum, " is 1 as a float");
  check<ConfigError>(!options.nesterov || options.momentum > 0,
                     "Sgd: nesterov needs a momentum above 0");
}

void Sgd::pass(const UpdateBlocks& blocks, FlatRange range, float weight_decay) {
  rule_.weight_decay = weight_decay;
  sgd_pass(params_, rule_, numbers_, blocks, range);
}

std::vector<NamedTensor> Sgd::state() { return {{"momentum", rule_.momentum}}; }

Adam::Adam(FlatParams& params, AdamOptions options)
    : FlatOptimizer(params, options.weight_decay),
      rule_{state_block(), state_block(), {}, 0, options.decoupled},
      count_{Tensor::zeros({1}, DType::i64, params.values().device()), options.beta1, options.beta2,
             options.epsilon, options.period} {
  check_settings(options, "Adam");
  check<ConfigError>(accumulated_steps().holds(static_cast<double>(options.period)),
                     "Adam: period ", options.period, "; it must be ", accumulated_steps().wanted);
  if (options.period > 1) rule_.sum = state_block();
}

void Adam::begin_step(const GradientScale& scale) {
  FlatOptimizer::begin_step(scale);
  count_step(params_, count_.steps);
}

void Adam::pass(const UpdateBlocks& blocks, FlatRange range, float weight_decay) {
  rule_.weight_decay = weight_decay;
  adam_pass(params_, rule_, numbers_, blocks, range);
}

std::vector<NamedTensor> Adam::state() {
  std::vector<NamedTensor> all = {
      {"first_moment", rule_.first}, {"second_moment", rule_.second}, {"steps", count_.steps}};
  if (rule_.sum.defined()) all.push_back({"gradient_sum", rule_.sum});
  return all;
}

const char* Adam::name() const {
  if (count_.period > 1) return rule_.decoupled ? "accum-adamw" : "accum-adam";
  return rule_.decoupled ? "adamw" : "adam";
}

std::unique_ptr<Optimizer> make_optimizer(const std::string& name, FlatParams& params,
                                          const OptimizerOptions& o) {
  const auto with_factors = [&](std::unique_ptr<FlatOptimizer> optimizer) {
    optimizer->set_groups(o.factors, o.decays);
    return optimizer;
  };
  const auto adam = [&](bool decoupled, i64 period) {
    return with_factors(std::make_unique<Adam>(
        params, AdamOptions{o.beta1, o.beta2, o.epsilon, o.weight_decay, decoupled, period}));
  };
  if (name == "sgd")
    return with_factors(
        std::make_unique<Sgd>(params, SgdOptions{o.momentum, o.weight_decay, o.nesterov}));
  if (name == "adam" || name == "adamw") return adam(name == "adamw", 1);
  if (name == "accum-adam" || name == "accum-adamw") return adam(name == "accum-adamw", o.period);
  if (name == "muon" || name == "muon-rms") {
    return with_factors(std::make_unique<Muon>(
        params, MuonOptions{name == "muon-rms", o.muon_momentum, o.adam_for, o.adam_factor, o.beta1,
                            o.beta2, o.epsilon, o.weight_decay}));
  }
  fail<ConfigError>("optimizer \"", name,
                    "\" is unknown; known are: sgd, adam, adamw, accum-adam, accum-adamw, muon, "
                    "muon-rms");
}

}  // namespace gossamer::nn
