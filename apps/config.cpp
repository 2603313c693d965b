// Reads and writes Config. No other file includes toml++.
#include "gossamer/apps/config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>

#include <toml++/toml.h>

#include "gossamer/apps/config_keys.h"
#include "gossamer/apps/json.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/method.h"
#include "gossamer/nn/schedule.h"

namespace gossamer::apps {
namespace {

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// The key that was probably meant: by other common names, then by spelling, of the whole key or of
// its last part in any section. "" if none is near.
std::string nearest_key(const std::string& wrong) {
  static const std::map<std::string, std::string> other_names{
      {"lr", "optim.learning_rate"},    {"wd", "optim.weight_decay"},
      {"workers", "--workers N"},       {"arch", "model.name"},
      {"num_classes", "model.classes"}, {"batch_size", "train.batch"},
      {"topology", "train.graph"},      {"num_workers", "data.threads"}};
  const auto last = [](const std::string& key) { return key.substr(key.rfind('.') + 1); };
  if (const auto it = other_names.find(last(wrong)); it != other_names.end()) return it->second;
  std::string best;
  std::size_t best_distance = 4;  // more than three changes make another word
  Config defaults;
  each_key(defaults, [&](const std::string& key, auto&, const char*) {
    const std::size_t distance =
        std::min(edit_distance(wrong, key), edit_distance(last(wrong), last(key)) + 1);
    if (distance < best_distance) best_distance = distance, best = key;
  });
  return best;
}

[[noreturn]] void unknown_key(const std::string& where, const std::string& key) {
  const std::string near = nearest_key(key);
  fail<ConfigError>(where, ": unknown key \"", key, "\"",
                    near.empty() ? std::string("; the config.toml of any run lists all keys")
                                 : "; did you mean \"" + near + "\"?");
}

// True: it is a key of an older version, and a note now says that it has no effect.
bool noted_as_retired(Config& config, const std::string& where, const std::string& key) {
  const auto* const retired = std::ranges::find(kRetiredKeys, key, &RetiredKey::key);
  if (retired == std::end(kRetiredKeys)) return false;
  config.notes.push_back(where + ": " + key +
                         " no longer has an effect: " + std::string(retired->why));
  return true;
}

[[noreturn]] void wrong_type(const std::string& where, const std::string& key, const char* wanted,
                             const std::string& given) {
  fail<ConfigError>(where, ": ", key, " wants ", wanted, ", not ", given);
}

// --- from TOML values
std::string type_text(const toml::node& node) {
  std::ostringstream out;
  out << "the " << node.type();
  if (!node.is_table() && !node.is_array()) out << " " << toml::node_view<const toml::node>(node);
  return out.str();
}
void read(const toml::node& n, const std::string& where, const char* key, std::string& out) {
  if (const auto v = n.value_exact<std::string>())
    out = *v;
  else
    wrong_type(where, key, "a string", type_text(n));
}
void read(const toml::node& n, const std::string& where, const char* key, bool& out) {
  if (const auto v = n.value_exact<bool>())
    out = *v;
  else
    wrong_type(where, key, "true or false", type_text(n));
}
void read(const toml::node& n, const std::string& where, const char* key, i64& out) {
  if (const auto v = n.value_exact<std::int64_t>())
    out = *v;
  else
    wrong_type(where, key, "a whole number", type_text(n));
}
void read(const toml::node& n, const std::string& where, const char* key, double& out) {
  if (const auto v = n.value_exact<double>())
    out = *v;
  else if (const auto whole = n.value_exact<std::int64_t>())
    out = static_cast<double>(*whole);
  else
    wrong_type(where, key, "a number", type_text(n));
}
void read(const toml::node& n, const std::string& where, const char* key, Auto& out) {
  if (const auto v = n.value_exact<std::int64_t>())
    out.value = *v;
  else if (n.value_exact<std::string>() == "auto")
    out.value = 0;
  else
    wrong_type(where, key, "a whole number or \"auto\"", type_text(n));
}
template <class T>
void read(const toml::node& n, const std::string& where, const char* key, std::vector<T>& out) {
  std::vector<T> values;
  if (const toml::array* list = n.as_array()) {
    for (const toml::node& item : *list) read(item, where, key, values.emplace_back());
  } else {
    read(n, where, key, values.emplace_back());  // one value is a list of one
  }
  out = std::move(values);
}

// --- from the text of key=value
void parse(const std::string& text, const char*, std::string& out) { out = text; }
void parse(const std::string& text, const char* key, bool& out) {
  if (text != "true" && text != "false")
    wrong_type("command line", key, "true or false", "\"" + text + "\"");
  out = text == "true";
}
template <class T>
void parse_number(const std::string& text, const char* key, T& out, const char* wanted) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    wrong_type("command line", key, wanted, "\"" + text + "\"");
  out = value;
}
void parse(const std::string& text, const char* key, i64& out) {
  parse_number(text, key, out, "a whole number");
}
void parse(const std::string& text, const char* key, double& out) {
  parse_number(text, key, out, "a number");
}
void parse(const std::string& text, const char* key, Auto& out) {
  if (text == "auto")
    out.value = 0;
  else
    parse_number(text, key, out.value, "a whole number or auto");
}
template <class T>
void parse(const std::string& text, const char* key, std::vector<T>& out) {
  std::vector<T> values;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ',');) parse(item, key, values.emplace_back());
  out = std::move(values);
}

// --- to TOML
// TOML escapes basic strings as JSON does.
std::string text_of(const std::string& v) { return json_text(v); }
std::string text_of(bool v) { return v ? "true" : "false"; }
std::string text_of(i64 v) { return std::to_string(v); }
std::string text_of(const Auto& v) { return v.value ? std::to_string(v.value) : "\"auto\""; }
std::string text_of(double v) {
  char buffer[40];
  // the shortest text that reads back as the same number
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  return {buffer, end};
}
template <class T>
std::string text_of(const std::vector<T>& v) {
  std::string out = "[";
  for (std::size_t i = 0; i < v.size(); ++i) out += (i ? ", " : "") + text_of(v[i]);
  return out + "]";
}

void read_table(const toml::table& table, const std::string& prefix, const std::string& file,
                Config& config) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    const auto place = [&](const toml::source_region& r) {
      return file + ":" + std::to_string(r.begin.line) + ":" + std::to_string(r.begin.column);
    };
    if (node.is_table() && !node.as_table()->empty() && prefix.empty()) {
      read_table(*node.as_table(), name + ".", file, config);
      continue;
    }
    bool known = node.is_table() && prefix.empty();  // an empty [section]
    each_key(config, [&](const char* candidate, auto& field, const char*) {
      if (name != candidate) return;
      known = true;
      read(node, place(node.source()), candidate, field);
      config.origin[candidate] = place(node.source());
    });
    if (!known && !noted_as_retired(config, place(key.source()), name))
      unknown_key(place(key.source()), name);
  }
}

}  // namespace

Config parse_config(const std::string& text, const std::string& file) {
  Config config;
  try {
    read_table(toml::parse(text, std::string_view(file)), "", file, config);
  } catch (const toml::parse_error& e) {
    fail<ConfigError>(file, ":", e.source().begin.line, ":", e.source().begin.column, ": ",
                      e.description());
  }
  return config;
}

void set_key(Config& config, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  const std::string key = assignment.substr(0, equals),
                    text = equals == std::string::npos ? "" : assignment.substr(equals + 1);
  check<ConfigError>(equals != std::string::npos && equals > 0, "command line: \"", assignment,
                     "\" is neither a .toml file nor key=value, e.g. train.batch=64");
  bool known = false;
  each_key(config, [&](const char* candidate, auto& field, const char*) {
    if (key != candidate) return;
    known = true;
    parse(text, candidate, field);
    config.origin[candidate] = "command line";
  });
  if (!known && !noted_as_retired(config, "command line", key)) unknown_key("command line", key);
}

namespace {

// The defaults of learning rate and scaling are SGD's. With Adam, what was not given becomes
// Adam's.
void follow_optimizer(Config& c) {
  const auto methods = dist::method_names();
  const bool known = std::ranges::find(methods, c.train.method) != methods.end();
  const std::string name =
      c.optim.name == "auto" && known ? dist::method_optimizer(c.train.method) : c.optim.name;
  if (name.find("adam") == std::string::npos) return;
  if (!c.origin.contains("optim.learning_rate")) c.optim.learning_rate = 1e-3;
  if (!c.origin.contains("optim.scaling")) c.optim.scaling = "none";
}

}  // namespace

Config load_config(const std::vector<std::string>& arguments) {
  Config config;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.find('=') == std::string::npos && argument.ends_with(".toml")) {
      check<ConfigError>(i == 0, "command line: ", argument,
                         " comes after other arguments; CONFIG.toml must be the first one");
      std::ifstream in(argument);
      check<ConfigError>(in.good(), argument, ": there is no such configuration file");
      std::ostringstream text;
      text << in.rdbuf();
      config = parse_config(text.str(), argument);
    } else {
      set_key(config, argument);
    }
  }
  follow_optimizer(config);
  return config;
}

std::string to_toml(const Config& config) {
  std::string out, section;
  each_key(config, [&](const std::string& key, const auto& field, const std::string& about) {
    const std::string head = key.substr(0, key.find('.'));
    if (head != section) out += (section.empty() ? "[" : "\n[") + head + "]\n";
    section = head;
    out += key.substr(head.size() + 1) + " = " + text_of(field) +
           (about.empty() ? "" : "    # " + about) + "\n";
  });
  return out;
}

std::string value_text(const Config& config, const std::string& key) {
  std::string text;
  each_key(config, [&](const std::string& k, const auto& field, const char*) {
    if (k == key) text = text_of(field);
  });
  return text;
}

std::string Config::run_folder() const {
  return run.dir + "/" + (run.name == "auto" ? model.name + "-" + train.method : run.name);
}

}  // namespace gossamer::apps
