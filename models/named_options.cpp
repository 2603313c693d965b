// See named_options.h.
#include "gossamer/models/named_options.h"

#include "gossamer/core/error.h"

namespace gossamer::models {

Setting option_setting(const std::string& name) {
  for (NamedSetting& each : settings_of(ModelOptions()))
    if (each.setting.name == name) return std::move(each.setting);
  fail<Error>("ModelOptions::visit() has no \"", name, "\"");
}

std::map<std::string, std::string> in_header(const std::vector<NamedSetting>& options) {
  std::map<std::string, std::string> out;
  for (const auto& [setting, value] : options) out[setting.name] = setting_text(value);
  return out;
}

std::vector<NamedSetting> said_in_header(const nn::Weights& weights,
                                         const std::vector<NamedSetting>& known) {
  std::vector<NamedSetting> out;
  for (const auto& [setting, usual] : known) {
    const auto text = weights.metadata.find(setting.name);
    if (text == weights.metadata.end()) continue;
    const auto value = read_setting(text->second, usual);
    const auto wanted = value ? setting_wanted(setting, *value) : setting_type(usual);
    check<IoError>(!wanted, weights.file, ": \"", setting.name, "\" in the header is \"",
                   text->second, "\"; it must be ", wanted.value_or(""));
    out.push_back({setting, *value});
  }
  return out;
}

}  // namespace gossamer::models
