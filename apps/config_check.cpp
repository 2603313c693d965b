// Checks a configuration before anything is started.
#include "gossamer/apps/config_check.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <type_traits>

#include "gossamer/apps/config_keys.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/spelling.h"
#include "gossamer/data/augment/policy.h"
#include "gossamer/data/loader/affinity.h"
#include "gossamer/data/unequal.h"
#include "gossamer/dist/faults/inject.h"
#include "gossamer/dist/gossip/schedule.h"
#include "gossamer/dist/gpu/group.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/method.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/selection.h"

namespace gossamer::apps {
namespace {

// The keys with few values.
std::map<std::string, std::vector<std::string>> make_choices() {
  const std::vector<NamedSetting> gossip = settings_of(dist::GossipOptions{});
  std::vector<std::string> graphs = dist::graph_names();
  for (const std::string& rounds : dist::rounds_names())
    if (std::ranges::find(graphs, rounds) == graphs.end()) graphs.push_back(rounds);
  std::map<std::string, std::vector<std::string>> all{
      {"task", models::tasks()},
      {"model.name", models::names()},
      {"model.gelu", {"tanh", "erf"}},
      {"data.label_base", {"auto", "0", "1"}},
      {"data.filter", {"bilinear", "area"}},
      {"data.shard", {"auto", "true", "false", "dirichlet:ALPHA", "documents"}},
      {"data.resize_on", {"auto", "host", "device"}},
      {"train.method", dist::method_names()},
      {"train.graph", graphs},
      {"train.pairing", gossip[1].setting.choices},
      {"train.quota", gossip[2].setting.choices},
      {"train.dtype", {"f32", "bf16", "f16", "auto"}},
      {"train.isa", {"auto", "avx512", "avx2", "neon"}},
      {"train.device", {"auto", "cpu", "cuda", "cuda:N"}},
      {"train.cuda_graph", {"auto", "on", "off"}},
      {"optim.name", {"auto", "sgd", "adam", "adamw", "accum-adam", "accum-adamw"}},
      {"optim.scaling", {"auto", "linear", "none"}},
      {"optim.schedule", {"constant", "step", "cosine", "one-cycle", "inverse-sqrt"}},
      {"eval.of", {"own", "mean"}},
      {"run.best_by", {"top1", "loss"}},
      {"dist.transport", {"auto", "peercopy", "nccl", "host"}},
      {"dist.payload", {"f32", "bf16", "int8"}},
      {"dist.wire", {"f32", "f16"}}};
  for (const MethodKey& each : method_keys())
    if (!each.setting.choices.empty()) all[each.key] = each.setting.choices;
  return all;
}

// Keys that only runs of these tasks read. Elsewhere they must stay as they are by default: nobody
// shall believe that they do something there.
struct KeysOf {
  std::vector<std::string> tasks, keys;
};
const std::vector<KeysOf> kKeysOf{
    {{"pictures"},
     {"data.label_base", "data.size", "data.sizes", "data.size_milestones", "data.eval_size",
      "data.resize", "data.filter", "data.augment", "data.mean", "data.std", "data.resize_on",
      "data.strict_images", "train.mixup", "train.cutmix"}},
    {{"language", "translation"}, {"model.init_other_tokenizer", "data.length"}}};

}  // namespace

std::vector<std::string> choices(const std::string& key) {
  static const auto all = make_choices();
  const auto found = all.find(key);
  return found == all.end() ? std::vector<std::string>{} : found->second;
}

void validate(const Config& c, int workers, int per_machine) {
  const auto require = [&](bool ok, const std::string& key, const std::string& wanted) {
    if (ok) return;
    const auto from = c.origin.find(key);
    fail<ConfigError>(from == c.origin.end() ? "" : from->second + ": ", key, " = ",
                      value_text(c, key), "; it must be ", wanted);
  };
  const auto one_of = [&](const std::string& key, const std::string& value,
                          const std::vector<std::string>& names) {
    std::string list;
    for (const std::string& n : names) list += (list.empty() ? "" : ", ") + n;
    const std::vector<std::string> near = nearest(value, names);
    require(std::ranges::find(names, value) != names.end(), key,
            "one of " + list +
                (near.empty() ? "" : "; did you mean " + alternatives(near, "\"") + "?"));
  };
  // Runs a check of a library and adds the key to its error.
  const auto named = [&](const std::string& key, const auto& check_it) {
    try {
      check_it();
    } catch (const ConfigError& e) {
      const auto from = c.origin.find(key);
      fail<ConfigError>(from == c.origin.end() ? "" : from->second + ": ", key, ": ", e.what());
    }
  };
  const auto auto_or = [&](const std::string& key, const auto& given, i64 least, i64 most) {
    const bool is_auto = given.value == 0 && !given.zero;
    require(is_auto || (given.value >= least && given.value <= most), key,
            "\"auto\" or " + std::to_string(least) + " to " + std::to_string(most));
  };
  const auto amount = [&](const std::string& key, const Amount& a) {
    require(a.value >= 0, key, "0 or more");
    require(!a.is_time() || takes_time(key), key,
            "in epochs, steps or samples: it must not depend on how fast the workers are");
  };
  const auto ascending_parts = [&](const std::string& key, const std::vector<Amount>& parts) {
    const bool ascending = std::ranges::adjacent_find(parts, [](const Amount& a, const Amount& b) {
                             return a.unit != b.unit || a.value >= b.value;
                           }) == parts.end();
    require(ascending && std::ranges::all_of(
                             parts,
                             [](const Amount& a) {
                               return a.value > 0 && (a.unit != Amount::Unit::plain || a.value < 1);
                             }),
            key,
            "ascending fractions of the run, above 0 and below 1, or ascending amounts of one "
            "unit");
    for (const Amount& a : parts) amount(key, a);
  };
  const auto check_settings_of = [&](const std::vector<NamedSetting>& settings) {
    for (const auto& [setting, value] : settings)
      if (const auto wanted = setting_wanted(setting, value))
        require(false, method_key(setting.name), with_setting_names(*wanted, method_key));
  };
  // Their own checks below know the values with a number (cuda:1, aer:4, dirichlet:0.3), or name
  // what fits the other keys.
  const std::set<std::string_view> checked_below{"data.shard", "train.device", "train.graph",
                                                 "dist.transport", "dist.wire"};
  each_key(c, [&](const char* key, const auto& field, const char*) {
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, std::string>)
      if (const auto names = choices(key); !names.empty() && !checked_below.contains(key))
        one_of(key, field, names);
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Amount>) amount(key, field);
  });
  auto_or("model.classes", c.model.classes, 2, 10000000);
  const bool text = c.task != "pictures";
  const models::Family& family = models::family_of(c.model.name);
  require(c.task == family.task, "model.name",
          text ? "one of " + alternatives(models::names(c.task)) + " with task=" + c.task
               : "a model of pictures, or task=" + family.task + " must be said");
  const models::ModelOptions options = model_options(c);
  for (const auto& [setting, value] : settings_of(options))
    if (const auto wanted = setting_wanted(setting, value))
      require(false, "model." + setting.name, *wanted);
  require(!text || c.run.best_by == "loss", "run.best_by", "loss with task=" + c.task);
  require(!text || c.data.val_split == 0, "data.val_split",
          "0 with task=" + c.task + ": `gossamer data tokenize --val-fraction` holds text back");
  for (const KeysOf& of : kKeysOf) {
    if (std::ranges::find(of.tasks, c.task) != of.tasks.end()) continue;
    for (const std::string& key : of.keys) {
      const std::string unchanged = value_text({}, key);
      require(value_text(c, key) == unchanged, key,
              "left at " + unchanged + " with task=" + c.task + ": only runs of " +
                  alternatives(of.tasks) + " read it");
    }
  }
  for (const std::string& option : models::given_options(options)) {
    std::vector<std::string> families;
    for (const models::Family& other : models::families())
      if (other.takes(option)) families.push_back(other.name);
    const std::string key = "model." + option;
    require(family.takes(option), key,
            "left at " + value_text({}, key) + " with model.name = " + c.model.name +
                ": only models of the family " + alternatives(families) + " take it");
  }
  require(c.task == "language" || c.data.shard != "documents", "data.shard",
          "another one: only text (task=language) has documents");
  weights_options(c);
  named("model.freeze", [&] {
    if (!c.model.freeze.empty()) nn::Selection{c.model.freeze};
  });
  require(!c.data.train.empty() && !c.data.train[0].empty(), "data.train", "a path");
  require(!c.data.val.empty() && !c.data.val[0].empty(), "data.val", "a path, auto or none");
  require(c.data.val_split >= 0 && c.data.val_split < 1, "data.val_split", "0 or more, below 1");
  require(c.data.val_split == 0 || c.data.val[0] == "auto", "data.val_split",
          "0, since data.val = " + value_text(c, "data.val") +
              " says what to validate with; leave one of the two out");
  auto_or("data.size", c.data.size, 1, 4096);
  auto_or("data.resize", c.data.resize, 1, 8192);
  auto_or("data.eval_size", c.data.eval_size, 1, 4096);
  require(c.data.sizes.size() == c.data.size_milestones.size(), "data.size_milestones",
          "one fraction for each of data.sizes");
  require(std::ranges::all_of(c.data.sizes,
                              [&](i64 s) {
                                return s >= 1 && s <= 4096 &&
                                       (c.data.size.value == 0 || s <= c.data.size.value);
                              }),
          "data.sizes", "sides of 1 pixel to data.size");
  ascending_parts("data.size_milestones", c.data.size_milestones);
  const std::vector<std::string> crops{"auto", "none", "pad-crop-flip", "resized-crop-flip"};
  require(!c.data.augment.empty() && std::ranges::find(crops, c.data.augment[0]) != crops.end(),
          "data.augment",
          "a crop (auto, none, pad-crop-flip or resized-crop-flip), alone or followed by steps");
  named("data.augment", [&] {
    for (std::size_t i = 1; i < c.data.augment.size(); ++i)
      data::parse_pixel_step(c.data.augment[i]);
  });
  named("data.cpus", [&] {
    if (!c.data.cpus.empty()) data::parse_cpus(c.data.cpus);
  });
  if (c.data.shard.starts_with("dirichlet"))
    named("data.shard", [&] { data::parse_dirichlet(c.data.shard); });
  else
    one_of("data.shard", c.data.shard, choices("data.shard"));
  require(c.data.mean.empty() || c.data.mean.size() == 3, "data.mean",
          "three numbers, or an empty list");
  require(c.data.std.empty() || (c.data.std.size() == 3 &&
                                 std::ranges::all_of(c.data.std, [](double s) { return s > 0; })),
          "data.std", "three positive numbers, or an empty list");
  require(c.data.length >= 1 && c.data.length <= 1 << 20, "data.length", "1 to 1048576");
  auto_or("data.threads", c.data.threads, 1, 256);
  require(c.data.cache_gb >= 0 && c.data.cache_gb <= 1e6, "data.cache_gb", "0 to 1000000");
  // Synchronous methods may also follow rounds that no graph has (one-peer-exp …).
  const dist::MethodTraits& method = dist::method_traits(c.train.method);
  const bool in_rounds = method.synchronous;
  if (!dist::known_graph(c.train.graph))
    one_of("train.graph", c.train.graph, in_rounds ? dist::rounds_names() : dist::graph_names());
  const i64 scale = c.train.loss_scale.value;
  require(
      scale >= 0 && scale <= i64{1} << 24 && (scale & (scale - 1)) == 0 && !c.train.loss_scale.zero,
      "train.loss_scale",
      "\"auto\" or a power of two, 1 to 16777216, so that scaling rounds nothing");
  require(!c.train.tf32 || c.train.dtype == "f32", "train.tf32",
          "false unless train.dtype=f32: the other types have short factors anyway");
  named("train.device", [&] { check_device_name(c.train.device); });
  require(!c.train.plans.empty(), "train.plans", "auto, none or the path of a file");
  dist::GossipOptions gossip;
  gossip.rate = c.train.rate;
  check_settings_of(settings_of(gossip));
  // Fractions of the run that only need to be as many and ascending here.
  double part = 0;
  const auto in_turn = [&](const Amount&) { return (part += 1) / 1e9; };
  for (const MethodKey& each : c.of_methods)
    if (const auto* parts = std::get_if<std::vector<Amount>>(&each.value))
      ascending_parts(each.key, *parts);
  check_settings_of(dist::method_settings(c.all_settings(in_turn)));
  const std::string named_after = method.usual_optimizer();
  require(c.optim.name == "auto" || method.takes(c.optim.name), "optim.name",
          "auto, " + named_after + " or " + named_after + "w, since train.method = " +
              c.train.method + "; " + method.variant_of + " goes with any");
  require(c.train.mixup >= 0 && c.train.mixup <= 100, "train.mixup", "0 to 100");
  require(c.train.cutmix >= 0 && c.train.cutmix <= 100, "train.cutmix", "0 to 100");
  require(c.train.batch >= 1 && c.train.batch <= 65536, "train.batch", "1 to 65536");
  require(c.train.ema >= 0 && c.train.ema < 1, "train.ema", "0 to below 1, e.g. 0.9999");
  require(c.train.accumulate >= 1 && c.train.accumulate <= 65536, "train.accumulate", "1 to 65536");
  require(c.train.batch > 1 || (c.train.mixup == 0 && c.train.cutmix == 0), "train.batch",
          "2 or more with train.mixup or train.cutmix: they blend images of a batch");
  require(c.train.seed >= 0, "train.seed", "0 or more");
  require(c.train.patience >= 0, "train.patience", "0 or more");
  require(c.train.patience == 0 || (c.eval.every.value > 0 && c.data.val[0] != "none"),
          "train.patience",
          "0 unless the run evaluates on the way: give eval.every=EPOCHS and a data.val");
  require(c.train.patience == 0 || workers == 1 || c.eval.of == "mean", "train.patience",
          "0 unless eval.of=mean: several workers stop together, by the average of their models");
  require(c.train.epochs.value > 0, "train.epochs", "above 0");
  require(c.train.bn_batches >= 0 && c.train.bn_batches <= 1000000, "train.bn_batches",
          "0 or more");
  auto_or("train.threads", c.train.threads, 1, 1024);
  require(!c.optim.learning_rate.zero && c.optim.learning_rate.value >= 0 &&
              std::isfinite(c.optim.learning_rate.value),
          "optim.learning_rate", "\"auto\" or above 0");
  named("optim.factors", [&] { rate_factors(c); });
  require(c.optim.momentum >= 0 && c.optim.momentum < 1, "optim.momentum", "in [0, 1)");
  require(c.optim.beta1 >= 0 && c.optim.beta1 < 1, "optim.beta1", "in [0, 1)");
  require(c.optim.beta2 >= 0 && c.optim.beta2 < 1, "optim.beta2", "in [0, 1)");
  require(c.optim.epsilon > 0 && c.optim.epsilon < 1, "optim.epsilon", "above 0 and below 1");
  auto_or("optim.accumulate", c.optim.accumulate, 1, 1000000);
  require(c.optim.weight_decay >= 0 && c.optim.weight_decay < 1, "optim.weight_decay", "in [0, 1)");
  require(c.optim.label_smoothing >= 0 && c.optim.label_smoothing < 1, "optim.label_smoothing",
          "in [0, 1)");
  require(c.optim.clip_norm >= 0, "optim.clip_norm", "0 or more");
  require(c.optim.warmup_from >= 0 && std::isfinite(c.optim.warmup_from), "optim.warmup_from",
          "0 or more");
  require(c.optim.final >= 0 && std::isfinite(c.optim.final), "optim.final", "0 or more");
  require(c.optim.gamma > 0 && std::isfinite(c.optim.gamma), "optim.gamma", "above 0");
  ascending_parts("optim.milestones", c.optim.milestones);
  require(
      c.run.trace_steps.empty() || (c.run.trace_steps.size() == 2 && c.run.trace_steps[0] >= 0 &&
                                    c.run.trace_steps[0] <= c.run.trace_steps[1]),
      "run.trace_steps", "two step numbers, the first not after the last, or an empty list");
  require(c.eval.batch >= 1 && c.eval.batch <= 65536, "eval.batch", "1 to 65536");
  require(!c.run.name.empty() && c.run.name.find('/') == std::string::npos && c.run.name[0] != '.',
          "run.name", "a plain folder name");
  require(!c.run.dir.empty(), "run.dir", "a folder");
  require(c.run.log_every >= 1, "run.log_every", "1 or more");
  for (const auto& [key, folder] :
       {std::pair{"run.record", c.run.record}, {"run.replay", c.run.replay}})
    require(folder.empty() || method.records, key,
            "empty unless train.method is " +
                dist::methods_that([](const dist::MethodTraits& m) { return m.records; }, "or") +
                ": only their order of events depends on timing");
  require(c.run.keep >= 1, "run.keep", "1 or more");
  require(c.run.keep_best >= 0 && c.run.keep_best <= 1000, "run.keep_best", "0 to 1000");
  require(c.dist.heartbeat_s > 0, "dist.heartbeat_s", "above 0");
  require(c.dist.dead_after_s >= 2 * c.dist.heartbeat_s, "dist.dead_after_s",
          "at least twice dist.heartbeat_s, " + value_text(c, "dist.heartbeat_s"));
  require(c.dist.connect_timeout_s > 0, "dist.connect_timeout_s", "above 0");
  require(c.dist.exchange_timeout_s > 0, "dist.exchange_timeout_s", "above 0");
  require(c.dist.collective_timeout_s > 0, "dist.collective_timeout_s", "above 0");
  require(c.dist.min_workers >= 1 && c.dist.min_workers <= workers, "dist.min_workers",
          "1 to the number of workers, " + std::to_string(workers));
  require(c.dist.payload == "f32" || method.coded, "dist.payload",
          "f32 for " + dist::methods_that([](const dist::MethodTraits& m) { return !m.coded; }) +
              ", whose sums are made in f32");
  require(c.dist.restart >= 0 && c.dist.restart <= 1000, "dist.restart", "0 to 1000");
  require(c.dist.nccl_ctas >= 0 && c.dist.nccl_ctas <= 32, "dist.nccl_ctas", "0 to 32");
  named("dist", [&] {
    dist::check_gpu_options({.transport = c.dist.transport,
                             .wire = c.dist.wire,
                             .nccl_ctas = static_cast<int>(c.dist.nccl_ctas)});
  });
  const auto faults = dist::parse_injections(c.dist.inject);
  dist::validate(faults, workers);
  const bool restarts = c.dist.restart > 0 || std::ranges::any_of(faults, [](const auto& f) {
                          return f.kind == dist::Injection::Kind::restart;
                        });
  require(!restarts || method.restarts, "train.method",
          dist::methods_that([](const dist::MethodTraits& m) { return m.restarts; }, "or") +
              " if workers are started again (dist.restart, dist.inject): with the other methods "
              "all workers step together, so a new one cannot join; without restarts they go on "
              "with the workers that are alive");
  require(c.dist.restart_after_s >= 0 && c.dist.restart_after_s <= 86400, "dist.restart_after_s",
          "0 to 86400");
  if (workers < 2 || (c.train.graph == "aer" && per_machine == 0)) return;
  if (in_rounds) {
    // throws for a number of workers that the rounds do not allow
    const auto rounds = dist::make_rounds(c.train.graph, workers, std::max(1, per_machine));
    require(
        !rounds->directed() || dist::method_traits(c.stepping_method()).directed, "train.graph",
        "undirected, as one-peer-exp is: on directed rounds only " +
            dist::methods_that([](const dist::MethodTraits& m) { return m.directed && m.graph; }) +
            " keeps the mean");
  } else {
    const dist::Graph graph = dist::make_graph(c.train.graph, workers, 1, std::max(1, per_machine));
    if (c.train.pairing == "rounds") dist::make_rounds_agenda(0, c.train.rate, graph);
  }
}

}  // namespace gossamer::apps
