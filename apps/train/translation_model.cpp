// See translation_model.h.
#include "gossamer/apps/train/translation_model.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/nn/checkpoint.h"

namespace fs = std::filesystem;

namespace gossamer::apps {

models::TransformerOptions translation_options(const Config& c, i64 vocabulary) {
  models::TransformerOptions o;
  if (c.model.name == "transformer-big") o.width = 1024, o.ff = 4096, o.heads = 16;
  o.vocabulary = c.model.classes.value ? c.model.classes.value : vocabulary;
  if (c.model.layers.value) o.layers = c.model.layers.value;
  if (c.model.width.value) o.width = c.model.width.value;
  if (c.model.heads.value) o.heads = c.model.heads.value;
  if (c.model.ff.value) o.ff = c.model.ff.value;
  o.positions = c.data.length;
  o.dropout = static_cast<float>(c.model.dropout);
  o.norm_first = c.model.norm_first;
  if (o.norm_first) o.eps = 1e-6f;
  check<ConfigError>(vocabulary <= o.vocabulary, "the data has ", vocabulary, " ids, the model ",
                     o.vocabulary, "; use model.classes=auto, or more");
  return o;
}

std::map<std::string, std::string> translation_metadata(const models::TransformerOptions& o) {
  return {{"task", "translation"},
          {"model", "transformer"},
          {"layers", std::to_string(o.layers)},
          {"width", std::to_string(o.width)},
          {"ff", std::to_string(o.ff)},
          {"heads", std::to_string(o.heads)},
          {"vocabulary", std::to_string(o.vocabulary)},
          {"positions", std::to_string(o.positions)},
          {"eps", fmt::format("{:g}", o.eps)},
          {"norm_first", o.norm_first ? "true" : "false"}};
}

TranslationModel load_translation_model(const fs::path& path, DType dtype) {
  const fs::path file = fs::is_directory(path) ? path / "model.safetensors" : path;
  const nn::Weights weights = nn::read_weights(file);
  const auto get = [&](const char* key) {
    const auto at = weights.metadata.find(key);
    check<IoError>(at != weights.metadata.end(), file.string(), ": the header has no \"", key,
                   "\"; was it written by gossamer train with task=translation?");
    return at->second;
  };
  const auto number = [&](const char* key, auto value) {
    const std::string text = get(key);
    const auto end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value);
    check<IoError>(error == std::errc() && stopped == end, file.string(), ": \"", key,
                   "\" in the header is \"", text, "\", not a number");
    return value;
  };
  check<IoError>(get("task") == "translation", file.string(), ": is no translation model");
  const models::TransformerOptions o{.layers = number("layers", i64{}),
                                     .width = number("width", i64{}),
                                     .ff = number("ff", i64{}),
                                     .heads = number("heads", i64{}),
                                     .vocabulary = number("vocabulary", i64{}),
                                     .positions = number("positions", i64{}),
                                     .dropout = 0,
                                     .eps = number("eps", float{}),
                                     .norm_first = get("norm_first") == "true"};
  TranslationModel m;
  m.net = std::make_unique<models::Transformer>(o);
  nn::load(weights, *m.net);
  if (dtype != DType::f32)
    m.params = std::make_unique<FlatParams>(m.net->parameters(), m.net->buffers(),
                                            FlatOptions{.compute = dtype});
  m.net->eval();
  m.tokenizer = data::open_tokenizer(file.has_parent_path() ? file.parent_path().string() : ".");
  check<IoError>(m.tokenizer->size() <= o.vocabulary, file.string(), ": has ", o.vocabulary,
                 " ids, the tokenizer beside it ", m.tokenizer->size());
  return m;
}

std::vector<Sentence> translate_ids(models::Transformer& net, const data::Marks& marks,
                                    const std::vector<Sentence>& sources,
                                    const TranslateOptions& options) {
  const NoGrad no_grad;
  const i64 positions = net.options().positions, rows = static_cast<i64>(sources.size());
  std::size_t longest = 0;
  for (const Sentence& s : sources) longest = std::max(longest, s.size());
  check<ConfigError>(static_cast<i64>(longest) <= positions, "a sentence has ", longest,
                     " ids, the model reads ", positions);
  Tensor source = Tensor::full({rows, static_cast<i64>(longest)}, 0, DType::i32);
  Tensor lengths = Tensor::empty({rows}, DType::i32);
  std::vector<i64> limits;
  for (i64 row = 0; row < rows; ++row) {
    const Sentence& s = sources[static_cast<std::size_t>(row)];
    auto* to = source.as<std::int32_t>() + row * static_cast<i64>(longest);
    std::fill_n(to, longest, std::max(0, marks.pad));
    std::ranges::copy(s, to);
    lengths.as<std::int32_t>()[row] = static_cast<std::int32_t>(s.size());
    limits.push_back(std::min(static_cast<i64>(s.size()) + options.extra, positions));
  }
  models::BeamSearch beams({.beam = options.beam,
                            .length_penalty = options.length_penalty,
                            .begin = marks.begin,
                            .end = marks.end},
                           limits);
  auto cache = net.cache(net.encode(source, lengths), lengths, *std::ranges::max_element(limits));
  while (!beams.rows().empty()) {
    std::vector<i64> parents;
    Sentence last;
    for (const models::BeamSearch::Row& row : beams.rows())
      parents.push_back(row.parent), last.push_back(row.id);
    cache = models::Transformer::rows_of(cache, parents);
    const Tensor logits = net.step(Tensor::from(last, {static_cast<i64>(last.size()), 1}), cache);
    beams.advance(logits.to(DType::f32).span<float>());
  }
  std::vector<Sentence> out;
  for (models::BeamSearch::Hypothesis& h : beams.results()) {
    if (!h.ids.empty() && h.ids.back() == marks.end) h.ids.pop_back();
    out.push_back(std::move(h.ids));
  }
  return out;
}

std::vector<std::string> translate_lines(models::Transformer& net, const data::Tokenizer& tokenizer,
                                         const std::vector<std::string>& lines,
                                         const TranslateOptions& options) {
  const data::Marks marks = tokenizer.marks();
  std::vector<Sentence> sources;
  std::vector<std::size_t> place;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Sentence ids;
    tokenizer.encode(lines[i], ids);
    if (ids.empty()) continue;
    ids.push_back(marks.end);
    sources.push_back(std::move(ids));
    place.push_back(i);
  }
  std::vector<std::string> out(lines.size());
  if (sources.empty()) return out;
  const auto found = translate_ids(net, marks, sources, options);
  for (std::size_t i = 0; i < found.size(); ++i) {
    Sentence text;  // a model that is half learnt may write marks
    std::ranges::copy_if(found[i], std::back_inserter(text), [&](std::int32_t id) {
      return id < tokenizer.size() && id != marks.begin && id != marks.pad && id != marks.end;
    });
    tokenizer.decode(text, out[place[i]]);
  }
  return out;
}

}  // namespace gossamer::apps
