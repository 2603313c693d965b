// See translation_source.h.
#include "gossamer/apps/train/translation_source.h"

#include <algorithm>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/models/transformer_file.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/inference.h"
#include "gossamer/nn/init.h"

namespace gossamer::apps {

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
