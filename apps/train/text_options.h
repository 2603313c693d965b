// Whether a configuration agrees with what the file of a text model says of its options
// (models::named_options()).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gossamer/apps/config.h"
#include "gossamer/core/setting.h"

namespace gossamer::apps {

// What the file of model.init says and no key does, as key=value. of_name: of model.name; kind: the
// name that stands for models of all sizes. ConfigError: model.name is another, and not of this
// size.
std::vector<std::string> keys_of_options(const Config&, const std::string& kind,
                                         const std::vector<NamedSetting>& of_file,
                                         const std::vector<NamedSetting>& of_name);
// ConfigError: a key says otherwise than the file of model.init.
void check_agree(const Config&, const std::vector<NamedSetting>& of_file);
// ConfigError: `key` was given, and the model of `file` has another value.
void check_agrees(const std::string& key, const std::optional<i64>& given, i64 of_file,
                  const std::string& file);

}  // namespace gossamer::apps
