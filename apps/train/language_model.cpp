// See language_model.h.
#include "gossamer/apps/train/language_model.h"

#include <fmt/format.h>

#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/text_options.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/error.h"
#include "gossamer/models/named_options.h"

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

std::vector<std::string> keys_of_language_model(const Config& c) {
  const models::Gpt2Options o = read_gpt2(find_initial_model(c), c.model.heads).options,
                            named = models::gpt2_options(c.model.name, {});
  return keys_of_options(c, "gpt2", models::named_options(o), models::named_options(named));
}

models::Gpt2Options language_options(const Config& c, i64 vocabulary,
                                     std::vector<std::string>& notes) {
  models::Gpt2Options o;
  if (c.model.init.empty()) {
    models::ModelOptions options = model_options(c);
    options.classes = c.model.classes.value_or(vocabulary);
    options.positions = c.data.length;
    o = models::gpt2_options(c.model.name, options);
  } else {
    const Gpt2Source found = read_gpt2(find_initial_model(c), c.model.heads);
    o = found.options;
    notes.insert(notes.end(), found.notes.begin(), found.notes.end());
    check_agree(c, models::named_options(o));
    check_agrees("model.classes", c.model.classes, o.vocabulary, c.model.init);
    check<ConfigError>(c.data.length <= o.positions, "data.length = ", c.data.length,
                       ": the model of ", c.model.init, " sees ", o.positions, " ids at once");
  }
  check<ConfigError>(vocabulary <= o.vocabulary, "the data has ", vocabulary, " ids, the model ",
                     o.vocabulary,
                     c.model.init.empty() ? "; use model.classes=auto, or more"
                                          : "; tokenize it with the tokenizer of model.init");
  o.dropout = static_cast<float>(c.model.dropout);
  return o;
}

}  // namespace gossamer::apps
