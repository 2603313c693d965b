// Networks with a struct of options of their own: OwnOptions::visit() calls f(name, member) for
// those that ModelOptions declares. They are what the family takes, and what the header of a file
// says of the model beside its tensors.
// Threads: any.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "gossamer/core/setting.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/weights.h"

namespace gossamer::models {

// What ModelOptions::visit() says of this option. Error: nothing.
Setting option_setting(const std::string& name);

template <class OwnOptions>
std::vector<NamedSetting> named_options(const OwnOptions& own) {
  std::vector<NamedSetting> out;
  OwnOptions::visit(own, [&](const std::string& name, const auto& member) {
    out.push_back({option_setting(name), SettingValue(member)});
  });
  return out;
}
// Sets the members of these names. "auto" leaves one as it is.
template <class OwnOptions>
void set_options(OwnOptions& own, const std::vector<NamedSetting>& values) {
  OwnOptions::visit(own, [&](const std::string& name, auto& member) {
    using T = std::decay_t<decltype(member)>;
    for (const auto& [setting, value] : values) {
      if (setting.name != name) continue;
      if (const T* const said = std::get_if<T>(&value)) member = *said;
      if constexpr (std::is_same_v<T, i64>)
        if (const auto* const said = std::get_if<std::optional<T>>(&value))
          member = said->value_or(member);
    }
  });
}
// For Family::options: the names, and dropout, which belongs to training and is in no file.
template <class OwnOptions>
std::vector<std::string> taken_by() {
  std::vector<std::string> out;
  const OwnOptions usual;
  OwnOptions::visit(usual, [&](const std::string& name, const auto&) { out.push_back(name); });
  out.push_back("dropout");
  return out;
}

// As entries of the header of a file.
std::map<std::string, std::string> in_header(const std::vector<NamedSetting>&);
// Those of `known` that the header says, with its values. IoError: one that is not possible.
std::vector<NamedSetting> said_in_header(const nn::Weights&,
                                         const std::vector<NamedSetting>& known);

}  // namespace gossamer::models
