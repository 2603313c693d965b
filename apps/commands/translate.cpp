// `gossamer translate MODEL < lines`: a translation of each line, in the same order.
#include <algorithm>
#include <cmath>
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
#include "gossamer/models/sampling.h"

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

// Of each line its translations, the best first; none if it has no ids.
struct Translation {
  std::string text;
  double score;
};
using Translations = std::vector<Translation>;

// Sentences of about one length are translated together.
std::vector<Translations> translate_lines(models::Translator& translator, const TranslateCommand& c,
                                          const data::Tokenizer& tokenizer,
                                          const std::vector<Sentence>& lines) {
  const auto batch = static_cast<std::size_t>(c.batch),
             most = static_cast<std::size_t>(c.n_best.value_or(1));
  std::vector<std::uint64_t> seeds(most);
  std::iota(seeds.begin(), seeds.end(), static_cast<std::uint64_t>(c.seed));
  Choice choice = c.sampling.over({});
  choice.known = tokenizer.size();
  std::vector<std::size_t> order(lines.size());
  std::iota(order.begin(), order.end(), 0u);
  std::erase_if(order, [&](std::size_t i) { return lines[i].empty(); });
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return lines[i].size(); });
  std::vector<Translations> out(lines.size());
  for (std::size_t at = 0; at < order.size(); at += batch) {
    const std::span some = std::span(order).subspan(at, std::min(batch, order.size() - at));
    std::vector<Sentence> sources;
    for (const std::size_t i : some) sources.push_back(lines[i]);
    const std::vector<i64> limits = translation_limits(translator, sources);
    const auto found = c.sample ? translator.sample(sources, limits, choice, seeds)
                                : translator.search(sources, limits);
    for (std::size_t i = 0; i < some.size(); ++i)
      for (std::size_t k = 0; k < std::min(most, found[i].size()); ++k)
        out[some[i]].push_back({sentence_text(tokenizer, found[i][k].ids), found[i][k].score});
  }
  return out;
}

std::string best_text(const Translations& line) { return line.empty() ? "" : line[0].text; }

// As many lines as --n-best says, so that those of each line of the file can be counted off.
void print_lines(const TranslateCommand& c, const Translations& line) {
  for (std::size_t k = 0; k < static_cast<std::size_t>(c.n_best.value_or(1)); ++k) {
    const bool is = k < line.size();
    print(fmt::format("{}{}\n",
                      !c.scores ? ""
                      : is      ? fmt::format("{:.4f}\t", line[k].score)
                                : "\t",
                      is ? line[k].text : ""));
  }
}

// What --n-best and --scores say of a line, in JSON.
std::vector<JsonObject> all_of(const Translations& line) {
  std::vector<JsonObject> out;
  for (const Translation& t : line)
    out.push_back(JsonObject().add("translation", t.text).add("score", t.score));
  return out;
}
double best_score(const Translations& line) { return line.empty() ? NAN : line[0].score; }

JsonObject object_of(const TranslateCommand& c, const Translations& line) {
  JsonObject out;
  out.add("translation", best_text(line));
  if (c.scores) out.add("score", best_score(line));
  if (c.n_best) out.add("n_best", all_of(line));
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
  check<ConfigError>(!c.n_best || (*c.n_best >= 1 && *c.n_best <= (c.sample ? 1024 : c.beam)),
                     "translate: --n-best ", c.n_best.value_or(0), "; wanted 1 to ",
                     c.sample ? 1024 : c.beam,
                     c.sample ? "" : ", as many as --beam follows; a wider beam finds more");
  models::check_choice(c.sampling.over({}));
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
  std::vector<std::string> out;  // the best of each line
  std::vector<double> scores;
  std::vector<std::vector<JsonObject>> n_best;
  ProgressLine line("translate",
                    {.unit = "sentences", .silent = !progress_is_seen(!c.json) || source.typed()});
  i64 done = 0;
  for (std::size_t wanted = each ? 1 : batch;; wanted = std::min(2 * wanted, most)) {
    const std::vector<Sentence> lines = source.next(wanted);
    for (const Translations& found : translate_lines(translator, c, *m.tokenizer, lines)) {
      if (c.json && c.lines)
        print(object_of(c, found).str() + "\n");
      else if (!c.json)
        print_lines(c, found);
      if (c.json || !references.empty()) out.push_back(best_text(found));
      if (c.json && !c.lines && c.scores) scores.push_back(best_score(found));
      if (c.json && !c.lines && c.n_best) n_best.push_back(all_of(found));
    }
    std::fflush(stdout);
    line.show(done += static_cast<i64>(lines.size()));
    if (lines.size() < wanted) break;
  }
  JsonObject json;
  if (c.json && !c.lines) {
    json.add("translations", out);
    if (c.scores) json.add("scores", scores);
    if (c.n_best) json.add("n_best", n_best);
  }
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
  if (c.json && !(c.lines && references.empty())) print(json.str() + "\n");
  source.rethrow();
  check_as_many(c, references, out.size());
  return source.left_out() ? 3 : 0;
}

}  // namespace gossamer::apps
