// Language models and the configuration: what the file of model.init means for a run.
#pragma once

#include <string>
#include <vector>

#include "gossamer/apps/config.h"
#include "gossamer/apps/train/language_source.h"
#include "gossamer/data/text/text_set.h"

namespace gossamer::apps {

// The model of a configuration for this vocabulary: model.name with what model.layers … say
// otherwise; with model.init that of the file. notes: what had to be guessed. ConfigError: a key
// that contradicts model.init. IoError.
models::LanguageOptions language_options(const Config&, i64 vocabulary,
                                         std::vector<std::string>& notes);

// What the file of model.init says and no key does, as key=value, so that a configuration says what
// is trained. ConfigError: model.name is of another size. IoError.
std::vector<std::string> keys_of_language_model(const Config&);

// ConfigError: the tokenizer beside model.init gives other ids than that of the data, and
// model.init_other_tokenizer does not allow it. notes: if it does, or if there is none.
void check_tokenizer_of_init(const Config&, const data::TextSet&, std::vector<std::string>& notes);

}  // namespace gossamer::apps
