// See translation_model.h.
#include "gossamer/apps/train/translation_model.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/text_options.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/error.h"
#include "gossamer/models/named_options.h"
#include "gossamer/models/transformer_file.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/inference.h"
#include "gossamer/nn/init.h"

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

TranslationModel load_translation_model(const ModelSource& source, DType dtype, Device device) {
  TranslationModel m;
  m.file = source.name;
  m.folder = source.beside;
  const nn::Weights weights = models::transformer_weights(read_model(source));
  m.notes = weights.notes;
  const auto options = models::transformer_header_of(weights);
  check<IoError>(options.has_value(), m.file,
                 ": is no translation model; gossamer train with task=translation makes one");
  const nn::NoInitialValues none;
  m.net = std::make_unique<models::Transformer>(*options);
  nn::load(weights, *m.net);
  check_finite(*m.net, m.file);
  m.params = nn::put_on(*m.net, device, dtype);
  m.tokenizer = data::open_tokenizer(m.folder.string());
  const data::Marks marks = m.tokenizer->marks();
  check<IoError>(m.tokenizer->size() <= options->vocabulary, m.file, ": has ", options->vocabulary,
                 " ids, the tokenizer beside it ", m.tokenizer->size());
  check<IoError>(marks.begin >= 0 && marks.end >= 0 && marks.pad >= 0, m.file,
                 ": the tokenizer beside it lacks one of the marks <s>, </s> and <pad>");
  return m;
}

void check_search(const std::string& command, const TranslateOptions& o) {
  check<ConfigError>(o.beam >= 1 && o.beam <= 1024, command, ": --beam ", o.beam,
                     " must be from 1 to 1024");
  check<ConfigError>(std::isfinite(o.length_penalty), command, ": --length-penalty ",
                     o.length_penalty, " must be a finite number");
}

models::Translator translator_of(models::Transformer& net, const data::Marks& marks,
                                 const TranslateOptions& options, GraphFailure on_failure) {
  const Device device = net.parameters().front().tensor.device();
  return {net,
          {.beam = options.beam,
           .length_penalty = options.length_penalty,
           .begin = marks.begin,
           .end = marks.end},
          {.capture = device.is_cpu() ? GraphCapture() : cuda_graph_capture(device),
           .on_failure = std::move(on_failure)}};
}

std::vector<i64> translation_limits(const models::Translator& translator,
                                    const std::vector<Sentence>& sources, i64 extra) {
  std::vector<i64> limits;
  for (const Sentence& s : sources)
    limits.push_back(std::min(static_cast<i64>(s.size()) + extra, translator.positions()));
  return limits;
}

std::vector<Sentence> translate_sentences(models::Translator& translator,
                                          const std::vector<Sentence>& sources, i64 extra) {
  std::vector<Sentence> out;
  for (models::BeamSearch::Hypothesis& h :
       translator.translate(sources, translation_limits(translator, sources, extra)))
    out.push_back(std::move(h.ids));
  return out;
}

std::string sentence_text(const data::Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  const data::Marks marks = tokenizer.marks();
  Sentence text;
  for (const std::int32_t id : ids) {
    if (id == marks.end || id < 0) break;
    if (id != marks.begin && id != marks.pad && id < tokenizer.size()) text.push_back(id);
  }
  std::string out;
  tokenizer.decode(text, out);
  return out;
}

}  // namespace gossamer::apps
