// Checks a configuration before anything is started.
#include "gossamer/apps/config_check.h"

#include <algorithm>
#include <optional>
#include <set>

#include "gossamer/apps/config_keys.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/device_names.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/core/text/spelling.h"
#include "gossamer/data/augment/augment.h"
#include "gossamer/data/loader/affinity.h"
#include "gossamer/data/unequal.h"
#include "gossamer/dist/faults/inject.h"
#include "gossamer/dist/gossip/schedule.h"
#include "gossamer/dist/gpu/group.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/methods/mixes_models.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/selection.h"

namespace gossamer::apps {
namespace {

// None if the key's range and choices allow the value; else what it must be.
std::optional<std::string> wanted_of(const Setting& key, const Amount& a) {
  if (a.is_time() && !takes_time(key.name))
    return "in epochs, steps or samples: it must not depend on how fast the workers are";
  return setting_wanted(key, a.value);
}
std::optional<std::string> wanted_of(const Setting& key, const std::vector<Amount>& parts) {
  const bool ascending = std::ranges::adjacent_find(parts, [](const Amount& a, const Amount& b) {
                           return a.unit != b.unit || a.value >= b.value;
                         }) == parts.end();
  if (!ascending || !std::ranges::all_of(parts, [](const Amount& a) {
        return a.value > 0 && (a.unit != Amount::Unit::plain || a.value < 1);
      }))
    return "ascending fractions of the run, above 0 and below 1, or ascending amounts of one unit";
  for (const Amount& a : parts)
    if (auto wanted = wanted_of(key, a)) return wanted;
  return std::nullopt;
}
std::optional<std::string> wanted_of(const Setting& key, const auto& value) {
  // Their own checks know the values with a number (cuda:1, aer:4, dirichlet:0.3), or name what
  // fits the other keys.
  const std::set<std::string> checked_below{"data.shard", "train.device", "train.graph",
                                            "dist.transport"};
  return checked_below.contains(key.name) ? std::nullopt : setting_wanted(key, value);
}

}  // namespace

void validate(const Config& c, int workers, int per_machine) {
  const auto require = [&](bool ok, const std::string& key, const std::string& wanted) {
    if (ok) return;
    const auto from = c.origin.find(key);
    fail<ConfigError>(from == c.origin.end() ? "" : from->second + ": ", key, " = ",
                      value_text(c, key), "; it must be ", wanted);
  };
  const auto one_of = [&](const std::string& key, const std::string& value,
                          const std::vector<std::string>& names) {
    const std::vector<std::string> near = nearest(value, names);
    require(std::ranges::find(names, value) != names.end(), key,
            "one of " + listed(names) +
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
  const auto check_settings_of = [&](const std::vector<NamedSetting>& settings) {
    for (const auto& [setting, value] : settings)
      if (const auto wanted = setting_wanted(setting, value))
        require(false, method_key(setting.name), with_setting_names(*wanted, method_key));
  };
  const std::vector<KeyText> usual = key_texts();
  std::size_t at = 0;
  each_key(c, [&](const Setting& key, const auto& value) {
    if (const auto wanted = wanted_of(key, value)) require(false, key.name, *wanted);
    const KeyText& unchanged = usual[at++];
    require(key.used || value_text(c, key.name) == unchanged.value, key.name,
            "left at " + unchanged.value + " with task=" + c.task + ": only runs of " +
                key.used_with + " read it");
  });
  const bool text = c.task != "pictures";
  const models::Family& family = models::family_of(c.model.name);
  require(c.task == family.task, "model.name",
          text ? "one of " + alternatives(models::names(c.task)) + " with task=" + c.task
               : "a model of pictures, or task=" + family.task + " must be said");
  require(!text || c.run.best_by == "loss", "run.best_by", "loss with task=" + c.task);
  require(!text || c.data.val_split == 0, "data.val_split",
          "0 with task=" + c.task + ": `gossamer data tokenize --val-fraction` holds text back");
  for (const std::string& option : models::given_options(c.model)) {
    std::vector<std::string> families;
    for (const models::Family& other : models::families())
      if (other.takes(option)) families.push_back(other.name);
    const std::string key = "model." + option;
    require(family.takes(option), key,
            "left at " + value_text(Config(), key) + " with model.name = " + c.model.name +
                ": only models of the family " + alternatives(families) + " take it");
  }
  const bool lora = c.model.lora_rank > 0;
  require(!lora || family.name == "llama", "model.lora_rank",
          "0 with model.name = " + c.model.name + ": adapters are for LLaMA's kind of model");
  require(!lora || !c.model.init.empty(), "model.lora_rank",
          "0 without model.init: an adapter changes a model that was trained");
  require(!lora || c.model.freeze.empty(), "model.freeze",
          "left out with model.lora_rank: the adapter alone is trained");
  require(c.task == "language" || c.data.shard != "documents", "data.shard",
          "another one: only text (task=language) has documents");
  require(c.data.weights.empty() ||
              (c.task == "language" && c.data.weights.size() == c.data.train.size()),
          "data.weights", key_text("data.weights").range + ", with task=language");
  require(c.data.documents == "joined" || family.name == "llama", "data.documents",
          "joined with model.name = " + c.model.name +
              ": only LLaMA's kind of model keeps documents apart");
  weights_options(c);
  named("model.freeze", [&] {
    if (!c.model.freeze.empty()) nn::Selection{c.model.freeze};
  });
  require(!c.data.train.empty() && !c.data.train[0].empty(), "data.train", "a path");
  require(!c.data.val.empty() && !c.data.val[0].empty(), "data.val", "a path, auto or none");
  require(c.data.val_split == 0 || c.data.val[0] == "auto", "data.val_split",
          "0, since data.val = " + value_text(c, "data.val") +
              " says what to validate with; leave one of the two out");
  require(c.data.sizes.size() == c.data.size_milestones.size(), "data.size_milestones",
          "one fraction for each of data.sizes");
  require(
      !c.data.size || std::ranges::all_of(c.data.sizes, [&](i64 s) { return s <= *c.data.size; }),
      "data.sizes", key_text("data.sizes").range);
  require(!c.data.augment.empty(), "data.augment", "a crop, alone or followed by steps");
  named("data.augment", [&] {
    if (c.data.augment[0] != "auto") data::parse_crop(c.data.augment[0]);
    for (std::size_t i = 1; i < c.data.augment.size(); ++i)
      data::parse_pixel_step(c.data.augment[i]);
  });
  named("data.cpus", [&] {
    if (!c.data.cpus.empty()) data::parse_cpus(c.data.cpus);
  });
  if (c.data.shard.starts_with("dirichlet"))
    named("data.shard", [&] { data::parse_dirichlet(c.data.shard); });
  else
    one_of("data.shard", c.data.shard, key_text("data.shard").choices);
  require(c.data.mean.empty() || c.data.mean.size() == 3, "data.mean",
          "three numbers, or an empty list");
  require(c.data.std.empty() || c.data.std.size() == 3, "data.std", key_text("data.std").range);
  // Synchronous methods may also follow rounds that no graph has (one-peer-exp …).
  const dist::MethodTraits& method = dist::method_traits(c.train.method);
  const bool in_rounds = method.synchronous;
  if (in_rounds ? !dist::known_rounds(c.train.graph) : !dist::known_graph(c.train.graph))
    one_of("train.graph", c.train.graph, in_rounds ? dist::rounds_names() : dist::graph_names());
  const i64 scale = c.train.loss_scale.value_or(1);
  require((scale & (scale - 1)) == 0, "train.loss_scale",
          "\"auto\" or " + key_text("train.loss_scale").range);
  require(!c.train.tf32 || c.train.dtype == "f32", "train.tf32",
          "false unless train.dtype=f32: the other types have short factors anyway");
  named("train.device", [&] { check_device_name(c.train.device); });
  require(!c.train.plans.empty(), "train.plans", "auto, none or the path of a file");
  const bool divides = c.train.global_batch > 0;
  require(!divides || c.train.global_batch % c.train.batch == 0, "train.global_batch",
          "a multiple of train.batch = " + std::to_string(c.train.batch));
  const i64 most = std::max<i64>(workers, c.dist.places);
  require(!divides || c.train.global_batch / c.train.batch >= most, "train.global_batch",
          "at least one train.batch of " + std::to_string(c.train.batch) + " for each of " +
              (most > workers ? "dist.places = " + std::to_string(most)
                              : std::to_string(most) + " workers"));
  require(!divides || c.train.accumulate == 1, "train.accumulate",
          "1 with train.global_batch: each worker accumulates its share of that");
  require(!divides || c.data.shard == "auto" || c.data.shard == (in_rounds ? "true" : "false"),
          "data.shard",
          in_rounds ? "auto or true with train.global_batch: the workers share one order"
                    : "auto or false with train.global_batch and train.method=" + c.train.method +
                          ": each worker has an order of its own");
  require(!divides || (c.run.record.empty() && c.run.replay.empty()), "train.global_batch",
          "0 for a run that is recorded or repeated");
  // Fractions of the run that only need to be as many and ascending here.
  double part = 0;
  const auto in_turn = [&](const Amount&) { return (part += 1) / 1e9; };
  check_settings_of(dist::method_settings(c.all_settings(in_turn)));
  const std::string named_after = method.usual_optimizer();
  require(c.optim.name == "auto" || method.takes(c.optim.name), "optim.name",
          "auto, " + named_after + " or " + named_after + "w, since train.method = " +
              c.train.method + "; " + method.variant_of + " goes with any");
  require(c.train.batch > 1 || (c.train.mixup == 0 && c.train.cutmix == 0), "train.batch",
          "2 or more with train.mixup or train.cutmix: they blend images of a batch");
  require(c.train.patience == 0 || (c.eval.every.value > 0 && c.data.val[0] != "none"),
          "train.patience",
          "0 unless the run evaluates on the way: give eval.every=EPOCHS and a data.val");
  require(c.train.patience == 0 || workers == 1 || c.eval.of == "mean", "train.patience",
          "0 unless eval.of=mean: several workers stop together, by the average of their models");
  named("optim.factors", [&] { rate_factors(c); });
  require(
      c.run.trace_steps.empty() || (c.run.trace_steps.size() == 2 && c.run.trace_steps[0] >= 0 &&
                                    c.run.trace_steps[0] <= c.run.trace_steps[1]),
      "run.trace_steps", "two step numbers, the first not after the last, or an empty list");
  require(!c.run.name.empty() && c.run.name.find('/') == std::string::npos && c.run.name[0] != '.',
          "run.name", "a plain folder name");
  require(!c.run.dir.empty(), "run.dir", "a folder");
  for (const auto& [key, folder] :
       {std::pair{"run.record", c.run.record}, {"run.replay", c.run.replay}})
    require(folder.empty() || method.records, key,
            "empty unless train.method is " +
                dist::methods_that([](const dist::MethodTraits& m) { return m.records; }, "or") +
                ": only their order of events depends on timing");
  const bool by_clocks = !method.synchronous && workers > 1 && c.train.rate > 0,
             in_order = !c.run.record.empty() || !c.run.replay.empty();
  require(!c.train.deterministic || !by_clocks || in_order, "train.deterministic",
          "false with train.method=" + c.train.method + " and " + std::to_string(workers) +
              " workers, who meet when their clocks say so: record their order (run.record=FOLDER) "
              "and repeat the run from it (run.replay=FOLDER), or take a method that meets in "
              "rounds, such as " +
              dist::methods_that([](const dist::MethodTraits& m) { return m.sums_gradients; }));
  require(c.dist.dead_after_s >= 2 * c.dist.heartbeat_s, "dist.dead_after_s",
          "at least twice dist.heartbeat_s, " + value_text(c, "dist.heartbeat_s"));
  require(c.dist.min_workers >= 1 && c.dist.min_workers <= workers, "dist.min_workers",
          "1 to the number of workers, " + std::to_string(workers));
  require(c.dist.payload == "f32" || method.coded, "dist.payload",
          "f32 for " + dist::methods_that([](const dist::MethodTraits& m) { return !m.coded; }) +
              ", which send no codes");
  named("dist", [&] {
    dist::check_gpu_options(
        {.transport = c.dist.transport, .nccl_ctas = static_cast<int>(c.dist.nccl_ctas)});
  });
  const auto faults = dist::parse_injections(c.dist.inject);
  dist::validate(faults, workers);
  const auto any = [&](auto is_so) { return std::ranges::any_of(faults, is_so); };
  require(!any([](const auto& f) { return f.lies(); }) ||
              (dist::mixes_models(c.stepping_method()) && c.dist.payload == "f32" &&
               c.dist.wire == "f32"),
          "dist.inject",
          "without attacks but label-flip, unless train.method is " +
              dist::methods_that(
                  [](const dist::MethodTraits& m) { return dist::mixes_models(m.name); }, "or") +
              ", and dist.payload and dist.wire are f32: a liar lies about models that others mix");
  require(
      !any([](const auto& f) { return f.how == dist::Attack::label_flip; }) || c.task == "pictures",
      "dist.inject", "without label-flip: only pictures have labels");
  const bool restarts = c.dist.restart > 0 || std::ranges::any_of(faults, [](const auto& f) {
                          return f.kind == dist::Injection::Kind::restart;
                        });
  require(!restarts || method.restarts, "train.method",
          dist::methods_that([](const dist::MethodTraits& m) { return m.restarts; }, "or") +
              " if workers are started again (dist.restart, dist.inject): with the other methods "
              "all workers step together, so a new one cannot join; without restarts they go on "
              "with the workers that are alive");
  if (const int places = static_cast<int>(c.dist.places); places > 0) {
    require(places >= workers, "dist.places",
            "at least the number of workers, " + std::to_string(workers) + ", or 0");
    require(places == workers ||
                (method.joins && (method.synchronous || c.train.pairing == "handshake")),
            "dist.places",
            "0 unless train.method is " +
                dist::methods_that([](const dist::MethodTraits& m) { return m.joins; }, "or") +
                ", with train.pairing=handshake: nobody can join the others");
    require(places == workers || divides || c.data.shard == "auto" || c.data.shard == "false",
            "dist.places",
            "0 if the workers divide the data (data.shard=" + c.data.shard +
                "): who joins has no part of them");
    require(places == workers || (c.run.record.empty() && c.run.replay.empty()), "dist.places",
            "0 for a run that is recorded or repeated");
    if (!in_rounds) dist::make_graph(c.train.graph, places, 1, std::max(1, per_machine));
  }
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
