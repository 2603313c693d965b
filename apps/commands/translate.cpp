// `gossamer translate MODEL < lines`: a translation of each line, in the same order.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <limits>
#include <numeric>

#include <fmt/core.h>
#include <unistd.h>

#include "gossamer/apps/command_keys.h"
#include "gossamer/apps/commands.h"
#include "gossamer/apps/json.h"
#include "gossamer/apps/machine.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/translation_model.h"
#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/utf8.h"
#include "gossamer/data/text/bleu.h"

namespace gossamer::apps {
namespace {

// The lines of a file, some at a time.
class Lines {
 public:
  explicit Lines(const std::string& file)
      : name_(file == "-" ? "standard input" : file), stored_(file != "-") {
    if (stored_) file_.open(file);
    check<IoError>(in().good(), file, ": cannot open this file of lines");
  }
  // Fewer at the end. DataError: a line is no UTF-8.
  std::vector<std::string> next(std::size_t most) {
    std::vector<std::string> lines;
    for (std::string line; lines.size() < most && std::getline(in(), line);) {
      ++read_;
      if (line.ends_with('\r')) line.pop_back();
      const std::size_t valid = valid_utf8(line);
      check<DataError>(valid == line.size(), place(0), ": byte ", valid + 1,
                       " of the line is no UTF-8");
      lines.push_back(std::move(line));
    }
    return lines;
  }
  // FILE:LINE, so many lines before the last one that was read.
  std::string place(std::size_t before) const {
    return name_ + ":" + std::to_string(read_ - before);
  }

 private:
  std::istream& in() { return stored_ ? file_ : std::cin; }
  std::string name_;
  bool stored_;
  std::ifstream file_;
  std::size_t read_ = 0;
};

// Sentences of about one length are translated together. That of a line without text is empty.
std::vector<std::string> translate_lines(const TranslationModel& m, const Lines& from,
                                         const std::vector<std::string>& lines, std::size_t batch,
                                         const TranslateOptions& options) {
  const data::Marks marks = m.tokenizer->marks();
  const i64 positions = m.net->options().positions;
  std::vector<Sentence> ids(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    m.tokenizer->encode(lines[i], ids[i]);
    if (ids[i].empty()) continue;
    ids[i].push_back(marks.end);
    check<DataError>(static_cast<i64>(ids[i].size()) <= positions, from.place(lines.size() - 1 - i),
                     ": the line has ", ids[i].size(), " ids, the model reads ", positions,
                     "; split it");
  }
  std::vector<std::size_t> order(lines.size());
  std::iota(order.begin(), order.end(), 0u);
  std::erase_if(order, [&](std::size_t i) { return ids[i].empty(); });
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return ids[i].size(); });
  std::vector<std::string> out(lines.size());
  for (std::size_t at = 0; at < order.size(); at += batch) {
    const std::span some = std::span(order).subspan(at, std::min(batch, order.size() - at));
    std::vector<Sentence> sources;
    for (const std::size_t i : some) sources.push_back(ids[i]);
    const auto found = translate_sentences(*m.net, marks, sources, options);
    for (std::size_t i = 0; i < some.size(); ++i)
      out[some[i]] = sentence_text(*m.tokenizer, found[i]);
  }
  return out;
}

}  // namespace

int translate(const TranslateCommand& c) {
  check<ConfigError>(c.batch >= 1, "translate: --batch ", c.batch, " must be at least 1");
  check<ConfigError>(c.beam >= 1, "translate: --beam ", c.beam, " must be at least 1");
  check<ConfigError>(std::isfinite(c.length_penalty), "translate: --length-penalty ",
                     c.length_penalty);
  check<ConfigError>(c.threads >= 0, "translate: --threads ", c.threads, "; wanted at least 1");
  set_compute_threads(c.threads > 0 ? c.threads : cores());
  std::vector<std::string> reference;
  if (!c.reference.empty())
    reference = Lines(c.reference).next(std::numeric_limits<std::size_t>::max());
  Config config = load_config(c.arguments);
  allow_keys(config, "translate", {"train.dtype"});
  if (!config.origin.contains("train.dtype")) config.train.dtype = c.dtype;
  check_task(find_model(c.model), "translate", "translation");
  const TranslationModel m = load_translation_model(c.model, compute_type(config.train.dtype));
  for (const std::string& line : m.notes) say(line);
  Lines in(c.file);
  // Somebody who types waits for each answer.
  const bool typed = c.file == "-" && isatty(0) == 1;
  const auto batch = static_cast<std::size_t>(c.batch), chunk = typed ? 1 : 16 * batch;
  std::vector<std::string> out;
  for (;;) {
    const std::vector<std::string> lines = in.next(chunk);
    for (std::string& line : translate_lines(
             m, in, lines, batch, {.beam = c.beam, .length_penalty = c.length_penalty})) {
      if (!c.json) fmt::print("{}\n", line);
      if (c.json || !c.reference.empty()) out.push_back(std::move(line));
    }
    std::fflush(stdout);
    if (lines.size() < chunk) break;
  }
  JsonObject json;
  if (c.json) json.add("translations", out);
  const bool scored = !c.reference.empty() && reference.size() == out.size() && !out.empty();
  if (scored) {
    const data::Bleu bleu = data::bleu(out, reference);
    json.add("bleu", bleu.score).add("bleu_signature", std::string(data::kBleuSignature));
    if (!c.json)
      std::fputs(fmt::format("{}\n{}\n", bleu.text(), data::kBleuSignature).c_str(), stderr);
  }
  if (c.json) fmt::print("{}\n", json.str());
  check<DataError>(c.reference.empty() || scored, c.reference, ": has ", reference.size(),
                   " lines, and ", out.size(),
                   " were translated; BLEU wants as many of both, and at least one");
  return 0;
}

}  // namespace gossamer::apps
