// Values of settings: to text, from text, and which are possible.
#include "gossamer/core/setting.h"

#include <algorithm>
#include <charconv>

#include "gossamer/core/text/listed.h"
#include "gossamer/core/text/shortest.h"
#include "gossamer/core/text/spelling.h"

namespace gossamer {
namespace {

std::string text_of(double v) { return shortest(v); }
std::string text_of(i64 v) { return std::to_string(v); }
std::string text_of(bool v) { return v ? "true" : "false"; }
std::string text_of(const std::string& v) { return v; }
template <class T>
std::string text_of(const std::optional<T>& v) {
  return v ? text_of(*v) : "auto";
}
template <class T>
std::string text_of(const std::vector<T>& v) {
  return "[" + listed(v, ", ", [](const T& each) { return text_of(each); }) + "]";
}

// Limits in sentences: 1000000, not 1e+06.
std::string limit(double v) {
  return v == std::floor(v) && std::abs(v) < 1e15 ? std::to_string(static_cast<i64>(v))
                                                  : text_of(v);
}

std::string type_of(bool) { return "true or false"; }
std::string type_of(i64) { return "a whole number"; }
std::string type_of(double) { return "a number"; }
std::string type_of(const std::string&) { return "a string"; }
template <class T>
std::string type_of(const std::optional<T>&) {
  return type_of(T()) + " or \"auto\"";
}
template <class T>
std::string type_of(const std::vector<T>&) {
  return "a list of " + type_of(T()).substr(2) + "s";
}

bool read(std::string_view text, std::string& out) {
  out = text;
  return true;
}
bool read(std::string_view text, bool& out) {
  out = text == "true";
  return out || text == "false";
}
template <class T>
bool read_number(std::string_view text, T& out) {
  const char* const end = text.data() + text.size();
  return std::from_chars(text.data(), end, out) == std::from_chars_result{end, {}};
}
bool read(std::string_view text, i64& out) { return read_number(text, out); }
bool read(std::string_view text, double& out) { return read_number(text, out); }
template <class T>
bool read(std::string_view text, std::optional<T>& out) {
  out.reset();
  return text == "auto" || read(text, out.emplace());
}
template <class T>
bool read(std::string_view text, std::vector<T>& out) {
  out.clear();
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    if (!read(text.substr(0, comma), out.emplace_back())) return false;
    if (comma == text.npos) return true;
    text.remove_prefix(comma + 1);
    while (text.starts_with(' ')) text.remove_prefix(1);
    if (text.empty()) return false;
  }
  return true;
}

std::optional<std::string> wanted(const Setting&, bool) { return std::nullopt; }
std::optional<std::string> wanted(const Setting& s, double v) {
  if (s.range.holds(v)) return std::nullopt;
  return s.range.wanted;
}
std::optional<std::string> wanted(const Setting& s, i64 v) {
  return wanted(s, static_cast<double>(v));
}
std::optional<std::string> wanted(const Setting& s, const std::string& v) {
  if (s.choices.empty() || std::ranges::find(s.choices, v) != s.choices.end()) return std::nullopt;
  const std::vector<std::string> near = nearest(v, s.choices);
  return "one of " + listed(s.choices) +
         (near.empty() ? "" : "; did you mean " + alternatives(near, "\"") + "?");
}
template <class T>
std::optional<std::string> wanted(const Setting& s, const std::optional<T>& v) {
  const auto of_number = v ? wanted(s, *v) : std::nullopt;
  return of_number ? std::optional("\"auto\" or " + *of_number) : std::nullopt;
}
template <class T>
std::optional<std::string> wanted(const Setting& s, const std::vector<T>& v) {
  const bool right =
      (!s.entries || v.size() == *s.entries) && (!s.ascending || std::ranges::is_sorted(v)) &&
      std::ranges::none_of(v, [&](const T& each) { return wanted(s, each).has_value(); });
  return right ? std::nullopt : std::optional(s.range.wanted);
}

}  // namespace

Range::Range() : Range(-INFINITY, INFINITY, false, false, "a finite number") {}
Range::Range(double from, double to, bool without_from, bool without_to, std::string words)
    : least(from), most(to), above(without_from), below(without_to), wanted(std::move(words)) {}
Range Range::from_to(double least, double most) {
  return {least, most, false, false, limit(least) + " to " + limit(most)};
}
Range Range::from_below(double least, double end) {
  return {least, end, false, true, limit(least) + " to below " + limit(end)};
}
Range Range::at_least(double least) {
  return {least, INFINITY, false, false, limit(least) + " or more"};
}
Range Range::above_zero() { return {0, INFINITY, true, false, "above 0"}; }
Range Range::above_zero_to(double most) {
  return {0, most, true, false, "above 0, at most " + limit(most)};
}
Range Range::between(double least, double most) {
  return {least, most, true, true, "above " + limit(least) + " and below " + limit(most)};
}
Range Range::said(std::string words) const {
  Range out = *this;
  out.wanted = std::move(words);
  return out;
}
bool Range::holds(double v) const {
  return std::isfinite(v) && (above ? v > least : v >= least) && (below ? v < most : v <= most);
}

std::string setting_type(const SettingValue& value) {
  return std::visit([](const auto& v) { return type_of(v); }, value);
}

std::string setting_text(const SettingValue& value) {
  return std::visit([](const auto& v) { return text_of(v); }, value);
}

std::optional<SettingValue> read_setting(std::string_view text, const SettingValue& like) {
  return std::visit(
      [&](auto value) -> std::optional<SettingValue> {
        if (!read(text, value)) return std::nullopt;
        return SettingValue(std::move(value));
      },
      like);
}

std::optional<std::string> setting_wanted(const Setting& setting, const SettingValue& value) {
  return std::visit([&](const auto& v) { return wanted(setting, v); }, value);
}

std::string with_setting_names(const std::string& text,
                               const std::function<std::string(const std::string&)>& key_of) {
  std::string out;
  for (std::size_t at = 0;;) {
    const std::size_t open = text.find('{', at), close = text.find('}', open);
    out += text.substr(at, open == text.npos || close == text.npos ? text.npos : open - at);
    if (close == text.npos) return out;
    out += key_of(text.substr(open + 1, close - open - 1));
    at = close + 1;
  }
}

std::optional<SettingValue> setting_as(const SettingValue& value, const SettingValue& like) {
  if (value.index() == like.index()) return value;
  if (const auto* text = std::get_if<std::string>(&value)) return read_setting(*text, like);
  // A number as another kind of number: its text says it exactly, and 2.5 is no whole number.
  const bool number = std::holds_alternative<i64>(value) || std::holds_alternative<double>(value);
  const bool wanted_text = std::holds_alternative<std::string>(like);
  return number && !wanted_text ? read_setting(setting_text(value), like) : std::nullopt;
}

void check_settings(const std::vector<NamedSetting>& settings, const std::string& of) {
  for (const auto& [setting, value] : settings)
    if (const auto wanted = setting_wanted(setting, value))
      fail<ConfigError>(of, ": ", setting.name, " ", setting_text(value), "; it must be ",
                        with_setting_names(*wanted, [](const std::string& name) { return name; }));
}

Settings Settings::only(const std::vector<NamedSetting>& known) const {
  Settings out;
  for (const NamedSetting& each : known)
    if (const SettingValue* value = find(each.setting.name))
      out.values_[each.setting.name] = *value;
  return out;
}

const SettingValue* Settings::find(const std::string& name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

SettingValue Settings::fitted(const SettingValue& given, const SettingValue& like,
                              const Setting& setting, const std::string& of) {
  auto value = setting_as(given, like);
  check<ConfigError>(value.has_value(), of, ": ", setting.name, " wants ", setting_type(like),
                     ", not ", setting_text(given));
  return *value;
}

void Settings::check_known(const std::vector<std::string>& known, const std::string& of) const {
  for (const auto& [name, value] : values_) {
    if (std::ranges::find(known, name) != known.end()) continue;
    fail<ConfigError>(of, " has no setting ", name,
                      known.empty() ? "; it has none" : "; it has: " + listed(known));
  }
}

}  // namespace gossamer
