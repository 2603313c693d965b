// What a configuration says of a translation model.
#pragma once

#include <string>
#include <vector>

#include "gossamer/apps/config.h"
#include "gossamer/apps/train/translation_source.h"
#include "gossamer/models/transformer.h"

namespace gossamer::apps {

// The model of a configuration for this vocabulary: model.name with what model.layers … say
// otherwise; with model.init that of the file, if its header says it. ConfigError, IoError.
models::TransformerOptions translation_options(const Config&, i64 vocabulary);
// The same as keys_of_language_model(), of a translation model.
std::vector<std::string> keys_of_translation_model(const Config&);

// ConfigError: the options of `command` are out of range.
void check_search(const std::string& command, const TranslateOptions&);

}  // namespace gossamer::apps
