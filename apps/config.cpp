// Reads and writes Config.
#include "gossamer/apps/config.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <type_traits>

#include "gossamer/apps/config_keys.h"
#include "gossamer/apps/toml_text.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/core/text/spelling.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/text/pair_loader.h"

namespace gossamer::apps {
namespace {

// True: it is a key of an older version, and a note now says that it has no effect.
bool noted_as_retired(Config& config, const std::string& where, const std::string& key) {
  const auto* const retired = std::ranges::find(kRetiredKeys, key, &RetiredKey::key);
  if (retired == std::end(kRetiredKeys)) return false;
  config.notes.push_back(where + ": " + key +
                         " no longer has an effect: " + std::string(retired->why));
  return true;
}

// --- what a field takes, for messages
std::string type_of(const std::string&) { return "a string"; }
std::string type_of(bool) { return "true or false"; }
std::string type_of(i64) { return "a whole number"; }
std::string type_of(double) { return "a number"; }
std::string amount_of(const std::string& key) {
  return std::string("a number or ") + (takes_time(key) ? kAmountOrTimeForms : kAmountForms);
}
template <class T>
std::string type_of(const std::optional<T>&) {
  return type_of(T()) + " or \"auto\"";
}
std::string type_of(const std::vector<Amount>&) { return "a list of numbers or amounts"; }
template <class T>
std::string type_of(const std::vector<T>&) {
  return "a list of " + type_of(T()).substr(2) + "s";
}

[[noreturn]] void wrong_type(const std::string& where, const std::string& key,
                             const std::string& wanted, const std::string& given) {
  fail<ConfigError>(where, ": ", key, " wants ", wanted, ", not ", given);
}

// --- from TOML values
std::string type_text(const toml::node& node) {
  std::ostringstream out;
  out << "the " << node.type();
  if (!node.is_table() && !node.is_array()) out << " " << toml::node_view<const toml::node>(node);
  return out.str();
}
void read(const toml::node& n, const std::string& where, const std::string& key, std::string& out) {
  if (const auto v = n.value_exact<std::string>())
    out = from_text(*v);
  else
    wrong_type(where, key, type_of(out), type_text(n));
}
void read(const toml::node& n, const std::string& where, const std::string& key, bool& out) {
  if (const auto v = n.value_exact<bool>())
    out = *v;
  else
    wrong_type(where, key, type_of(out), type_text(n));
}
void read(const toml::node& n, const std::string& where, const std::string& key, i64& out) {
  if (const auto v = n.value_exact<std::int64_t>())
    out = *v;
  else
    wrong_type(where, key, type_of(out), type_text(n));
}
void read(const toml::node& n, const std::string& where, const std::string& key, double& out) {
  if (const auto v = n.value_exact<double>())
    out = *v;
  else if (const auto whole = n.value_exact<std::int64_t>())
    out = static_cast<double>(*whole);
  else
    wrong_type(where, key, type_of(out), type_text(n));
}
void read(const toml::node& n, const std::string& where, const std::string& key, Amount& out) {
  if (n.is_number())
    out = {*n.value<double>()};
  else if (const auto text = n.value_exact<std::string>(); !text || !parse_amount(*text, out))
    wrong_type(where, key, amount_of(key), type_text(n));
}
template <class T>
void read(const toml::node& n, const std::string& where, const std::string& key,
          std::optional<T>& out) {
  if (n.value_exact<std::string>() == "auto")
    out.reset();
  else if (!n.is_number() || (std::is_same_v<T, i64> && !n.is_integer()))
    wrong_type(where, key, type_of(out), type_text(n));
  else
    out = *n.value<T>();
}
template <class T>
void read(const toml::node& n, const std::string& where, const std::string& key,
          std::vector<T>& out) {
  std::vector<T> values;
  if (const toml::array* list = n.as_array()) {
    for (const toml::node& item : *list) read(item, where, key, values.emplace_back());
  } else {
    read(n, where, key, values.emplace_back());  // one value is a list of one
  }
  out = std::move(values);
}

// --- from the text of key=value
void parse(const std::string& text, const std::string&, std::string& out) { out = text; }
void parse(const std::string& text, const std::string& key, bool& out) {
  if (text != "true" && text != "false")
    wrong_type("command line", key, type_of(out), "\"" + text + "\"");
  out = text == "true";
}
template <class T>
void parse_number(const std::string& text, const std::string& key, T& out,
                  const std::string& wanted) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    wrong_type("command line", key, wanted + " that fits 64 bits", text);
  if (error != std::errc() || end != text.data() + text.size())
    wrong_type("command line", key, wanted, "\"" + text + "\"");
  out = value;
}
void parse(const std::string& text, const std::string& key, i64& out) {
  parse_number(text, key, out, type_of(out));
}
void parse(const std::string& text, const std::string& key, double& out) {
  parse_number(text, key, out, type_of(out));
}
void parse(const std::string& text, const std::string& key, Amount& out) {
  if (!parse_amount(text, out)) wrong_type("command line", key, amount_of(key), "\"" + text + "\"");
}
template <class T>
void parse(const std::string& text, const std::string& key, std::optional<T>& out) {
  out.reset();
  if (text != "auto") parse_number(text, key, out.emplace(), type_of(out));
}
// a,b,c or TOML's ["a", "b", "c"].
template <class T>
void parse(const std::string& text, const std::string& key, std::vector<T>& out) {
  std::vector<T> values;
  try {
    if (text.starts_with('[')) {
      const TomlText toml("list = " + gossamer::to_text(text), "command line");
      check<ConfigError>(toml.table().size() == 1, "more follows the list");
      read(*toml.table().get("list"), "command line", key, values);
    } else {
      std::istringstream in(text);
      for (std::string item; std::getline(in, item, ',');) parse(item, key, values.emplace_back());
    }
  } catch (const std::runtime_error&) {  // also of an item
    const bool texts = std::is_same_v<T, std::string>;
    wrong_type("command line", key,
               type_of(out) + (texts ? R"(, a,b,c or, in quotes, '["a", "b", "c"]')"
                                     : ", 1,2,3 or '[1, 2, 3]'"),
               "\"" + text + "\"");
  }
  out = std::move(values);
}

// --- to TOML
// TOML escapes basic strings as JSON does. Bytes that are no UTF-8 (in the name of a file) are
// kept: see to_text().
std::string text_of(const std::string& v) { return json_text(gossamer::to_text(v)); }
std::string text_of(bool v) { return v ? "true" : "false"; }
std::string text_of(i64 v) { return std::to_string(v); }
std::string text_of(double v) { return shortest(v); }
std::string text_of(const Amount& v) {
  return v.unit == Amount::Unit::plain ? to_text(v) : json_text(to_text(v));
}
template <class T>
std::string text_of(const std::optional<T>& v) {
  return v ? text_of(*v) : "\"auto\"";
}
template <class T>
std::string text_of(const std::vector<T>& v) {
  return "[" + listed(v, ", ", [](const T& each) { return text_of(each); }) + "]";
}

void read_table(const toml::table& table, const std::string& prefix, const TomlText& toml,
                Config& config) {
  for (const auto& [key, value] : table) {
    const toml::node& node = value;  // clang 14 does not let lambdas see what a binding names
    const std::string name = prefix + toml.original(key.str());
    const auto place = [&](const toml::source_region& region) { return toml.place(region); };
    if (node.is_table() && !node.as_table()->empty() && prefix.empty()) {
      read_table(*node.as_table(), name + ".", toml, config);
      continue;
    }
    bool known = node.is_table() && prefix.empty();  // an empty [section]
    each_key(config, [&](const Setting& candidate, auto& field) {
      if (name != candidate.name) return;
      known = true;
      read(node, place(node.source()), name, field);
      config.origin[name] = place(node.source());
    });
    if (!known && !noted_as_retired(config, place(key.source()), name))
      unknown_key(place(key.source()), name);
  }
}

}  // namespace

Config parse_config(const std::string& text, const std::string& file) {
  Config config;
  const TomlText toml(text, file);
  read_table(toml.table(), "", toml, config);
  return config;
}

void set_key(Config& config, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string key = assignment.substr(0, equals),
                    text = equals == std::string::npos ? "" : assignment.substr(equals + 1);
  check<ConfigError>(
      equals != std::string::npos && equals > 0, "command line: \"", assignment,
      "\" is neither a .toml file nor key=value, e.g. train.batch=64; `gossamer config` "
      "lists the keys. A value with spaces needs quotes: 'model.freeze=all but fc'");
  bool known = false;
  each_key(config, [&](const Setting& candidate, auto& field) {
    if (key != candidate.name) return;
    known = true;
    parse(text, key, field);
    config.origin[key] = "command line";
  });
  if (!known && !noted_as_retired(config, "command line", key)) unknown_key("command line", key);
}

namespace {

bool has_setting(const std::string& method, const std::string& key) {
  const auto is_among = [&](const std::vector<NamedSetting>& all) {
    return std::ranges::any_of(
        all, [&](const NamedSetting& each) { return method_key(each.setting.name) == key; });
  };
  return is_among(settings_of(dist::GossipOptions())) ? !dist::method_traits(method).synchronous
                                                      : is_among(dist::method_settings(method));
}

// Settings that were given, and that only other methods have. In the config.toml of a run all have
// a value, most of them the usual one.
void note_settings_without_effect(Config& config) {
  const std::vector<std::string> methods = dist::method_names();
  const std::string& method = config.train.method;
  if (std::ranges::find(methods, method) == methods.end()) return;  // it is refused later
  const std::vector<KeyText> usual = key_texts(), now = key_texts(config);
  for (std::size_t i = 0; i < now.size(); ++i) {
    const std::string& key = now[i].name;
    const auto from = config.origin.find(key);
    if (from == config.origin.end() || now[i].value == usual[i].value || has_setting(method, key))
      continue;
    std::vector<std::string> those;
    std::ranges::copy_if(methods, std::back_inserter(those),
                         [&](const std::string& each) { return has_setting(each, key); });
    if (!those.empty())
      config.notes.push_back(from->second + ": " + key + " has no effect with train.method = " +
                             method + "; it is for " + listed(those));
  }
}

}  // namespace

Config load_config(const std::vector<std::string>& arguments) {
  Config config;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.find('=') == std::string::npos && has_ending(argument, {".toml"})) {
      check<ConfigError>(i == 0, "command line: ", argument,
                         " comes after other arguments; CONFIG.toml must be the first one");
      const auto text = TomlText::of_file(argument);
      check<ConfigError>(text.has_value(), argument, ": there is no such configuration file");
      config = parse_config(*text, argument);
    } else {
      set_key(config, argument);
    }
  }
  fit_to_task(config);
  note_settings_without_effect(config);
  return config;
}

bool takes_time(const std::string& key) { return key == "run.checkpoint_every"; }

void fit_to_task(Config& config) {
  if (config.task == "pictures") return;
  const std::vector<std::string> models = models::names(config.task);
  if (!config.origin.contains("model.name") && !models.empty()) config.model.name = models[0];
  if (!config.origin.contains("run.best_by")) config.run.best_by = "loss";
  if (!config.origin.contains("eval.every")) config.eval.every = {0};
  if (config.task == "translation" && !config.origin.contains("train.batch"))
    config.train.batch = data::PairLoaderOptions().tokens;
}

namespace {

// A comment of lines up to 100 characters.
std::string comment(const std::string& text) {
  std::string out, line = "#";
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (line.size() + 1 + word.size() > 100) out += line + "\n", line = "#";
    line += " " + word;
  }
  return out + line + "\n";
}

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }
std::string section_of(const std::string& key) {
  const std::size_t dot = key.find('.');
  return dot == std::string::npos ? "" : key.substr(0, dot);
}

std::string without_bars(std::string name) {
  std::erase(name, '_');
  return name;
}

}  // namespace

std::string to_toml(const Config& config, const std::string& only) {
  std::string out, section;
  for (const KeyText& key : key_texts(config)) {
    const std::string head = section_of(key.name);
    if (!only.empty() && head != only) continue;
    if (head != section) out += (section.empty() ? "[" : "\n[") + head + "]\n";
    section = head;
    out += comment(key.about) + last_part(key.name) + " = " + key.value + "\n";
  }
  return out;
}

std::vector<KeyText> key_texts(const Config& config) {
  std::vector<KeyText> out;
  each_key(config, [&](const Setting& key, const auto& field) {
    std::string type;
    if constexpr (std::is_same_v<std::decay_t<decltype(field)>, Amount>)
      type = amount_of(key.name);
    else
      type = type_of(field);
    const std::string range = key.range.wanted == Range().wanted ? "" : key.range.wanted;
    out.push_back({key.name, type, text_of(field), key.about, key.choices, range});
  });
  return out;
}

KeyText key_text(const std::string& key) {
  const std::vector<KeyText> all = key_texts();
  return all.at(std::ranges::find(all, key, &KeyText::name) - all.begin());
}

std::vector<std::pair<std::string, std::string>> common_values(const Config& config) {
  std::vector<std::pair<std::string, std::string>> out;
  each_key(config, [&](const Setting& key, const auto& field) {
    if (key.agree) out.emplace_back(key.name, text_of(field));
  });
  return out;
}

std::vector<std::string> nearest_keys(const std::string& wrong) {
  const std::string section = section_of(wrong), name = last_part(wrong);
  for (const OtherName& other : kOtherNames)
    if (without_bars(name) == without_bars(std::string(other.name)))
      return {std::string(other.key)};
  std::vector<std::string> best;
  std::size_t least = wrong.size() + 1;
  for (const KeyText& key : key_texts()) {
    const std::size_t edits = edit_distance(name, last_part(key.name));
    const std::string right = section_of(key.name);
    const std::size_t moved = section.empty() ? 0 : edit_distance(section, right);
    // A slip in the name, or the right name in another section.
    if (!is_slip(edits, name) || (!is_slip(moved, section) && edits > 0)) continue;
    const std::size_t all = edits + moved;
    if (all < least) best.clear();
    if (all <= least) best.push_back(key.name), least = all;
  }
  return best;
}

void unknown_key(const std::string& where, const std::string& key) {
  const std::vector<std::string> near = nearest_keys(key);
  fail<ConfigError>(where, ": unknown key \"", key, "\"",
                    near.empty() ? "; `gossamer config` lists all keys"
                                 : "; did you mean " + alternatives(near, "\"") + "?");
}

std::string value_text(const Config& config, const std::string& key) {
  std::string text;
  each_key(config, [&](const Setting& candidate, const auto& field) {
    if (candidate.name == key) text = text_of(field);
  });
  return text;
}

std::string method_key(const std::string& setting) {
  return setting.find('.') == setting.npos ? "train." + setting : setting;
}

std::vector<MethodKey> method_keys() {
  std::vector<MethodKey> keys;
  for (auto& [setting, value] : dist::method_settings()) {
    MethodKey key{setting, method_key(setting.name), with_setting_names(setting.about, method_key),
                  value};
    if (setting.of_run) key.about += ", or amounts", key.value = std::vector<Amount>();
    keys.push_back(std::move(key));
  }
  // each section is one table of TOML
  std::stable_partition(keys.begin(), keys.end(), [](const MethodKey& each) {
    return each.key == method_key(last_part(each.key));
  });
  return keys;
}

Settings Config::all_settings(const std::function<double(const Amount&)>& part_of) const {
  Settings all;
  for (const MethodKey& each : of_methods)
    if (const auto* value = std::get_if<SettingValue>(&each.value)) {
      all.set(each.setting.name, *value);
    } else {
      std::vector<double> fractions;
      for (const Amount& a : std::get<std::vector<Amount>>(each.value))
        if (const double part = part_of(a); part < 1) fractions.push_back(part);
      all.set(each.setting.name, std::move(fractions));
    }
  return all;
}

Settings Config::method_settings(const std::function<double(const Amount&)>& part_of) const {
  return all_settings(part_of).only(dist::method_settings(train.method));
}

std::string Config::stepping_method() const {
  return dist::stepping_method(train.method, method_settings([](const Amount&) { return 1.0; }));
}

std::string Config::run_folder() const {
  return run.dir + "/" + (run.name == "auto" ? model.name + "-" + train.method : run.name);
}

}  // namespace gossamer::apps
