// `gossamer simulate MODE`: many workers in simulated time, all in this process.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <optional>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/simulate_events.h"
#include "gossamer/apps/commands/simulate_page.h"
#include "gossamer/apps/commands/slow_workers.h"
#include "gossamer/apps/report/exchange_warnings.h"
#include "gossamer/apps/report/run_totals.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/edge_statistics.h"
#include "gossamer/dist/faults/inject.h"
#include "gossamer/dist/methods/registry.h"
#include "gossamer/dist/simulation/consensus.h"
#include "gossamer/dist/simulation/timeline.h"

namespace gossamer::apps {
namespace {

constexpr int kRows = 12;  // of a table over time
constexpr int kBar = 40;

// The names of the methods for which it is so, of all that can be simulated.
template <class F>
std::vector<std::string> methods_with(F&& is_so) {
  std::vector<std::string> names = dist::simulated_methods();
  std::erase_if(names, [&](const std::string& name) { return !is_so(name); });
  return names;
}
std::string listed(const std::vector<std::string>& names, const std::string& last = " and ") {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "" : i + 1 == names.size() ? last : ", ") + names[i];
  return out;
}

const NamedSetting* find_setting(const std::vector<NamedSetting>& all, const std::string& name) {
  const auto found = std::ranges::find_if(
      all, [&](const NamedSetting& each) { return each.setting.name == name; });
  return found == all.end() ? nullptr : &*found;
}

struct OptionRule {
  std::vector<std::string> options;
  bool used;
  std::string belong_to;
};

// Settings of methods: each is an option.
std::vector<OptionRule> rules_of_settings(const SimulateCommand& c, bool any) {
  std::vector<OptionRule> rules;
  const std::vector<NamedSetting> own =
      any ? dist::simulated_settings(c.options.method, c.options.settings)
          : std::vector<NamedSetting>();
  for (const auto& [setting, value] : c.of_methods) {
    const NamedSetting* const here = find_setting(own, setting.name);
    const auto with = methods_with([&, &name = setting.name](const std::string& method) {
      return !dist::method_traits(method).controls == (name.find('.') == name.npos) &&
             find_setting(dist::simulated_settings(method), name);
    });
    rules.push_back({{simulate_option(setting.name)},
                     here && here->setting.used,
                     (with.size() == 1 ? "method " : "") + listed(with) +
                         (here && !here->setting.used ? " with " + here->setting.used_with : "")});
  }
  return rules;
}

// An option without effect is probably a mistake, so it is an error.
void check_given(const SimulateCommand& c) {
  const bool trains = c.mode == "quadratic" || c.mode == "logreg", timeline = c.mode == "timeline",
             exchanges = c.mode == "exchanges";
  const bool ideal = dist::is_ideal(c.options.pairing);
  const std::vector<std::string> known = dist::simulated_methods();
  if (std::ranges::find(known, c.options.method) == known.end()) return;  // said later
  const dist::MethodRow& row = dist::method_row(c.options.method);
  const bool synchronous = row.traits.synchronous;
  const std::string gossip = listed(methods_with(
                        [](const std::string&m) { return !dist::method_traits(m).synchronous; })),
                    accelerated = listed(methods_with([](const std::string&m) {
                      const dist::MethodRow& each = dist::method_row(m);
                      return !each.traits.synchronous && each.gossip.accelerated;
                    }));
  std::vector<OptionRule> rules{
      {{"--graphs", "--sizes"}, exchanges, "mode exchanges; others take --graph and --workers"},
      {{"--graph", "--workers", "--method", "--time", "--seed"},
       !exchanges,
       "the other modes; exchanges compares methods by --graphs and --sizes"},
      {{"--events"}, !exchanges && !synchronous, gossip},
      {{"--from", "--dims"}, !exchanges && !timeline, "consensus, quadratic and logreg"},
      {{"--seeds"}, !timeline, "the other modes; a time line shows one run, that of --seed"},
      {{"--learning-rate", "--momentum", "--heterogeneity", "--inject"},
       trains,
       "quadratic and logreg"},
      {{"--noise", "--curvature", "--condition"}, c.mode == "quadratic", "quadratic"},
      {{"--samples", "--batch"}, c.mode == "logreg", "logreg"},
      {{"--pairing", "--rate", "--rate-is-limit"},
       !exchanges && !synchronous,
       "methods whose workers meet in pairs: " + gossip},
      {{"--eta-scale"},
       !exchanges && !timeline && !synchronous && row.gossip.accelerated,
       "consensus, quadratic and logreg of " + accelerated},
      {{"--realised-rate"}, !exchanges && !synchronous && ideal, gossip + " with pairing poisson"},
      {{"--staleness"},
       !exchanges && row.gossip.published_order,
       "method " + listed(methods_with([](const std::string& m) {
         return dist::method_row(m).gossip.published_order;
       }))},
      {{"--rounds"},
       !exchanges && (synchronous || c.options.pairing == "matching"),
       "synchronous methods and to pairing matching"},
      {{"--compute-s", "--compute", "--slow", "--latency-s", "--bandwidth", "--bytes", "--link",
        "--node-size", "--node-bandwidth", "--node-latency-s", "--flow-bandwidth"},
       timeline || (!exchanges && !synchronous && !ideal),
       "mode timeline and to pairings with latencies: handshake, schedule, rounds"},
      {{"--equal-weight"}, trains && !ideal, "quadratic and logreg with latencies"},
      {{"--buckets"},
       timeline && row.traits.sums_gradients,
       "timeline with method " + listed(methods_with([](const std::string& m) {
         return dist::method_traits(m).sums_gradients;
       }))}};
  std::ranges::move(rules_of_settings(c, !exchanges), std::back_inserter(rules));
  for (const OptionRule& rule : rules)
    for (const std::string& option : rule.options)
      check<ConfigError>(rule.used || std::ranges::find(c.given, option) == c.given.end(),
                         "simulate ", c.mode, ": ", option, " would have no effect; it belongs to ",
                         rule.belong_to);
}

template <class T>
void add(JsonObject& out, const char* name, const T& value) {
  out.add(name, value);
}
template <class T>
void add(JsonObject& out, const char* name, const std::optional<T>& value) {
  if (value) out.add(name, *value);
}

JsonObject head(const SimulateCommand& c, const dist::SimulationPlan& plan, int seeds) {
  const dist::SimulationOptions& o = plan.options;
  JsonObject out;
  out.add("mode", c.mode).add("graph", o.graph).add("workers", o.workers).add("method", o.method);
  if (plan.rounds) out.add("rounds", plan.rounds->name());
  if (!plan.formula)
    out.add("pairing", o.pairing).add("rate", o.rate).add("rate_is_limit", o.rate_is_limit);
  if (plan.traits().controls)
    for (const auto& [setting, value] : dist::simulated_settings(o.method, o.settings)) {
      std::string name = setting.name;
      std::ranges::replace(name, '.', '_');
      if (setting.used && name != setting.name)
        std::visit([&](const auto& v) { add(out, name.c_str(), v); }, value);
    }
  return out.add("dims", o.dims).add("seed", o.seed).add("seeds", seeds), out;
}

std::string title(const dist::SimulationPlan& plan, int seeds) {
  const dist::SimulationOptions& o = plan.options;
  const std::string rounds = plan.rounds ? "rounds " + plan.rounds->name() : "";
  const std::string method = plan.traits().controls
                                 ? o.method + " of " + dist::stepping_method(o.method, o.settings)
                                 : o.method;
  const std::string pairing = fmt::format("pairing {} at rate {}{}", o.pairing, o.rate,
                                          rounds.empty() ? "" : ", " + rounds);
  const std::string& how = plan.formula ? rounds : pairing;
  return fmt::format("{} workers, graph {}, method {}, {}, {} seed{}", o.workers, o.graph, method,
                     how, seeds, seeds == 1 ? "" : "s");
}

// whether its workers meet in pairs, and exchanges take time
bool meets(const dist::SimulationPlan& plan) {
  return !plan.formula && !dist::is_ideal(plan.options.pairing);
}

// A NaN has no meaning, so it is printed without its sign.
double unsigned_nan(double v) { return std::isnan(v) ? std::abs(v) : v; }

// A value over time, with a bar on a logarithmic scale.
void print_over_time(const std::vector<double>& time, const std::vector<double>& value,
                     const char* name) {
  double low = INFINITY, high = 0;
  for (const double v : value)
    if (v > 0) low = std::min(low, v), high = std::max(high, v);
  fmt::print("  {:>10}  {}\n", "time", name);
  const std::size_t rows = std::min<std::size_t>(kRows, value.size());
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t k = rows > 1 ? r * (value.size() - 1) / (rows - 1) : 0;
    const double part =
        value[k] > 0 && high > low ? std::log(value[k] / low) / std::log(high / low) : 0;
    fmt::print("  {:>10.6g}  {:<10.3g} {:#<{}}\n", time[k], unsigned_nan(value[k]), "",
               static_cast<int>(std::lround(part * kBar)));
  }
}

int print_line(const std::string& text) {
  fmt::print("{}\n", text);
  return 0;
}

int consensus(const SimulateCommand& c, const dist::SimulationPlan& plan) {
  const auto r = dist::simulate_consensus(plan, c.time, c.seeds, c.from);
  if (!c.events.empty()) write_events(c.events, head(c, plan, 1), plan, nullptr, r.time.back());
  JsonObject out = head(c, plan, r.seeds);
  if (c.json || !c.html.empty()) {
    out.add("decay_rate", r.decay_rate)
        .add("decay_error", r.decay_error)
        .add("typical_rate", r.typical_rate)
        .add("fit_from", r.fit_from)
        .add("fit_to", r.fit_to)
        .add("exchanges", r.exchanges);
    if (meets(plan))
      out.add("exchanges_per_gradient", r.per_gradient).add("repeated_partners", r.repeated);
    out.add("decay_rate_exact", r.exact.value_or(NAN));
    if (!plan.formula) {
      const dist::GraphConstants& k = plan.constants;
      out.add("chi1", k.chi1)
          .add("chi2", k.chi2)
          .add("eta", k.eta)
          .add("alpha_tilde", k.alpha_tilde);
    }
    out.add("time", r.time).add("distance", r.distance);
  }
  if (!c.html.empty())
    write_result_page(c.html, "Simulation: " + title(plan, r.seeds), consensus_pictures(r),
                      out.str());
  if (c.json) return print_line(out.str());
  fmt::print("{}\n", title(plan, r.seeds));
  print_over_time(r.time, r.distance, "(x - mean)^2");
  if (std::isfinite(r.decay_rate)) {
    const std::string error =
        std::isfinite(r.decay_error) ? fmt::format(" +- {:.2g}", r.decay_error) : "";
    fmt::print("  decays at {:.4g}{} per mean gradient duration (fitted from {:.4g} to {:.4g})\n",
               r.decay_rate, error, r.fit_from, r.fit_to);
  } else {
    fmt::print("  no rate could be fitted: {}\n",
               std::isfinite(r.distance.back())
                   ? "the distance falls to rounding errors too soon"
                   : "the distance grows beyond the largest number; a shorter --time shows it");
  }
  if (std::isfinite(r.typical_rate) && r.seeds > 2)
    fmt::print("  a typical run (the median) decays at {:.4g}\n", r.typical_rate);
  if (r.exact)
    fmt::print("  the mean of all possible runs, in the long run, exactly: {:.4g}\n", *r.exact);
  if (meets(plan)) {
    fmt::print("  {:.3g} exchanges per gradient, {:.0f} % with the partner of the time before\n",
               r.per_gradient, 100 * r.repeated);
    const double done = 2 * r.exchanges;  // counted by both
    if (done > 0 && !dist::rate_reached(plan.options.rate, done, done / r.per_gradient))
      fmt::print("  {}\n", rate_warning(r.per_gradient, plan.options.rate, r.repeated));
  }
  return 0;
}

void print_control(const dist::TrainingResult& r) {
  const dist::ControlTally& t = r.control->tally;
  print_over_time(r.time, r.control->xi, "Xi, the root of mean |x_i - mean|^2");
  const auto each = [&](i64 count) { return static_cast<double>(count) / r.seeds; };
  if (t.steps > 0)
    fmt::print(
        "  {:.6g} steps had a target, {:.4g} at the end. Xi was {:.3f} of it on average, from "
        "{:.3f} to {:.3f}, and within 20 % of it in {:.1f} % of the steps\n",
        each(t.steps), r.control->target.back(), t.ratio(), t.least, t.most,
        100 * static_cast<double>(t.near) / static_cast<double>(t.steps));
  fmt::print(
      "  control took {:.6g} rounds of gossip, {:.6g} exact averages and {:.6g} measurements of 8 "
      "KB: {:.4g} of {:.4g} exchanges\n",
      each(t.gossip), each(t.exact_averages), each(t.measurements), r.control->exchanges,
      r.exchanges);
}

int training(const SimulateCommand& c, const dist::SimulationPlan& plan,
             const dist::Problem& problem) {
  const auto r = dist::simulate_training(plan, problem, c.time > 0 ? c.time : 500,
                                         c.seeds > 0 ? c.seeds : 4, c.from);
  if (!c.events.empty()) write_events(c.events, head(c, plan, 1), plan, &problem, r.time.back());
  JsonObject out = head(c, plan, r.seeds);
  if (c.json || !c.html.empty()) {
    out.add("learning_rate", plan.options.learning_rate).add("momentum", plan.options.momentum);
    out.add("heterogeneity", c.quadratic.heterogeneity);
    out.add("final_loss", r.final_loss)
        .add("stationary_loss", r.stationary_loss)
        .add("stationary_distance", r.stationary_distance);
    out.add("stationary_from", r.stationary_from)
        .add("gradients", r.gradients)
        .add("exchanges", r.exchanges);
    if (r.control) {
      add_control(out, r.control->tally, r.seeds);
      out.add("control_exchanges", r.control->exchanges)
          .add("xi", r.control->xi)
          .add("target", r.control->target);
    }
    out.add("time", r.time).add("loss", r.loss).add("distance", r.distance);
  }
  if (!c.html.empty())
    write_result_page(c.html, "Simulation: " + title(plan, r.seeds), training_pictures(r),
                      out.str());
  if (c.json) return print_line(out.str());
  fmt::print("{}\n", title(plan, r.seeds));
  // Without curvature no model has a loss.
  if (c.mode == "quadratic" && c.quadratic.curvature == 0)
    print_over_time(r.time, r.distance, "(x - mean)^2");
  else
    print_over_time(r.time, r.loss, "loss of the mean model, above the minimum");
  fmt::print(
      "  mean from time {:.4g} on: loss {:.4g}, (x - mean)^2 {:.4g}; in all {:.3g} gradients, "
      "{:.3g} exchanges\n",
      r.stationary_from, unsigned_nan(r.stationary_loss), unsigned_nan(r.stationary_distance),
      r.gradients, r.exchanges);
  if (r.control) print_control(r);
  return 0;
}

int timeline(const SimulateCommand& c, const dist::SimulationPlan& plan) {
  const double time = c.time > 0 ? c.time : 500;
  const auto r = dist::simulate_timeline(plan, time * plan.options.machines.compute_s);
  if (!c.events.empty()) write_events(c.events, head(c, plan, 1), plan, nullptr, time);
  JsonObject out = head(c, plan, 1);
  if (c.json || !c.html.empty()) {
    std::vector<double> steps, computing, waiting, exposed, exchanges;
    for (const auto& w : r.workers) {
      steps.push_back(w.steps_per_s), computing.push_back(w.computing),
          waiting.push_back(w.waiting), exposed.push_back(w.exposed);
      exchanges.push_back(w.exchanges_per_step);
    }
    out.add("seconds", r.seconds)
        .add("steps_per_s", r.steps_per_s)
        .add("perfect_steps_per_s", r.perfect_steps_per_s);
    out.add("efficiency", r.efficiency)
        .add("worker_steps_per_s", steps)
        .add("computing", computing)
        .add("waiting", waiting);
    out.add("exposed", exposed).add("exchanges_per_step", exchanges);
  }
  if (!c.html.empty())
    write_result_page(c.html, "Simulation: " + title(plan, 1), timeline_pictures(r), out.str());
  if (c.json) return print_line(out.str());
  fmt::print("{}\n  worker   steps/s  computing   waiting   exposed\n", title(plan, 1));
  for (std::size_t i = 0; i < r.workers.size(); ++i) {
    if (r.workers.size() > 16 && i == kRows) {
      fmt::print("  ... and {} more (--json has all)\n", r.workers.size() - i);
      break;
    }
    const auto& w = r.workers[i];
    fmt::print("  {:>6}  {:>8.3f}  {:>8.1f}%  {:>7.1f}%  {:>7.1f}%\n", i, w.steps_per_s,
               100 * w.computing, 100 * w.waiting, 100 * w.exposed);
  }
  fmt::print("  all     {:>8.3f} steps/s of {:.3f} if no worker ever waited: efficiency {:.3f}\n",
             r.steps_per_s, r.perfect_steps_per_s, r.efficiency);
  return 0;
}

int exchanges(const SimulateCommand& c) {
  std::vector<JsonObject> rows, powers;
  std::vector<dist::ExchangeCount> all;
  if (!c.json)
    fmt::print(
        "exchanges until |x - mean| is 1e-6 of what it was\n  graph     workers  synchronous  "
        "accelerated       A2CiD2   time of A2CiD2\n");
  for (const std::string& graph : c.graphs) {
    std::vector<double> n, synchronous, accelerated, a2cid2;
    for (const int size : c.sizes) {
      const auto r = dist::count_exchanges(
          graph, size, c.seeds > 0 ? c.seeds : std::max(8, 4096 / std::max(1, size)));
      all.push_back(r);
      n.push_back(size), synchronous.push_back(r.synchronous), accelerated.push_back(r.accelerated),
          a2cid2.push_back(r.a2cid2);
      rows.emplace_back()
          .add("graph", graph)
          .add("workers", size)
          .add("synchronous", r.synchronous)
          .add("accelerated", r.accelerated)
          .add("a2cid2", r.a2cid2)
          .add("rounds", r.rounds)
          .add("accelerated_rounds", r.accelerated_rounds)
          .add("time", r.time)
          .add("time_limited", r.time_limited);
      if (c.json) continue;
      fmt::print("  {:<9} {:>7}  {:>11.4g}  {:>11.4g}  {:>11.4g}   {:.4g}{}\n", graph, size,
                 r.synchronous, r.accelerated, r.a2cid2, r.time,
                 r.time_limited > 1.01 * r.time
                     ? fmt::format(" ({:.4g} if no worker does more than one a unit of time)",
                                   r.time_limited)
                     : "");
      std::fflush(stdout);
    }
    if (c.sizes.size() < 2) continue;
    const double s = dist::fitted_power(n, synchronous), a = dist::fitted_power(n, accelerated),
                 x = dist::fitted_power(n, a2cid2);
    JsonObject& power = powers.emplace_back();
    power.add("graph", graph).add("synchronous", s).add("accelerated", a).add("a2cid2", x);
    if (!c.json) fmt::print("  {:<9}  ~ n^    {:>11.2f}  {:>11.2f}  {:>11.2f}\n", graph, s, a, x);
  }
  if (!c.html.empty())
    write_result_page(c.html, "Exchanges until |x - mean| is a millionth of what it was",
                      exchange_pictures(all), R"({"mode": "exchanges"})");
  if (c.json)
    fmt::print("{}\n",
               JsonObject().add("mode", "exchanges").add("rows", rows).add("powers", powers).str());
  return 0;
}

}  // namespace

std::string simulate_option(const std::string& setting) {
  std::string name = "--" + setting;
  std::ranges::replace(name, '.', '-');
  std::ranges::replace(name, '_', '-');
  return name;
}

int simulate(const SimulateCommand& given) {
  SimulateCommand c = given;
  const std::vector<std::string> modes = {"consensus", "quadratic", "logreg", "timeline",
                                          "exchanges"};
  check<ConfigError>(std::ranges::find(modes, c.mode) != modes.end(), "simulate ", c.mode,
                     ": known modes are consensus, quadratic, logreg, timeline, exchanges");
  const auto left_out = [&](const char* name) {
    return std::ranges::find(c.given, name) == c.given.end();
  };
  for (const auto& [setting, value] : c.of_methods)
    if (!left_out(simulate_option(setting.name).c_str()))
      c.options.settings.set(setting.name, value);
  // In a time line everything takes time, so its workers pair by a handshake, as in a training run,
  // unless another pairing is given.
  if (c.mode == "timeline" && left_out("--pairing")) c.options.pairing = "handshake";
  check_given(c);
  if (c.mode == "timeline") c.options.dims = 1;
  if (!c.compute.empty()) c.options.machines.compute = dist::make_spread(c.compute);
  if (!c.link.empty()) c.options.machines.link = dist::make_spread(c.link);
  for (const std::string& each : c.slow)
    read_slow("simulate", each, c.options.workers, c.options.machines.slow);
  check<ConfigError>((c.seeds > 0 || left_out("--seeds")) &&
                         ((c.time > 0 && std::isfinite(c.time)) || left_out("--time")),
                     "simulate: --seeds ", c.seeds, ", --time ", c.time,
                     "; they must be above 0, finite, or left out");
  check<ConfigError>(c.from >= 0 || left_out("--from"), "simulate: --from ", c.from,
                     "; it must be 0 or more, or left out");
  if (c.mode == "exchanges") return exchanges(c);
  c.options.learning_rate = c.learning_rate.value_or(c.mode == "logreg" ? .5 : .05);
  const dist::SimulationPlan plan = dist::plan_simulation(c.options);
  if (!c.events.empty()) check_events(plan);
  if (c.mode == "consensus") return consensus(c, plan);
  if (c.mode == "timeline") return timeline(c, plan);
  c.quadratic.dims = c.logreg.dims = c.options.dims;
  c.quadratic.seed = c.logreg.seed = c.options.seed;
  c.logreg.heterogeneity = c.quadratic.heterogeneity;
  for (const dist::Injection& each : dist::parse_injections(plan.options.inject))
    if (!each.lies()) c.logreg.wrong_labels.push_back(each.rank);
  check<ConfigError>(c.mode == "logreg" || c.logreg.wrong_labels.empty(), "simulate ", c.mode,
                     ": label-flip would have no effect; logreg has labels");
  if (c.mode == "quadratic")
    return training(c, plan, *dist::make_quadratic(c.options.workers, c.quadratic));
  return training(c, plan, *dist::make_logistic(c.options.workers, c.logreg));
}

}  // namespace gossamer::apps
