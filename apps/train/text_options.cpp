// See text_options.h.
#include "gossamer/apps/train/text_options.h"

#include <optional>

#include "gossamer/apps/config_keys.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

std::string key_of(const NamedSetting& option) { return "model." + option.setting.name; }

// data.length says how many positions.
bool has_key(const NamedSetting& option) { return option.setting.name != "positions"; }

// None: not given.
std::optional<SettingValue> given_value(const Config& c, const NamedSetting& option) {
  for (const auto& [setting, value] : settings_of<models::ModelOptions>(c.model)) {
    if (setting.name != option.setting.name) continue;
    if (const auto* const size = std::get_if<std::optional<i64>>(&value))
      return *size ? std::optional<SettingValue>(**size) : std::nullopt;
    if (c.origin.contains(key_of(option))) return value;
  }
  return std::nullopt;
}

[[noreturn]] void disagrees(const std::string& key, const SettingValue& given,
                            const SettingValue& of_file, const std::string& file) {
  fail<ConfigError>(key, " = ", setting_text(given), ": the model of ", file, " has ",
                    setting_text(of_file), "; leave ", key, " out");
}

}  // namespace

std::vector<std::string> keys_of_options(const Config& c, const std::string& kind,
                                         const std::vector<NamedSetting>& of_file,
                                         const std::vector<NamedSetting>& of_name) {
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < of_file.size(); ++i) {
    if (!has_key(of_file[i]) || given_value(c, of_file[i])) continue;
    const std::string key = key_of(of_file[i]), value = setting_text(of_file[i].value);
    const bool is_size = std::holds_alternative<i64>(of_file[i].value);
    check<ConfigError>(!is_size || c.model.name == kind || of_name[i].value == of_file[i].value,
                       "model.name = ", c.model.name, " has ", key, " = ",
                       setting_text(of_name[i].value), ", the model of ", c.model.init, " ", value,
                       "; leave model.name out");
    keys.push_back(key + "=" + value);
  }
  return keys;
}

void check_agree(const Config& c, const std::vector<NamedSetting>& of_file) {
  for (const NamedSetting& option : of_file)
    if (const auto given = has_key(option) ? given_value(c, option) : std::nullopt)
      if (*given != option.value) disagrees(key_of(option), *given, option.value, c.model.init);
}

void check_agrees(const std::string& key, const std::optional<i64>& given, i64 of_file,
                  const std::string& file) {
  if (given && *given != of_file) disagrees(key, *given, of_file, file);
}

}  // namespace gossamer::apps
