// See translation_model.h.
#include "gossamer/apps/train/translation_model.h"

#include <cmath>
#include <optional>

#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/text_options.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/error.h"
#include "gossamer/models/named_options.h"
#include "gossamer/models/transformer_file.h"

namespace gossamer::apps {

std::vector<std::string> keys_of_translation_model(const Config& c) {
  const auto of_file = models::transformer_header_of(read_model(find_initial_model(c)));
  if (!of_file) return {};
  const models::TransformerOptions &o = *of_file,
                                   named = models::transformer_options(c.model.name, {});
  return keys_of_options(c, "transformer", models::named_options(o), models::named_options(named));
}

models::TransformerOptions translation_options(const Config& c, i64 vocabulary) {
  models::TransformerOptions o;
  const auto of_file = c.model.init.empty()
                           ? std::nullopt
                           : models::transformer_header_of(read_model(find_initial_model(c)));
  if (of_file) {
    o = *of_file;
    check<ConfigError>(c.data.length <= o.positions || !c.origin.contains("data.length"),
                       "data.length = ", c.data.length, ": the model of ", c.model.init, " reads ",
                       o.positions, " ids");
    check_agree(c, models::named_options(o));
    check_agrees("model.classes", c.model.classes, o.vocabulary, c.model.init);
  } else {
    models::ModelOptions options = model_options(c);
    options.classes = c.model.classes.value_or(vocabulary);
    options.positions = c.data.length;
    o = models::transformer_options(c.model.name, options);
  }
  o.dropout = static_cast<float>(c.model.dropout);
  check<ConfigError>(vocabulary <= o.vocabulary, "the data has ", vocabulary, " ids, the model ",
                     o.vocabulary,
                     of_file ? "; tokenize it with the tokenizer of model.init"
                             : "; use model.classes=auto, or more");
  return o;
}

void check_search(const std::string& command, const TranslateOptions& o) {
  check<ConfigError>(o.beam >= 1 && o.beam <= 1024, command, ": --beam ", o.beam,
                     " must be from 1 to 1024");
  check<ConfigError>(std::isfinite(o.length_penalty), command, ": --length-penalty ",
                     o.length_penalty, " must be a finite number");
}

}  // namespace gossamer::apps
