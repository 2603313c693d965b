// `gossamer translate MODEL < lines`: a translation of each line, in the same order.
#include <fstream>
#include <iostream>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/json.h"
#include "gossamer/apps/machine.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/translation_model.h"
#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"
#include "gossamer/data/text/bleu.h"

namespace gossamer::apps {
namespace {

std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream opened;
  if (file != "-") opened.open(file);
  std::istream& in = file == "-" ? std::cin : opened;
  check<IoError>(in.good(), file, ": cannot open this file of lines");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace

int translate(const TranslateCommand& c) {
  check<ConfigError>(c.batch >= 1 && c.beam >= 1 && c.threads >= 0,
                     "translate: --batch and --beam must be at least 1, --threads not negative");
  set_compute_threads(c.threads > 0 ? c.threads : cores());
  const TranslationModel m = load_translation_model(c.model, compute_type(c.dtype));
  const std::vector<std::string> lines = lines_of(c.file);
  const TranslateOptions options{.beam = c.beam, .length_penalty = c.length_penalty};
  std::vector<std::string> out;
  for (std::size_t at = 0; at < lines.size(); at += static_cast<std::size_t>(c.batch)) {
    const auto begin = lines.begin() + static_cast<std::ptrdiff_t>(at);
    const auto count = std::min<std::ptrdiff_t>(c.batch, lines.end() - begin);
    for (std::string& line :
         translate_lines(*m.net, *m.tokenizer, {begin, begin + count}, options)) {
      if (!c.json) fmt::print("{}\n", line);
      out.push_back(std::move(line));
    }
    std::fflush(stdout);
  }
  JsonObject json;
  json.add("translations", out);
  if (!c.reference.empty()) {
    const data::Bleu score = data::bleu(out, lines_of(c.reference));
    json.add("bleu", score.score).add("signature", std::string(data::kBleuSignature));
    if (!c.json) fmt::print(stderr, "{}\n{}\n", score.text(), data::kBleuSignature);
  }
  if (c.json) fmt::print("{}\n", json.str());
  return 0;
}

}  // namespace gossamer::apps
