// `gossamer generate MODEL --prompt TEXT`: a language model goes on with a text, shown as it grows.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/json.h"
#include "gossamer/apps/machine.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/language_model.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/random.h"
#include "gossamer/data/text/utf8.h"
#include "gossamer/models/sampling.h"

namespace gossamer::apps {
namespace {

using Ids = std::vector<std::int32_t>;

std::string prompt_of(const GenerateCommand& c) {
  check<ConfigError>(c.prompt.empty() || c.file.empty(),
                     "generate: --prompt and --file are two prompts; give one");
  if (c.file.empty()) return c.prompt;
  std::ifstream in;
  if (c.file != "-") in.open(c.file, std::ios::binary);
  std::istream& from = c.file == "-" ? std::cin : in;
  check<IoError>(from.good(), c.file, ": cannot open this file with the prompt");
  return {std::istreambuf_iterator<char>(from), {}};
}

// The logits behind a text that grows. With a cache, each id is computed once; when all positions
// are taken, the later half of them is computed again, and the text goes on from there.
class Reader {
 public:
  Reader(models::Gpt2& net, bool cache) : net_(net), with_cache_(cache), cache_(net.cache(1)) {}
  Tensor logits(const Ids& ids) {
    const auto positions = static_cast<std::size_t>(net_.options().positions);
    if (ids.size() - begin_ > positions) {
      begin_ = ids.size() - std::max<std::size_t>(1, positions / 2);
      read_ = begin_;
      cache_ = net_.cache(1);
    }
    if (!with_cache_) read_ = begin_, cache_ = net_.cache(1);
    const std::span<const std::int32_t> fresh(ids.data() + read_, ids.size() - read_);
    read_ = ids.size();
    return net_.step(Tensor::from(fresh, {1, static_cast<i64>(fresh.size())}), cache_);
  }

 private:
  models::Gpt2& net_;
  bool with_cache_;
  models::Gpt2::Cache cache_;
  std::size_t begin_ = 0, read_ = 0;  // ids that are in the cache
};

// Prints whole characters only: an id may end inside of one.
class Stream {
 public:
  explicit Stream(bool silent) : silent_(silent) {}
  void add(const std::string& bytes) {
    text_ += bytes;
    const std::string_view left = std::string_view(text_).substr(shown_);
    std::size_t whole = data::valid_utf8(left);
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

}  // namespace

int generate(const GenerateCommand& c) {
  const models::SamplingOptions sampling{c.temperature, c.top_k, c.top_p};
  models::check_sampling(sampling);
  check<ConfigError>(c.tokens >= 1, "generate: --tokens ", c.tokens, "; wanted at least 1");
  check<ConfigError>(c.threads >= 0, "generate: --threads ", c.threads, "; wanted at least 1");
  const std::string prompt = prompt_of(c);
  set_compute_threads(c.threads > 0 ? c.threads : cores());
  LanguageModel m = load_language_model(c.model, compute_type(c.dtype));
  if (!c.tokenizer.empty()) m.tokenizer = data::open_tokenizer(c.tokenizer);
  check<ConfigError>(m.tokenizer != nullptr, m.file.string(),
                     ": there is no tokenizer beside it; name its folder with --tokenizer");
  check<ConfigError>(m.tokenizer->size() <= m.net->options().vocabulary, "--tokenizer ",
                     c.tokenizer, " has ", m.tokenizer->size(), " ids, the model ",
                     m.net->options().vocabulary);
  const std::int32_t end = m.tokenizer->marks().end;
  Ids ids;
  m.tokenizer->encode(prompt, ids);
  if (ids.empty()) ids.push_back(std::max(end, 0));  // as at the beginning of a document
  const std::size_t given = prompt.empty() ? 1 : 0;

  Stream out(c.json);
  out.add(prompt);
  Reader reader(*m.net, !c.no_cache);
  Rng rng(static_cast<std::uint64_t>(c.seed));
  const auto began = std::chrono::steady_clock::now();
  i64 made = 0;
  // Ids that the tokenizer does not have, of a vocabulary that was rounded up, never come.
  const auto known = static_cast<std::size_t>(m.tokenizer->size());
  for (; made < c.tokens; ++made) {
    const Tensor logits = reader.logits(ids).to(DType::f32);
    const auto next = static_cast<std::int32_t>(
        models::sample(logits.span<float>().first(known), sampling, rng.uniform53()));
    if (next == end && !c.ignore_end) break;
    ids.push_back(next);
    std::string piece;
    m.tokenizer->decode(std::span(&next, 1), piece);
    out.add(piece);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  const std::string& text = out.end();
  if (c.json) {
    ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(given));
    fmt::print("{}\n", JsonObject()
                           .add("text", text)
                           .add("ids", ids)
                           .add("tokens", made)
                           .add("tokens_per_s", static_cast<double>(made) / seconds)
                           .str());
  }
  return 0;
}

}  // namespace gossamer::apps
