// The keys of the configuration in the arguments of a command that is no training.
#pragma once

#include <string>
#include <vector>

#include "gossamer/apps/config.h"

namespace gossamer::apps {

// Takes CONFIG.toml and key=value, for load_config(), out of arguments that are paths too.
std::vector<std::string> take_keys(std::vector<std::string>& arguments);
// The command line itself says the key, not a CONFIG.toml, which may be that of a training.
bool said_by_hand(const Config&, const std::string& key);
// ConfigError: the command line sets another key than these, which would have no effect here, or
// those of find_model(), which every command that takes a model has.
void allow_keys(const Config&, const std::string& command, std::vector<std::string> keys);

}  // namespace gossamer::apps
