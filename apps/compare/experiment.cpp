// See experiment.h.
#include "gossamer/apps/compare/experiment.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <numeric>

#include "gossamer/apps/report/run_record.h"
#include "gossamer/apps/toml_text.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/core/text/shortest.h"

namespace gossamer::apps {
namespace {

using Settings = SettingTexts;

constexpr int kMostWorkers = 4096, kMostSeeds = 1000;

// A folder is named after it.
bool is_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '_' || c == '.';
  });
}

class Reader {
 public:
  Reader(const TomlText& toml, const std::string& file) : toml_(toml), file_(file) {}

  std::string text(const char* key) {
    const toml::node* const n = find(key);
    const auto v = n ? n->value_exact<std::string>() : std::nullopt;
    if (n && !v) wrong(*n, key, "a text in quotes");
    return v.value_or("");
  }
  int whole(const char* key, int otherwise, int least, int most) {
    const toml::node* const n = find(key);
    if (!n) return otherwise;
    const auto v = n->value_exact<std::int64_t>();
    if (!v || *v < least || *v > most)
      wrong(*n, key,
            "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    return static_cast<int>(*v);
  }
  template <class T>
  std::vector<T> list(const char* key, const char* wanted) {
    std::vector<T> out;
    const toml::node* const n = find(key);
    if (!n) return out;
    const toml::array* const all = n->as_array();
    if (!all) wrong(*n, key, wanted);
    for (const toml::node& each : *all) {
      const auto v = each.value<T>();
      if (!v) wrong(*n, key, wanted);
      out.push_back(*v);
    }
    return out;
  }
  Settings settings(const char* key) {
    const toml::node* const n = find(key);
    return n ? settings_of(*n, key) : Settings();
  }
  std::vector<Variant> axis(const char* key) {
    std::vector<Variant> out;
    const toml::node* const n = find(key);
    if (!n) return {{"", {}}};  // one value without a name
    const toml::table* const all = n->as_table();
    if (!all || all->empty())
      wrong(*n, key, std::string("tables, one for each: [") + key + ".NAME]");
    std::vector<toml::source_position> places;
    for (const auto& [name, value] : *all) {
      const std::string of = toml_.original(name.str());
      if (!is_name(of))
        wrong(value, std::string(key) + "." + of, "a name of letters, digits, '-', '_' and '.'");
      // as the file has them, not by the alphabet as in the table
      const toml::source_position begin = value.source().begin;
      const auto at = std::ranges::upper_bound(places, begin) - places.begin();
      places.insert(places.begin() + at, begin);
      out.insert(out.begin() + at, {of, settings_of(value, std::string(key) + "." + of)});
    }
    return out;
  }
  // ConfigError for a key that nothing has asked for.
  void end() const {
    for (const auto& [key, value] : toml_.table())
      check<ConfigError>(std::ranges::find(asked_, key.str()) != asked_.end(),
                         toml_.place(value.source()), ": unknown key \"", toml_.original(key.str()),
                         "\"; known are ", listed(asked_));
  }
  [[noreturn]] void wrong(const toml::node& n, const std::string& key,
                          const std::string& wanted) const {
    fail<ConfigError>(toml_.place(n.source()), ": ", key, " wants ", wanted);
  }
  [[noreturn]] void fail_file(const std::string& why) const { fail<ConfigError>(file_, ": ", why); }

 private:
  const toml::node* find(const char* key) {
    asked_.emplace_back(key);
    return toml_.table().get(key);
  }
  std::string value(const toml::node& n, const std::string& key) const {
    if (const auto v = n.value_exact<std::string>()) return *v;
    if (const auto v = n.value_exact<std::int64_t>()) return std::to_string(*v);
    if (const auto v = n.value_exact<double>()) return shortest(*v);
    if (const auto v = n.value_exact<bool>()) return *v ? "true" : "false";
    const toml::array* const all = n.as_array();
    if (!all) wrong(n, key, "a value: a text, a number, true, false, or a list of these");
    std::string out;
    for (const toml::node& each : *all) out += (out.empty() ? "" : ",") + value(each, key);
    return out;
  }
  Settings settings_of(const toml::node& n, const std::string& key) const {
    const toml::table* const all = n.as_table();
    if (!all) wrong(n, key, "a table of settings");
    Settings out;
    collect(*all, "", key, out);
    return out;
  }
  // "train.method" may be written with a dot or as a table.
  void collect(const toml::table& all, const std::string& before, const std::string& of,
               Settings& out) const {
    for (const auto& [name, node] : all) {
      const std::string key = before + toml_.original(name.str());
      if (const toml::table* const inner = node.as_table())
        collect(*inner, key + ".", of, out);
      else
        out.emplace_back(key, value(node, of + "." + key));
    }
  }

  const TomlText& toml_;
  const std::string file_;
  std::vector<std::string> asked_;
};

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// Of `simulate` a setting is an option: "equal_weight" is --equal-weight.
std::string argument(bool trains, const std::string& key, const std::string& value) {
  if (trains) return key + "=" + value;
  std::string name = "--" + key;
  std::ranges::replace(name, '_', '-');
  std::ranges::replace(name, '.', '-');
  return name + "=" + value;
}

// Student's t: 97.5 % of values are below.
double student(std::size_t degrees) {
  constexpr std::array<double, 30> kTable = {
      12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281,
      2.2010,  2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860,
      2.0796,  2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423};
  if (degrees <= kTable.size()) return kTable[degrees - 1];
  // the next terms of its series are below 1e-4 from here on
  const double z = 1.959964, n = static_cast<double>(degrees);
  return z + (z * z * z + z) / (4 * n) +
         (5 * std::pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * n * n);
}

}  // namespace

Experiment parse_experiment(const std::string& text, const std::string& file) {
  const TomlText toml(text, file);
  Reader read(toml, file);
  Experiment e;
  e.name = std::filesystem::path(file).stem().string();
  e.about = read.text("about");
  e.command = words_of(read.text("command"));
  e.workers = read.whole("workers", 0, 1, kMostWorkers);
  e.seeds = read.whole("seeds", e.seeds, 1, kMostSeeds);
  e.measure = read.text("measure");
  const std::string better = read.text("better");
  e.also = read.list<std::string>("also", "a list of texts");
  e.baseline = read.text("baseline");
  e.learning_rates = read.list<double>("learning_rates", "a list of numbers");
  e.common = read.settings("common");
  e.methods = read.axis("methods");
  e.graphs = read.axis("graphs");
  e.data = read.axis("data");
  read.end();
  if (!is_name(e.name)) read.fail_file("its name makes no folder: letters, digits, '-', '_', '.'");
  const bool simulates = e.command.size() == 2 && e.command[0] == "simulate" &&
                         (e.command[1] == "quadratic" || e.command[1] == "logreg");
  if (!simulates && e.command != std::vector<std::string>{"train"})
    read.fail_file(R"(command must be "simulate quadratic", "simulate logreg" or "train")");
  if (e.workers == 0) read.fail_file("workers is missing: how many train together");
  if (e.measure.empty()) read.fail_file("measure is missing: which number is compared");
  if (better != "less" && better != "more")
    read.fail_file(R"(better must be "less" or "more": which value of measure is better)");
  e.more_is_better = better == "more";
  if (std::ranges::find(e.methods, e.baseline, &Variant::name) == e.methods.end())
    read.fail_file("baseline must be one of " + listed(e.methods, ", ", &Variant::name));
  for (const double rate : e.learning_rates)
    if (!(rate > 0 && std::isfinite(rate))) read.fail_file("learning_rates must be above 0");
  if (!std::ranges::is_sorted(e.learning_rates)) read.fail_file("learning_rates must ascend");
  return e;
}

Experiment read_experiment(const std::string& file) {
  const auto text = TomlText::of_file(file);
  check<IoError>(text.has_value(), file,
                 ": can't be read; an experiment is a TOML file, such as those in apps/compare");
  return parse_experiment(*text, file);
}

std::string name_of(const Experiment& e, const ComparedRun& run) {
  std::string out;
  for (const std::string& part :
       {e.data[run.data].name, e.graphs[run.graph].name, e.methods[run.method].name,
        run.learning_rate ? shortest(*run.learning_rate) : "", std::to_string(run.seed)})
    if (!part.empty()) out += (out.empty() ? "" : "-") + part;
  return out;
}

// What is more special comes later. `train` takes the last value of a key; `simulate` takes an
// option once, so here too the last one counts.
std::vector<std::string> arguments_of(const Experiment& e, const ComparedRun& run) {
  Settings all;
  const auto set = [&](const std::string& key, const std::string& value) {
    const auto known = std::ranges::find(all, key, &Settings::value_type::first);
    known == all.end() ? (void)all.emplace_back(key, value) : (void)(known->second = value);
  };
  for (const Settings& each : {e.common, e.data[run.data].settings, e.graphs[run.graph].settings,
                               e.methods[run.method].settings})
    for (const auto& [key, value] : each) set(key, value);
  const bool trains = e.trains();
  if (run.learning_rate)
    set(trains ? "optim.learning_rate" : "learning_rate", shortest(*run.learning_rate));
  set(trains ? "train.seed" : "seed", std::to_string(run.seed));
  std::vector<std::string> out = e.command;
  if (trains) out.emplace_back(kPatient);  // what the experiment says comes later, and wins
  for (const auto& [key, value] : all) out.push_back(argument(trains, key, value));
  out.push_back("--workers=" + std::to_string(e.workers));
  if (!trains) out.emplace_back("--seeds=1");
  return out;
}

Interval interval_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  if (values.empty()) return {};
  const double mean = std::accumulate(values.begin(), values.end(), 0.) / n;
  double squares = 0;
  for (const double each : values) squares += (each - mean) * (each - mean);
  if (values.size() < 2) return {mean, NAN};
  return {mean, student(values.size() - 1) * std::sqrt(squares / (n - 1) / n)};
}

void compare_rows(const Experiment& e, std::vector<ComparedRow>& rows) {
  for (ComparedRow& row : rows) {
    row.all = interval_of(row.values);
    const auto base = std::ranges::find_if(rows, [&](const ComparedRow& other) {
      return other.data == row.data && other.graph == row.graph &&
             e.methods[other.method].name == e.baseline;
    });
    if (base == rows.end() || base->method == row.method) continue;
    std::vector<double> differences;
    for (std::size_t seed = 0; seed < row.values.size(); ++seed)
      differences.push_back(row.values[seed] - base->values[seed]);
    row.against = interval_of(differences);
  }
}

std::optional<std::size_t> best_of(const std::vector<double>& values, bool more_is_better) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (std::isfinite(values[i]) &&
        (!best || (more_is_better ? values[i] > values[*best] : values[i] < values[*best])))
      best = i;
  return best;
}

}  // namespace gossamer::apps
