// See options.h.
#include "gossamer/apps/train/options.h"

#include <algorithm>

#include <fmt/format.h>

#include "gossamer/apps/machine.h"
#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {

namespace {

std::string optimizer_name(const Config& c) {
  return c.optim.name == "auto" ? dist::method_traits(c.train.method).usual_optimizer()
                                : c.optim.name;
}

bool is_sgd(const Config& c) { return optimizer_name(c) == "sgd"; }

double usual_rate(const Config& c) {
  if (is_sgd(c)) return 0.1;
  return optimizer_name(c) == "muon" ? 0.02 : 1e-3;
}

}  // namespace

models::ModelOptions model_options(const Config& c) {
  models::ModelOptions options = static_cast<const models::ModelOptions&>(c.model);
  options.seed = static_cast<std::uint64_t>(c.train.seed);
  return options;
}

double scaled_rate(const Config& c, int workers, double rate) {
  const bool scaled = c.optim.scaling == "linear" || (c.optim.scaling == "auto" && is_sgd(c));
  if (!scaled) return rate;
  return c.train.global_batch > 0
             ? nn::linear_scaling(rate, 1, static_cast<int>(c.train.global_batch))
             : nn::linear_scaling(rate, workers,
                                  static_cast<int>(c.train.batch * c.train.accumulate));
}

RunUnits run_units(const Config& c, int workers, double epoch) {
  return {.epoch = epoch, .step = static_cast<double>(c.step_samples(workers))};
}

double run_samples(const Config& c, int workers, double epoch) {
  return samples_of(c.train.epochs, run_units(c, workers, epoch));
}

double part_of_run(const Amount& a, const Config& c, int workers, double epoch) {
  return part_of(a, run_samples(c, workers, epoch), run_units(c, workers, epoch));
}

std::vector<double> parts_of_run(const std::vector<Amount>& amounts, const Config& c, int workers,
                                 double epoch) {
  std::vector<double> parts;
  for (const Amount& a : amounts)
    if (const double part = part_of_run(a, c, workers, epoch); part < 1) parts.push_back(part);
  return parts;
}

nn::Schedule run_schedule(const Config& c, int workers, double epoch,
                          std::vector<std::string>& notes) {
  const double total = run_samples(c, workers, epoch),
               warmup = samples_of(c.optim.warmup_epochs, run_units(c, workers, epoch));
  if (warmup > 0.5 * total)
    notes.push_back("schedule optim.warmup_epochs=" + to_text(c.optim.warmup_epochs) +
                    " is more than half of train.epochs=" + to_text(c.train.epochs) +
                    "; the rise ends at half the run");
  const double rate = c.optim.learning_rate.value_or(usual_rate(c));
  return nn::make_schedule({.kind = c.optim.schedule,
                            .peak = scaled_rate(c, workers, rate),
                            .total = total,
                            .warmup = std::min(warmup, 0.5 * total),
                            .warmup_from = c.optim.warmup_from,
                            .final = c.optim.final,
                            .milestones = parts_of_run(c.optim.milestones, c, workers, epoch),
                            .gamma = c.optim.gamma,
                            .decay = part_of_run(c.optim.decay, c, workers, epoch)});
}

std::vector<nn::RateFactor> rate_factors(const Config& c) {
  std::vector<nn::RateFactor> out;
  for (const std::string& text : c.optim.factors) out.push_back(nn::parse_rate_factor(text));
  return out;
}

// accum-adam's period: half the workers, as in Decent-DP's recipes, but at least 2: with 1 it is
// Adam.
std::unique_ptr<Optimizer> run_optimizer(const Config& c, FlatParams& params, int workers) {
  return nn::make_optimizer(optimizer_name(c), params,
                            {.momentum = c.optim.momentum,
                             .weight_decay = c.optim.weight_decay,
                             .nesterov = c.optim.nesterov && c.optim.momentum > 0,
                             .beta1 = c.optim.beta1,
                             .beta2 = c.optim.beta2,
                             .epsilon = c.optim.epsilon,
                             .period = c.optim.accumulate.value_or(std::max(2, workers / 2)),
                             .factors = rate_factors(c),
                             .muon_momentum = c.optim.muon_momentum,
                             .adam_factor = c.optim.adam_factor,
                             .adam_for = c.optim.adam_for});
}

// What make_method is told. Rounds take the graph's name, which may be one that only synchronous
// methods know.
dist::MethodOptions method_options(const Config& c, int per_machine, int workers, double epoch) {
  dist::MethodOptions o;
  static_cast<dist::GossipOptions&>(o) = static_cast<const dist::GossipOptions&>(c.train);
  o.settings =
      c.method_settings([&](const Amount& a) { return part_of_run(a, c, workers, epoch); });
  // machines may hold different numbers: else nobody must agree on it
  if (c.train.graph == "aer") o.workers_per_node = per_machine;
  o.batch = c.gradient_samples();
  if (c.train.global_batch > 0) o.global_batch = c.step_samples(workers);
  o.record = c.run.record;
  o.replay = c.run.replay;
  o.seed = static_cast<std::uint64_t>(c.train.seed);
  o.exchange_timeout_s = c.dist.exchange_timeout_s;
  o.clip_norm = c.optim.clip_norm;
  o.min_workers = static_cast<int>(c.dist.min_workers);
  o.payload = c.dist.payload;
  if (dist::method_traits(c.train.method).synchronous) o.rounds = c.train.graph;
  return o;
}

int compute_threads_for(const Config& c, int workers_here) {
  return static_cast<int>(c.train.threads.value_or(std::max(1, cores() / workers_here)));
}

int data_threads_for(const Config& c, int workers_here) {
  if (c.data.threads) return static_cast<int>(*c.data.threads);
  const int share = cores() / workers_here;
  // then the cores are free, but for those that drive GPU and exchanges
  const bool gpu = c.train.device != "cpu" && cuda::device_count() > 0;
  return gpu ? std::clamp(share - 2, 1, 64) : std::clamp(share / 4, 1, 16);
}

std::string less_memory(const Config& c) {
  std::string out = fmt::format("a smaller train.batch than {}", c.train.batch);
  if (c.train.batch % 2 == 0)
    out = fmt::format("train.batch={} train.accumulate={} takes steps of as many samples by halves",
                      c.train.batch / 2, 2 * c.train.accumulate);
  if (c.train.dtype == "f32" && c.train.device != "cpu") out += "; train.dtype=bf16";
  return out + "; fewer workers of a device leave each of them more";
}

}  // namespace gossamer::apps
