// See command_keys.h.
#include "gossamer/apps/command_keys.h"

#include <algorithm>
#include <filesystem>

#include "gossamer/core/error.h"
#include "gossamer/core/text/spelling.h"

namespace gossamer::apps {

std::vector<std::string> take_keys(std::vector<std::string>& arguments) {
  const auto is_path = [](const std::string& argument) {
    const std::string key = argument.substr(0, argument.find('='));
    if (key.size() == argument.size()) return !argument.ends_with(".toml");
    std::error_code error;
    return key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") != std::string::npos ||
           std::filesystem::exists(argument, error);
  };
  const auto keys = std::stable_partition(arguments.begin(), arguments.end(), is_path);
  std::vector<std::string> taken(keys, arguments.end());
  arguments.erase(keys, arguments.end());
  return taken;
}

bool said_by_hand(const Config& config, const std::string& key) {
  const auto from = config.origin.find(key);
  return from != config.origin.end() && from->second == "command line";
}

void allow_keys(const Config& config, const std::string& command, std::vector<std::string> keys) {
  keys.insert(keys.begin(), {"model.init_key", "model.init_rename"});
  for (const auto& [key, from] : config.origin)
    check<ConfigError>(!said_by_hand(config, key) || std::ranges::find(keys, key) != keys.end(),
                       command, ": ", key, " has no effect here; this command takes ",
                       alternatives(keys));
}

}  // namespace gossamer::apps
