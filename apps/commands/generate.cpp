// `gossamer generate MODEL --prompt TEXT`: a language model goes on with a text, shown as it grows,
// or with several at once.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>

#include <fmt/core.h>

#include "gossamer/apps/command_keys.h"
#include "gossamer/apps/commands.h"
#include "gossamer/apps/json.h"
#include "gossamer/apps/machine.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/language_model.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/random.h"
#include "gossamer/core/utf8.h"
#include "gossamer/models/sampling.h"

namespace gossamer::apps {
namespace {

using Ids = std::vector<std::int32_t>;

std::vector<std::string> prompts_of(const GenerateCommand& c) {
  check<ConfigError>(c.prompts.empty() || c.file.empty(),
                     "generate: --prompt and --file both give prompts; use one of them");
  check<ConfigError>(!c.lines || !c.file.empty(), "generate: --lines is for a --file of prompts");
  if (c.file.empty()) return c.prompts.empty() ? std::vector<std::string>{""} : c.prompts;
  std::ifstream in;
  if (c.file != "-") in.open(c.file, std::ios::binary);
  std::istream& from = c.file == "-" ? std::cin : in;
  check<IoError>(from.good() && !std::filesystem::is_directory(c.file), c.file,
                 ": cannot open this file with the prompt");
  if (!c.lines) return {std::string(std::istreambuf_iterator<char>(from), {})};
  std::vector<std::string> out;
  for (std::string line; std::getline(from, line);) {
    if (line.ends_with('\r')) line.pop_back();
    out.push_back(line);
  }
  check<DataError>(!out.empty(), c.file, ": has no lines, so no prompts");
  return out;
}

// Prints whole characters only: an id may end inside of one.
class Stream {
 public:
  explicit Stream(bool silent) : silent_(silent) {}
  void add(const std::string& bytes) {
    text_ += bytes;
    const std::string_view left = std::string_view(text_).substr(shown_);
    std::size_t whole = valid_utf8(left);
    if (left.size() - whole >= 4) whole = left.size();  // no character will come of it
    show(whole);
  }
  const std::string& end() {
    show(text_.size() - shown_);
    if (!silent_) std::fputs("\n", stdout);
    return text_;
  }

 private:
  void show(std::size_t bytes) {
    if (!silent_) {
      std::fwrite(text_.data() + shown_, 1, bytes, stdout);
      std::fflush(stdout);
    }
    shown_ += bytes;
  }
  bool silent_;
  std::string text_;
  std::size_t shown_ = 0;
};

struct Text {
  Ids ids;  // the prompt's, then those that are made
  Rng rng;
  Stream out;
  std::size_t hidden = 0;   // ids in front that are no part of the text
  std::size_t surplus = 0;  // ids behind it
  i64 made = 0;
  bool ended = false;
};

std::vector<Text> texts_of(const GenerateCommand& c, const data::Tokenizer& tokenizer) {
  const std::vector<std::string> prompts = prompts_of(c);
  const bool shown = prompts.size() == 1 && c.samples == 1 && !c.json;
  std::vector<Text> texts;
  for (const std::string& prompt : prompts)
    for (i64 sample = 0; sample < c.samples; ++sample) {
      Text& text = texts.emplace_back(Text{.ids = {},
                                           .rng = Rng(static_cast<std::uint64_t>(c.seed + sample)),
                                           .out = Stream(!shown),
                                           .hidden = prompt.empty() ? 1u : 0u});
      tokenizer.encode(prompt, text.ids);
      // as at the beginning of a document
      if (text.ids.empty()) text.ids.push_back(std::max(tokenizer.marks().end, 0));
      text.out.add(prompt);
    }
  return texts;
}

// Texts that grow by one id at a time, all at once, and the logits behind them. With a cache, each
// id is computed once; when all positions are taken, the later half of them is computed again, and
// the texts go on from there.
class Reader {
 public:
  Reader(models::Gpt2& net, bool cache, i64 texts)
      : net_(net), with_cache_(cache), cache_(net.cache(texts)), texts_(texts) {}
  // Of the first `length` ids of each: [texts, vocabulary], f32.
  Tensor logits(std::span<const Text> texts, std::size_t length) {
    const auto positions = static_cast<std::size_t>(net_.options().positions);
    if (length - begin_ > positions) {
      begin_ = length - std::max<std::size_t>(1, positions / 2);
      read_ = begin_;
      cache_ = net_.cache(texts_);
    }
    if (!with_cache_) read_ = begin_, cache_ = net_.cache(texts_);
    Ids fresh;
    for (const Text& t : texts)
      fresh.insert(fresh.end(), t.ids.begin() + static_cast<std::ptrdiff_t>(read_),
                   t.ids.begin() + static_cast<std::ptrdiff_t>(length));
    const auto width = static_cast<i64>(length - read_);
    read_ = length;
    return net_.step(Tensor::from(fresh, {texts_, width}), cache_).to(DType::f32);
  }

 private:
  models::Gpt2& net_;
  bool with_cache_;
  models::Gpt2::Cache cache_;
  i64 texts_;
  std::size_t begin_ = 0, read_ = 0;  // ids that are in the cache
};

// One id after the other, until each text has ended or has as many as were asked for. Where a
// prompt is longer than the shortest, its ids are taken as they come.
void grow(std::span<Text> texts, const LanguageModel& m, const GenerateCommand& c) {
  const models::SamplingOptions sampling{c.temperature, c.top_k, c.top_p};
  const std::int32_t end = m.tokenizer->marks().end;
  // Ids that the tokenizer does not have, of a vocabulary that was rounded up, never come.
  const auto known = static_cast<std::size_t>(m.tokenizer->size()),
             width = static_cast<std::size_t>(m.net->options().vocabulary);
  const auto growing = [&](const Text& t) { return !t.ended && t.made < c.tokens; };
  std::size_t length = texts[0].ids.size();
  for (const Text& t : texts) length = std::min(length, t.ids.size());
  Reader reader(*m.net, !c.no_cache, static_cast<i64>(texts.size()));
  for (; std::ranges::any_of(texts, growing); ++length) {
    const Tensor logits = reader.logits(texts, length);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      Text& text = texts[i];
      if (text.ids.size() > length) continue;
      const bool grows = growing(text);
      const auto next = grows ? static_cast<std::int32_t>(models::sample(
                                    logits.span<float>().subspan(i * width, known), sampling,
                                    text.rng.uniform53()))
                              : text.ids.back();  // read by nobody, but each text is a row
      text.ended = text.ended || (grows && next == end && !c.ignore_end);
      text.ids.push_back(next);
      if (!grows || text.ended) {
        ++text.surplus;
        continue;
      }
      ++text.made;
      std::string piece;
      m.tokenizer->decode(std::span(&next, 1), piece);
      text.out.add(piece);
    }
  }
}

// Texts that grow together: as many as have their keys and values in 1 GiB.
std::size_t texts_at_once(const models::Gpt2& net) {
  constexpr i64 kCacheBytes = i64{1} << 30;
  const models::Gpt2Options& o = net.options();
  const i64 bytes = 2 * o.layers * o.width * o.positions * static_cast<i64>(sizeof(float));
  return static_cast<std::size_t>(std::max<i64>(1, kCacheBytes / bytes));
}

// Grows them, and prints what has not been shown yet.
void write_texts(std::span<Text> texts, bool first, bool several, const LanguageModel& m,
                 const GenerateCommand& c) {
  const auto began = std::chrono::steady_clock::now();
  grow(texts, m, c);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  i64 made = 0;
  for (const Text& t : texts) made += t.made;
  for (Text& t : texts) {
    const std::string& text = t.out.end();
    if (c.json) {
      const auto ids = std::span(t.ids).subspan(t.hidden, t.ids.size() - t.hidden - t.surplus);
      fmt::print("{}\n", JsonObject()
                             .add("text", text)
                             .add("ids", Ids(ids.begin(), ids.end()))
                             .add("tokens", t.made)
                             .add("tokens_per_s", static_cast<double>(made) / seconds)
                             .str());
    } else if (several) {
      fmt::print("{}{}\n", first && &t == &texts[0] ? "" : "---\n", text);
    }
  }
}

}  // namespace

int generate(const GenerateCommand& c) {
  models::check_sampling({c.temperature, c.top_k, c.top_p});
  check<ConfigError>(c.tokens >= 1, "generate: --tokens ", c.tokens, "; wanted at least 1");
  check<ConfigError>(c.samples >= 1, "generate: --samples ", c.samples, "; wanted at least 1");
  check<ConfigError>(c.threads >= 0, "generate: --threads ", c.threads, "; wanted at least 1");
  set_compute_threads(c.threads > 0 ? c.threads : cores());
  Config config = load_config(c.arguments);
  allow_keys(config, "generate", {"model.heads", "train.dtype"});
  if (!config.origin.contains("train.dtype")) config.train.dtype = c.dtype;
  const DType dtype = compute_type(config.train.dtype);
  check_task(find_model(c.model), "generate", "language");
  LanguageModel m = load_language_model(c.model, dtype, config.model.heads.value);
  for (const std::string& line : m.notes) say(line);
  if (!c.tokenizer.empty()) {
    const auto given = data::open_tokenizer(c.tokenizer);
    check<ConfigError>(!m.tokenizer || m.tokenizer->hash() == given->hash(), "--tokenizer ",
                       c.tokenizer, ": the model has another tokenizer, beside ", m.file,
                       "; leave --tokenizer out");
    m.tokenizer = given;
  }
  check<ConfigError>(m.tokenizer != nullptr, m.file,
                     ": there is no tokenizer beside it; name its folder with --tokenizer");
  check<ConfigError>(m.tokenizer->size() <= m.net->options().vocabulary, "--tokenizer ",
                     c.tokenizer, " has ", m.tokenizer->size(), " ids, the model ",
                     m.net->options().vocabulary);
  std::vector<Text> texts = texts_of(c, *m.tokenizer);
  const std::size_t step = texts_at_once(*m.net);
  for (std::size_t at = 0; at < texts.size(); at += step)
    write_texts(std::span(texts).subspan(at, std::min(step, texts.size() - at)), at == 0,
                texts.size() > 1, m, c);
  return 0;
}

}  // namespace gossamer::apps
