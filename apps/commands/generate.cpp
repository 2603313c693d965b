// `gossamer generate MODEL --prompt TEXT`: a language model goes on with a text, shown as it grows,
// or with several at once.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include <fmt/core.h>

#include "gossamer/apps/command_keys.h"
#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/data_progress.h"
#include "gossamer/apps/commands/lines.h"
#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/machine.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/language_model.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/random.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/models/sampling.h"

namespace gossamer::apps {
namespace {

using Ids = std::vector<std::int32_t>;

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

// What the texts begin with, as they grow together.
class Prompts {
 public:
  Prompts(const GenerateCommand& c, const LanguageModel& m) : c_(c), m_(m), given_(c.prompts) {
    check<ConfigError>(c.prompts.empty() || c.file.empty(),
                       "generate: --prompt and --file both give prompts; use one of them");
    check<ConfigError>(!c.lines || !c.file.empty(), "generate: --lines is for a --file of prompts");
    if (c.lines) {
      lines_ = std::make_unique<Lines>(c.file);
    } else if (!c.file.empty()) {
      given_ = {whole_file(c.file)};
    } else if (given_.empty()) {
      given_ = {""};
    }
    several_ = c.lines || given_.size() > 1 || c.samples > 1;
  }
  struct Group {
    std::vector<Text> texts;
    std::string wrong;  // with the line behind these, which no text begins with
  };
  // At most `most` texts, or those of one prompt if they are more. Of standard input it takes one
  // line, which is answered before the next is read. An empty group: there is no prompt left.
  Group next(std::size_t most) {
    Group out;
    if (!lines_) {
      for (const std::string& prompt : std::exchange(given_, {}))
        add(prompt, c_.file.empty() ? "--prompt" : c_.file, out.texts);
      return out;
    }
    if (c_.file == "-") most = 1;
    for (std::string line; out.texts.size() < most && out.wrong.empty() && lines_->next(line);) {
      any_ = true;
      try {
        add(line, lines_->place(), out.texts);
      } catch (const DataError& error) {
        out.wrong = lines_->place() + ": " + error.what();
      }
    }
    check<DataError>(any_, c_.file, ": has no lines, so no prompts");
    return out;
  }
  // Whether there may be several texts; one alone is shown while it grows.
  bool several() const { return several_; }

 private:
  static std::string whole_file(const std::string& file) {
    std::ifstream in;
    if (file != "-") in.open(file, std::ios::binary);
    std::istream& from = file == "-" ? std::cin : in;
    check<IoError>(from.good() && !std::filesystem::is_directory(file), file,
                   ": cannot open this file with the prompt");
    return {std::istreambuf_iterator<char>(from), {}};
  }

  void add(const std::string& prompt, const std::string& place, std::vector<Text>& texts) const {
    Ids ids;
    m_.tokenizer->encode(prompt, ids);
    // as at the beginning of a document
    if (ids.empty()) ids.push_back(std::max(m_.tokenizer->marks().end, 0));
    const i64 positions = m_.net->options().positions;
    if (static_cast<i64>(ids.size()) > positions)
      say(fmt::format("{}: the prompt has {} ids, the model sees {} at once, so not its beginning",
                      place, ids.size(), positions));
    for (i64 sample = 0; sample < c_.samples; ++sample) {
      texts.push_back({.ids = ids,
                       .rng = Rng(static_cast<std::uint64_t>(c_.seed + sample)),
                       .out = Stream(several_ || c_.json),
                       .hidden = prompt.empty() ? 1u : 0u});
      texts.back().out.add(prompt);
    }
  }

  const GenerateCommand& c_;
  const LanguageModel& m_;
  std::vector<std::string> given_;
  std::unique_ptr<Lines> lines_;
  bool several_ = false, any_ = false;
};

// Texts that grow by one id at a time, all at once, and the logits behind them. With a cache, each
// id is computed once; when all positions are taken, the later half of them is computed again, and
// the texts go on from there.
class Reader {
 public:
  Reader(models::Gpt2& net, bool cache, i64 texts)
      : net_(net), with_cache_(cache), cache_(net.cache(texts)), texts_(texts) {}
  // The logits behind the first `length` ids of each text: [texts, vocabulary], f32.
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

// One id after the other, until each text has ended or has as many as were asked for, or a signal
// comes. Where a prompt is longer than the shortest, its ids are taken as they come.
void grow(std::span<Text> texts, const LanguageModel& m, const GenerateCommand& c) {
  const std::int32_t end = m.tokenizer->marks().end;
  // Ids that the tokenizer does not have, of a vocabulary that was rounded up, never come.
  const auto known = static_cast<std::size_t>(m.tokenizer->size()),
             width = static_cast<std::size_t>(m.net->options().vocabulary);
  const auto growing = [&](const Text& t) { return !t.ended && t.made < c.tokens; };
  std::size_t length = texts[0].ids.size();
  for (const Text& t : texts) length = std::min(length, t.ids.size());
  Reader reader(*m.net, !c.no_cache, static_cast<i64>(texts.size()));
  for (; std::ranges::any_of(texts, growing) && stop_signal() == 0; ++length) {
    const Tensor logits = reader.logits(texts, length);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      Text& text = texts[i];
      if (text.ids.size() > length) continue;
      const bool grows = growing(text);
      const auto next = grows ? static_cast<std::int32_t>(models::sample(
                                    logits.span<float>().subspan(i * width, known), c.sampling,
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
  stop_after_step();  // what has been made until then is printed
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
  models::check_sampling(c.sampling);
  check<ConfigError>(c.tokens >= 1, "generate: --tokens ", c.tokens, "; wanted at least 1");
  check<ConfigError>(c.samples >= 1, "generate: --samples ", c.samples, "; wanted at least 1");
  check<ConfigError>(c.threads >= 0, "generate: --threads ", c.threads, "; wanted at least 1");
  set_compute_threads(c.threads > 0 ? c.threads : cores());
  Config config = load_config(c.arguments);
  allow_keys(config, "generate", {"model.heads", "train.dtype"});
  if (!config.origin.contains("train.dtype")) config.train.dtype = c.dtype;
  const DType dtype = compute_type(config.train.dtype);
  const ModelSource model = find_model(c.model, config);
  check_task(model, "generate", "language");
  LanguageModel m = load_language_model(model, dtype, config.model.heads);
  for (const std::string& line : m.notes) say(line);
  if (!c.tokenizer.empty()) {
    const auto given = data::open_tokenizer(c.tokenizer);
    check<ConfigError>(!m.tokenizer || m.tokenizer->same_ids(*given), "--tokenizer ", c.tokenizer,
                       ": the model has another tokenizer, beside ", m.file,
                       "; leave --tokenizer out");
    m.tokenizer = given;
  }
  check<ConfigError>(m.tokenizer != nullptr, m.file,
                     ": there is no tokenizer beside it; name its folder with --tokenizer");
  check<ConfigError>(m.tokenizer->size() <= m.net->options().vocabulary, "--tokenizer ",
                     c.tokenizer, " has ", m.tokenizer->size(), " ids, the model ",
                     m.net->options().vocabulary);
  Prompts prompts(c, m);
  const bool several = prompts.several();
  const std::size_t step = texts_at_once(*m.net);
  bool first = true, left_out = false;
  for (;;) {
    install_stop_handlers();  // nothing is lost while a prompt is waited for
    Prompts::Group group = prompts.next(step);
    if (group.texts.empty() && group.wrong.empty()) break;
    for (std::size_t at = 0; at < group.texts.size() && stop_signal() == 0; at += step) {
      const std::size_t count = std::min(step, group.texts.size() - at);
      write_texts(std::span(group.texts).subspan(at, count), first, several, m, c);
      first = false;
    }
    if (stop_signal() != 0) return stopped_code();
    if (!group.wrong.empty()) {
      left_out = true;
      say(group.wrong);
      fmt::print("{}\n", c.json  ? JsonObject().add("error", group.wrong).str()
                         : first ? ""
                                 : "---\n");
      first = false;
    }
    std::fflush(stdout);
  }
  return left_out ? 3 : 0;
}

}  // namespace gossamer::apps
