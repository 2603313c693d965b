// `gossamer translate MODEL < lines`: a translation of each line, in the same order.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <numeric>
#include <span>

#include <fmt/core.h>

#include "gossamer/apps/command_keys.h"
#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/data_progress.h"
#include "gossamer/apps/commands/lines.h"
#include "gossamer/apps/commands/on_gpu.h"
#include "gossamer/apps/machine.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/translation_model.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/text/json.h"
#include "gossamer/data/text/bleu.h"
#include "gossamer/data/text/chrf.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

// The lines to translate: as many as go together, as ids.
class Source {
 public:
  Source(const TranslateCommand& c, const TranslationModel& m)
      : lines_(c.file), on_long_(c.on_long), model_(m) {}
  // The next lines, at most so many; one that has no text, or is left out, has no ids. A line that
  // stops the work ends them: see rethrow().
  std::vector<Sentence> next(std::size_t most) {
    std::vector<Sentence> out;
    try {
      for (std::string line; out.size() < most && lines_.next(line);) out.push_back(ids_of(line));
    } catch (const DataError&) {
      stopped_ = std::current_exception();
    }
    return out;
  }
  bool typed() const { return lines_.typed(); }
  bool left_out() const { return left_out_; }
  // What has ended the lines before the end of the file, if anything has.
  void rethrow() const {
    if (stopped_) std::rethrow_exception(stopped_);
  }

 private:
  // What is wrong with one line is said, and does not keep the others from being translated.
  Sentence ids_of(const std::string& line) {
    Sentence ids;
    try {
      lines_.check_utf8(line);
    } catch (const DataError& error) {
      return leave_out(error.what());
    }
    model_.tokenizer->encode(line, ids);
    if (ids.empty()) return ids;
    const auto most = static_cast<std::size_t>(model_.net->options().positions);
    if (ids.size() >= most) {
      const std::string what = fmt::format("{}: the line has {} ids, the model reads {}",
                                           lines_.place(), ids.size() + 1, most);
      check<DataError>(on_long_ != "stop", what, "; split it, or use --on-long cut or skip");
      if (on_long_ == "skip") return leave_out(what);
      say(what + "; it is cut");
      ids.resize(most - 1);
    }
    ids.push_back(model_.tokenizer->marks().end);
    return ids;
  }
  Sentence leave_out(const std::string& what) {
    say(what + "; its translation is an empty line");
    left_out_ = true;
    return {};
  }

  Lines lines_;
  std::string on_long_;
  const TranslationModel& model_;
  bool left_out_ = false;
  std::exception_ptr stopped_;
};

// Sentences of about one length are translated together. That of no ids is empty.
std::vector<std::string> translate_lines(models::Translator& translator,
                                         const data::Tokenizer& tokenizer,
                                         const std::vector<Sentence>& lines, std::size_t batch) {
  std::vector<std::size_t> order(lines.size());
  std::iota(order.begin(), order.end(), 0u);
  std::erase_if(order, [&](std::size_t i) { return lines[i].empty(); });
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return lines[i].size(); });
  std::vector<std::string> out(lines.size());
  for (std::size_t at = 0; at < order.size(); at += batch) {
    const std::span some = std::span(order).subspan(at, std::min(batch, order.size() - at));
    std::vector<Sentence> sources;
    for (const std::size_t i : some) sources.push_back(lines[i]);
    const auto found = translate_sentences(translator, sources);
    for (std::size_t i = 0; i < some.size(); ++i) out[some[i]] = sentence_text(tokenizer, found[i]);
  }
  return out;
}

using References = std::vector<std::vector<std::string>>;  // [file][line]

void check_as_many(const TranslateCommand& c, const References& references, std::size_t lines) {
  for (std::size_t i = 0; i < references.size(); ++i)
    check<DataError>(references[i].size() == lines && lines > 0, c.references[i], ": has ",
                     references[i].size(), " lines, and ", lines,
                     " are to be translated; BLEU wants as many of both, and at least one");
}

References references_of(const TranslateCommand& c) {
  References out;
  for (const std::string& file : c.references) {
    out.emplace_back();
    Lines lines(file);
    for (std::string line; lines.next(line); out.back().push_back(line)) lines.check_utf8(line);
  }
  if (!out.empty() && c.file != "-" &&
      fs::is_regular_file(c.file)) {  // others can be read once only
    std::size_t to_translate = 0;
    Lines sources(c.file);
    for (std::string line; sources.next(line); ++to_translate) {
    }
    check_as_many(c, out, to_translate);
  }
  return out;
}

}  // namespace

int translate(const TranslateCommand& c) {
  check<ConfigError>(c.batch >= 1, "translate: --batch ", c.batch, " must be at least 1");
  const TranslateOptions search{.beam = c.beam, .length_penalty = c.length_penalty};
  check_search("translate", search);
  check<ConfigError>(c.threads >= 0, "translate: --threads ", c.threads, "; wanted at least 1");
  set_compute_threads(c.threads > 0 ? c.threads : cores());
  check<ConfigError>(!c.lines || !c.json,
                     "translate: --json is one object behind the last line, and --lines answers "
                     "each; leave one of them out");
  const References references = references_of(c);
  Config config = load_config(c.arguments);
  allow_keys(config, "translate", {"train.dtype", "train.device"});
  if (!config.origin.contains("train.dtype")) config.train.dtype = c.dtype;
  const Device device = command_device(config);
  const ModelSource model = find_model(c.model, config);
  check_task(model, "translate", "translation");
  const TranslationModel m =
      load_translation_model(model, compute_type(config.train.dtype, !device.is_cpu()), device);
  for (const std::string& line : m.notes) say(line);
  models::Translator translator = translator_of(*m.net, m.tokenizer->marks(), search, say_no_graph);
  Source source(c, m);
  // The first answers come soon; the more lines are sorted by length, the less is padding.
  const auto batch = static_cast<std::size_t>(c.batch);
  const bool each = c.lines || source.typed();
  const std::size_t most = each ? 1 : 16 * batch;
  std::vector<std::string> out;
  ProgressLine line("translate",
                    {.unit = "sentences", .silent = !progress_is_seen(!c.json) || source.typed()});
  i64 done = 0;
  for (std::size_t wanted = each ? 1 : batch;; wanted = std::min(2 * wanted, most)) {
    const std::vector<Sentence> lines = source.next(wanted);
    for (std::string& translation : translate_lines(translator, *m.tokenizer, lines, batch)) {
      if (!c.json) print(translation + "\n");
      if (c.json || !references.empty()) out.push_back(std::move(translation));
    }
    std::fflush(stdout);
    line.show(done += static_cast<i64>(lines.size()));
    if (lines.size() < wanted) break;
  }
  JsonObject json;
  if (c.json) json.add("translations", out);
  const bool as_many =
      std::ranges::all_of(references, [&](const auto& file) { return file.size() == out.size(); });
  if (!references.empty() && as_many && !out.empty()) {
    const data::Bleu bleu = data::bleu(out, references);
    const double chrf = data::chrf(out, references);
    const std::string bleu_signature = data::bleu_signature(references.size()),
                      chrf_signature = data::chrf_signature(references.size());
    json.add("bleu", bleu.score).add("bleu_signature", bleu_signature);
    json.add("chrf", chrf).add("chrf_signature", chrf_signature);
    if (!c.json)
      std::fputs(fmt::format("{}\n{}\nchrF2 = {:.2f}\n{}\n", bleu.text(), bleu_signature, chrf,
                             chrf_signature)
                     .c_str(),
                 stderr);
  }
  if (c.json) print(json.str() + "\n");
  source.rethrow();
  check_as_many(c, references, out.size());
  return source.left_out() ? 3 : 0;
}

}  // namespace gossamer::apps
