// See language_model.h.
#include "gossamer/apps/train/language_model.h"

#include <fmt/format.h>

#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/text_options.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/error.h"
#include "gossamer/models/registry.h"

namespace gossamer::apps {

void check_tokenizer_of_init(const Config& c, const data::TextSet& set,
                             std::vector<std::string>& notes) {
  if (c.model.init.empty() || !set.tokenizer) return;
  const ModelSource source = find_initial_model(c);
  const auto before = tokenizer_beside(source);
  if (!before) {
    notes.push_back(
        fmt::format("no tokenizer lies beside {}, so nobody knows whether its ids are "
                    "those of {}",
                    source.name, set.path));
    return;
  }
  if (before->same_ids(*set.tokenizer)) return;
  const std::string other =
      fmt::format("{}: was made with another tokenizer than lies beside {}", set.path, source.name);
  check<ConfigError>(c.model.init_other_tokenizer, other,
                     ", so its ids are other text; tokenize it with --tokenizer ",
                     source.beside.string(),
                     ", or say model.init_other_tokenizer=true to train all the same");
  notes.push_back(other);
}

std::vector<std::string> keys_of_language_model(const Config& given) {
  const models::LanguageOptions o =
      read_language(find_initial_model(given), given.model.heads).options;
  const std::string family = models::family_of(o);
  Config c = given;
  std::vector<std::string> keys;
  if (!given.origin.contains("model.name") && models::family_of(c.model.name).name != family) {
    c.model.name = family;
    keys.push_back("model.name=" + family);
  }
  check<ConfigError>(models::family_of(c.model.name).name == family, "model.name = ", c.model.name,
                     ": the model of ", c.model.init, " is of the family ", family,
                     "; leave model.name out");
  const auto of_options =
      keys_of_options(c, family, models::settings_of_language(o),
                      models::settings_of_language(models::language_options(c.model.name, {})));
  keys.insert(keys.end(), of_options.begin(), of_options.end());
  return keys;
}

models::LanguageOptions language_options(const Config& c, i64 vocabulary,
                                         std::vector<std::string>& notes) {
  models::LanguageOptions o;
  if (c.model.init.empty()) {
    models::ModelOptions options = model_options(c);
    options.classes = c.model.classes.value_or(vocabulary);
    options.positions = c.data.length;
    o = models::language_options(c.model.name, options);
  } else {
    const LanguageSource found = read_language(find_initial_model(c), c.model.heads);
    o = found.options;
    notes.insert(notes.end(), found.notes.begin(), found.notes.end());
    check_agree(c, models::settings_of_language(o));
    check_agrees("model.classes", c.model.classes, models::vocabulary_of(o), c.model.init);
    check<ConfigError>(c.data.length <= models::positions_of(o), "data.length = ", c.data.length,
                       ": the model of ", c.model.init, " sees ", models::positions_of(o),
                       " ids at once; set data.length = ", models::positions_of(o), " or less");
  }
  check<ConfigError>(vocabulary <= models::vocabulary_of(o), "the data has ", vocabulary,
                     " ids, the model ", models::vocabulary_of(o),
                     c.model.init.empty() ? "; use model.classes=auto, or more"
                                          : "; tokenize it with the tokenizer of model.init");
  models::set_dropout(o, static_cast<float>(c.model.dropout));
  return o;
}

}  // namespace gossamer::apps
