// Settings: what a struct of options says about each of its members, once. Whoever reads, checks,
// prints or compares options walks that list.
//   struct OuterOptions {
//     i64 period = 8;
//     std::optional<double> momentum;
//     template <class Self, class F>
//     static void visit(Self& self, F&& f) {
//       f(self.period, Setting{.name = "period",
//                              .about = "steps between two outer steps",
//                              .range = Range::from_to(1, 1000000),
//                              .unit = "steps"});
//       f(self.momentum, Setting{.name = "momentum", .range = Range::from_below(0, 1)});
//     }
//   };
// In `about` and Range::wanted, {period} stands for another setting: programs write its key there.
// A member's type is one of SettingValue's, its default is the initializer. The range of one may
// depend on another: visit() sees both. A struct derived from another calls that one's visit()
// first.
// Threads: any, one at a time for an object.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "gossamer/core/dtype.h"
#include "gossamer/core/error.h"

namespace gossamer {

// Which numbers are possible. `wanted` says it in words: "1 to 8".
struct Range {
  double least, most;
  bool above, below;  // then `least`, or `most`, itself is out
  std::string wanted;

  Range();  // any finite number
  Range(double least, double most, bool above, bool below, std::string wanted);

  static Range from_to(double least, double most);
  static Range from_below(double least, double end);  // without the end
  static Range at_least(double least);
  static Range above_zero();
  static Range above_zero_to(double most);
  static Range between(double least, double most);  // without both
  Range said(std::string words) const;              // the same, in other words
  bool holds(double) const;                         // false for what is not finite
};

struct Setting {
  std::string name;
  std::string about{};                   // its meaning, for help and manual
  Range range{};                         // of a number, or of each number of a list
  std::vector<std::string> choices{};    // of a text; none: any
  std::string unit{};                    // "steps", "MB"; empty: none
  bool agree = true;                     // all workers must have the same
  std::optional<std::size_t> entries{};  // of a list: how many; none: any number
  bool ascending = false;                // of a list
  // false: it has no effect, given the values of other settings; used_with says with which it would
  bool used = true;
  std::string used_with{};
  bool of_run = false;  // fractions of the run, for which programs may take amounts
};

// std::optional: a number or "auto", which is its empty value.
using SettingValue =
    std::variant<bool, i64, double, std::string, std::optional<i64>, std::optional<double>,
                 std::vector<i64>, std::vector<double>, std::vector<std::string>>;

// "a whole number", "a list of numbers"
std::string setting_type(const SettingValue&);
// As users write it: true, 0.5, auto, [0.25, 1]. What it says reads back as the same value.
std::string setting_text(const SettingValue&);
// The value that `text` says, of the type that `like` has; a list is 1,2 or [1, 2]. None if it says
// nothing of that type.
std::optional<SettingValue> read_setting(std::string_view text, const SettingValue& like);
// None if the value is possible; else what it must be: "1 to 8", "one of a, b".
std::optional<std::string> setting_wanted(const Setting&, const SettingValue&);
// `text` with what stands in {braces}, the name of a setting, replaced by key_of(name).
std::string with_setting_names(const std::string& text,
                               const std::function<std::string(const std::string&)>& key_of);
// The value as one of the type that `like` has, if that loses nothing: a whole number is also a
// number, and a text is read.
std::optional<SettingValue> setting_as(const SettingValue&, const SettingValue& like);

// A setting with its value, or its default.
struct NamedSetting {
  Setting setting;
  SettingValue value;
};
class Settings;
template <class Options>
std::vector<NamedSetting> settings_of(const Options& options) {
  std::vector<NamedSetting> out;
  Options::visit(options, [&](const auto& value, Setting setting) {
    out.push_back({std::move(setting), SettingValue(value)});
  });
  return out;
}
// The same with the values that are given, where they fit: ranges that depend on them follow.
template <class Options>
std::vector<NamedSetting> settings_with(const Settings& given);
// ConfigError "OF: period 0; it must be 1 to 8" for the first that is not possible.
void check_settings(const std::vector<NamedSetting>&, const std::string& of);
template <class Options>
void check_settings(const Options& options, const std::string& of) {
  check_settings(settings_of(options), of);
}

// Values by name, for options whose struct the caller doesn't know.
class Settings {
 public:
  template <class T>
  Settings& set(const std::string& name, T value) {
    if constexpr (std::is_same_v<T, bool>)
      values_[name] = value;
    else if constexpr (std::is_integral_v<T>)
      values_[name] = static_cast<i64>(value);
    else if constexpr (std::is_floating_point_v<T>)
      values_[name] = static_cast<double>(value);
    else if constexpr (std::is_convertible_v<T, std::string>)
      values_[name] = std::string(value);
    else
      values_[name] = std::move(value);
    return *this;
  }
  // every member of these options
  template <class Options>
  Settings& set_all(const Options& options) {
    for (NamedSetting& each : settings_of(options))
      values_[each.setting.name] = std::move(each.value);
    return *this;
  }
  // those of these names
  Settings only(const std::vector<NamedSetting>& known) const;
  // none: nothing was said
  const SettingValue* find(const std::string& name) const;
  const std::map<std::string, SettingValue>& values() const { return values_; }
  // Options with these values and defaults for the others. ConfigError names what is unknown, of
  // another type or out of range. of: whose they are, for messages.
  template <class Options>
  Options as(const std::string& of) const {
    Options options;
    std::vector<std::string> known;
    Options::visit(options, [&](auto& member, const Setting& setting) {
      known.push_back(setting.name);
      if (const SettingValue* given = find(setting.name))
        member = std::get<std::decay_t<decltype(member)>>(fitted(*given, member, setting, of));
    });
    check_known(known, of);
    check_settings(options, of);
    return options;
  }

 private:
  static SettingValue fitted(const SettingValue& given, const SettingValue& like, const Setting&,
                             const std::string& of);
  void check_known(const std::vector<std::string>& known, const std::string& of) const;

  std::map<std::string, SettingValue> values_;
};

template <class Options>
std::vector<NamedSetting> settings_with(const Settings& given) {
  Options options;
  Options::visit(options, [&](auto& member, const Setting& setting) {
    const SettingValue* value = given.find(setting.name);
    if (const auto fits = value ? setting_as(*value, member) : std::nullopt)
      member = std::get<std::decay_t<decltype(member)>>(*fits);
  });
  return settings_of(options);
}

}  // namespace gossamer
