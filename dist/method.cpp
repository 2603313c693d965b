// make_method, and what can be refused without asking the others: from the rows of the registry.
#include "gossamer/dist/method.h"

#include <algorithm>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/share.h"
#include "gossamer/dist/agreement.h"
#include "gossamer/dist/coding.h"
#include "gossamer/dist/control_options.h"
#include "gossamer/dist/gossip/policy.h"
#include "gossamer/dist/gossip/recorder.h"
#include "gossamer/dist/graph/rounds.h"
#include "gossamer/dist/method_context.h"
#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {
namespace {

// The row of a method that trains. ConfigError if it can only be simulated.
const MethodRow& find(const std::string& name) {
  const MethodRow& row = method_row(name);
  check<ConfigError>(!row.traits.simulated_only, "method ", name,
                     " can only be simulated; one that trains like it is ", row.traits.variant_of);
  return row;
}

// ConfigError if these rounds do not exist, or if the method needs others.
void check_rounds(const MethodTraits& traits, const Graph& graph, const MethodOptions& o) {
  if (graph.n < 2 && (o.rounds.empty() || known_rounds(o.rounds))) return;
  const auto rounds =
      o.rounds.empty() ? make_rounds(graph) : make_rounds(o.rounds, graph.n, o.workers_per_node);
  method_row(stepping_method(traits.name, o.settings)).check_rounds(*rounds);
  const MethodTraits& steps = method_traits(stepping_method(traits.name, o.settings));
  check<ConfigError>(!rounds->directed() || steps.directed, traits.name, ": rounds \"", o.rounds,
                     "\" are directed, and only ",
                     methods_that([](const MethodTraits& m) { return m.directed && m.graph; }),
                     " keeps the mean on them");
}

// Appends to `all` what it lacks of `more`.
void add(const std::vector<NamedSetting>& more, std::vector<NamedSetting>& all) {
  for (const NamedSetting& each : more)
    if (std::ranges::none_of(
            all, [&](const NamedSetting& s) { return s.setting.name == each.setting.name; }))
      all.push_back(each);
}

// The names and values of the settings of all methods. One that this method lacks has the value
// "none".
std::vector<std::pair<std::string, std::string>> texts_of(const std::string& method,
                                                          const Settings& given) {
  std::vector<std::pair<std::string, std::string>> out;
  const std::vector<NamedSetting> own = method_settings(method, given);
  for (const NamedSetting& each : method_settings()) {
    if (!each.setting.agree) continue;
    std::string value = "none";
    for (const NamedSetting& here : own)
      if (here.setting.name == each.setting.name) value = setting_text(here.value);
    out.emplace_back(each.setting.name, value);
  }
  return out;
}

}  // namespace

const MethodTraits& method_traits(const std::string& name) { return method_row(name).traits; }

const std::string& default_method() { return method_rows().front().traits.name; }

std::vector<std::string> method_names() {
  std::vector<std::string> names;
  for (const MethodRow& row : method_rows())
    if (!row.traits.simulated_only) names.push_back(row.traits.name);
  std::ranges::sort(names);
  return names;
}

std::string methods_that(const std::function<bool(const MethodTraits&)>& wanted,
                         const std::string& last_word) {
  std::vector<std::string> names;
  for (const MethodRow& row : method_rows())
    if (!row.traits.simulated_only && wanted(row.traits)) names.push_back(row.traits.name);
  std::string out;
  const std::string last = last_word == "," ? ", " : " " + last_word + " ",
                    between = last_word == "|" ? last : ", ";
  for (std::size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "" : i + 1 == names.size() ? last : between) + names[i];
  return out;
}

std::vector<NamedSetting> method_settings(const std::string& name, const Settings& given) {
  const MethodRow& of = method_row(name);
  std::vector<NamedSetting> all = of.settings(given);
  for (const MethodRow& row : method_rows())  // consensus control hands them on
    if (of.traits.controls && row.traits.controllable) add(row.settings(given), all);
  return all;
}

std::vector<NamedSetting> method_settings(const Settings& given) {
  std::vector<NamedSetting> all;
  for (const MethodRow& row : method_rows()) add(row.settings(given), all);
  return all;
}

std::string stepping_method(const std::string& name, const Settings& settings) {
  if (!method_traits(name).controls) return name;
  const SettingValue* inner = settings.find("control.method");
  return inner ? setting_text(*inner) : ConsensusControlOptions{}.method;
}

i64 Sharing::share(i64 batches, int rank) const {
  return share_of(batches, std::ranges::find(workers, rank) - workers.begin(), std::ssize(workers));
}

const Sharing& Method::sharing() const {
  static const Sharing nobody;
  return nobody;
}

void check_method(const std::string& name, const std::string& optimizer, const Group& group,
                  const Graph& graph, const MethodOptions& options) {
  const MethodRow& row = find(name);
  const MethodTraits& traits = row.traits;
  const std::string of = "method " + name;
  check<ConfigError>(options.batch > 0, of, ": batch ", options.batch, "; it must be at least 1");
  check<ConfigError>(
      options.global_batch == 0 || (options.record.empty() && options.replay.empty()), of,
      ": global_batch does not go with record and replay");
  check<ConfigError>(options.global_batch % options.batch == 0 && options.global_batch >= 0, of,
                     ": global_batch ", options.global_batch, "; it must be a multiple of batch ",
                     options.batch);
  check<ConfigError>(
      options.global_batch == 0 || options.global_batch / options.batch >= group.size(), of,
      ": global_batch ", options.global_batch, " has ", options.global_batch / options.batch,
      " batches, too few for ", group.size(), " workers");
  check<ConfigError>(traits.takes(optimizer), of, " is ", traits.variant_of, " with the optimizer ",
                     traits.optimizer, ", this one is ", optimizer, "; take ", traits.variant_of,
                     " to go with it");
  check<ConfigError>(graph.n == group.size(), of, ": the graph is for ", graph.n,
                     " workers, there are ", group.size());
  validate(graph);
  check<ConfigError>(traits.records || (options.record.empty() && options.replay.empty()), of,
                     ": record and replay are for ",
                     methods_that([](const MethodTraits& m) { return m.records; }));
  const bool joins = options.rejoin && group.rank() >= group.started();
  check<ConfigError>(!joins || traits.joins, of, ": nobody can join it; that is for ",
                     methods_that([](const MethodTraits& m) { return m.joins; }));
  check<ConfigError>(!options.rejoin || joins || traits.restarts, of,
                     ": its workers step together, none can be started again by itself; ",
                     methods_that([](const MethodTraits& m) { return m.restarts; }), " can");
  check<ConfigError>(!options.rejoin || options.replay.empty(), of,
                     ": a worker that was started again can't replay a record");
  check<ConfigError>(options.min_workers <= group.started(), "min_workers is ", options.min_workers,
                     ", and the group has ", group.started(), " workers; wanted at most as many");
  const std::string uncoded = methods_that([](const MethodTraits& m) { return !m.coded; });
  check<ConfigError>(coding_of(options.payload) == Coding::f32 || traits.coded, of, ": payload ",
                     options.payload, "; it must be f32 for ", uncoded, ", which send no codes");
  check<ConfigError>(options.wire == DType::f32 || !traits.synchronous, of,
                     ": wire f16 is for gossip, each worker at its own pace; this one moves f32");
  check_settings(static_cast<const GossipOptions&>(options), of);
  const Settings known = options.settings.only(method_settings(name));
  std::string names;
  for (const NamedSetting& each : method_settings(name)) names += " " + each.setting.name;
  for (const auto& [setting, value] : options.settings.values())
    check<ConfigError>(known.find(setting) != nullptr, of, " has no setting ", setting, "; it has",
                       names.empty() ? " none" : names);
  row.check(options.settings);
  if (traits.synchronous) {
    check_rounds(traits, graph, options);
  } else if (!options.replay.empty()) {
    check_record(record_path(options.replay, group.rank()));
  } else if (group.size() > 1) {
    make_partner_policy(options, graph, group.rank());
  }
  if (!options.record.empty()) check_can_record(options.record, group.rank());
}

std::unique_ptr<Method> make_method(const std::string& name, FlatParams& params,
                                    Optimizer& optimizer, Group& group, const Graph& graph,
                                    const MethodOptions& options) {
  check_method(name, optimizer.name(), group, graph, options);
  check<DeviceError>(params.values().device().is_cpu() || group.size() < 2 || group.device_port(),
                     "method ", name, ": the parameters are on ", params.values().device(),
                     ", and this group moves tensors of the CPU; wrap it with gpu_group() "
                     "(dist/gpu/group.h)");
  check<ConfigError>(coding_of(options.payload) == Coding::f32 || params.values().device().is_cpu(),
                     "method ", name, ": payload ", options.payload,
                     "; it must be f32 between GPUs");
  MethodOptions own = options;
  // a worker that rejoins gets all of this from a neighbour
  if (group.size() > 1 && !options.rejoin)
    own.start_samples =
        begin_together(name, params, group, graph, options, texts_of(name, options.settings));
  params.refresh();
  const auto restore = std::exchange(own.restore, nullptr);
  std::unique_ptr<Method> method =
      find(name).make({params, optimizer, group, graph, own, restore ? &restore : nullptr});
  // What exchanges beside the training has done so before its first exchange.
  if (restore && method_traits(name).synchronous) restore(method->state());
  return method;
}

}  // namespace gossamer::dist
