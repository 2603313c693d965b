// Neighbours whose concatenation has the lowest rank are merged first, and a whole piece that is a
// token is one id. So every way to cut a token in two tokens is a merge, in the order of ranks.
#include "gossamer/data/text/tiktoken.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/text/byte_names.h"
#include "gossamer/data/text/marks.h"
#include "gossamer/data/text/steps/pattern.h"
#include "gossamer/data/text/tokenizer_json.h"

namespace gossamer::data {
namespace {

constexpr std::size_t kLongestToken = 512;  // bytes; o200k's longest has 128
constexpr i64 kMostIds = i64{1} << 22;

std::optional<std::string> from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4) return {};
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++padding;
  }
  std::string out;
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return {};
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out += static_cast<char>(bits >> held & 255);
  }
  return out;
}

struct Published {
  const char* split;
  std::size_t ranks;
  std::vector<std::pair<std::string, std::int32_t>> marks;
};

// What OpenAI adds to its vocabularies (tiktoken_ext/openai_public.py).
std::vector<std::pair<std::string, std::int32_t>> marks_for(const std::string& split,
                                                            std::size_t ranks) {
  const Published all[] = {
      {"gpt2", 50256, {{"<|endoftext|>", 50256}}},
      {"cl100k",
       100256,
       {{"<|endoftext|>", 100257},
        {"<|fim_prefix|>", 100258},
        {"<|fim_middle|>", 100259},
        {"<|fim_suffix|>", 100260},
        {"<|endofprompt|>", 100276}}},
      {"o200k", 199998, {{"<|endoftext|>", 199999}, {"<|endofprompt|>", 200018}}}};
  for (const Published& each : all)
    if (split == each.split && ranks == each.ranks) return each.marks;
  return {{std::string(kEndOfText), static_cast<std::int32_t>(ranks)}};
}

std::string written(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += byte_names()[static_cast<unsigned char>(c)];
  return out;
}

class Reading {
 public:
  explicit Reading(const Tokenizer::StoredFile& file) : file_(file), name_(printable(file.name)) {}

  ByteLevelVocabulary run(const std::string& split) {
    read_lines();
    ByteLevelVocabulary out;
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      const std::string& token = tokens_[id];
      check<DataError>(!token.empty(), code::damaged, name_, ": no token has the rank ", id);
      // of one token, as conversions of Hugging Face have them
      std::vector<std::pair<std::int32_t, std::int32_t>> cuts;
      for (std::size_t at = 1; at < token.size(); ++at) {
        const auto left = ids_.find(token.substr(0, at));
        if (left == ids_.end()) continue;
        const auto right = ids_.find(token.substr(at));
        if (right != ids_.end()) cuts.emplace_back(left->second, right->second);
      }
      std::ranges::sort(cuts);
      out.merges.insert(out.merges.end(), cuts.begin(), cuts.end());
    }
    for (int byte = 0; byte < 256; ++byte)
      check<DataError>(ids_.contains(std::string(1, static_cast<char>(byte))), code::damaged, name_,
                       ": has no token for byte ", byte);
    out.marks = marks_for(split, tokens_.size());
    out.tokens = std::move(tokens_);
    out.ignore_merges = true;
    return out;
  }

 private:
  void read_lines() {
    const std::string_view all = file_.bytes;
    i64 number = 0;
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t end = std::min(all.find('\n', at), all.size());
      std::string_view line = all.substr(at, end - at);
      at = end + 1;
      ++number;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty()) continue;
      const auto refuse = [&](const auto&... why) {
        fail<DataError>(code::damaged, name_, ":", number, ": \"",
                        printable(std::string(line.substr(0, 80))), "\" ", why...);
      };
      const std::size_t space = std::min(line.find(' '), line.size());
      const std::optional<std::string> token = from_base64(line.substr(0, space));
      i64 rank = -1;
      const char* const last = line.data() + line.size();
      if (space < line.size())
        if (const auto [stop, error] = std::from_chars(line.data() + space + 1, last, rank);
            error != std::errc() || stop != last)
          rank = -1;
      if (!token || rank < 0) refuse("is no base64 with a space and a rank behind it");
      if (rank >= kMostIds || token->size() > kLongestToken || token->empty())
        refuse("is no token of 1 to ", kLongestToken, " bytes with a rank below ", kMostIds);
      if (!ids_.emplace(*token, static_cast<std::int32_t>(rank)).second) refuse("is there twice");
      const auto id = static_cast<std::size_t>(rank);
      if (id >= tokens_.size()) tokens_.resize(id + 1);
      if (!tokens_[id].empty()) refuse("has a rank that another token has");
      tokens_[id] = *token;
    }
    check<DataError>(!tokens_.empty(), code::damaged, name_, ": has no tokens");
  }

  const Tokenizer::StoredFile& file_;
  std::string name_;
  std::vector<std::string> tokens_;  // by rank
  std::unordered_map<std::string, std::int32_t> ids_;
};

}  // namespace

std::string byte_level_json(const ByteLevelVocabulary& v, const std::string& split) {
  std::string added, vocabulary, merges;
  const auto next = [](std::string& list) -> std::string& {
    return list += list.empty() ? "" : ",\n";
  };
  for (const auto& [name, id] : v.marks)
    next(added) += JsonObject()
                       .add("id", id)
                       .add("content", name)
                       .add("single_word", false)
                       .add("lstrip", false)
                       .add("rstrip", false)
                       .add("normalized", false)
                       .add("special", true)
                       .str();
  for (std::size_t id = 0; id < v.tokens.size(); ++id)
    if (!v.tokens[id].empty())
      next(vocabulary) += json_text(written(v.tokens[id])) + ": " + std::to_string(id);
  const auto token = [&](std::int32_t id) {
    return json_text(written(v.tokens[static_cast<std::size_t>(id)]));
  };
  for (const auto& [left, right] : v.merges)
    next(merges) += "[" + token(left) + ", " + token(right) + "]";
  const auto byte_level = [](bool trim) {
    return JsonObject()
        .add("type", "ByteLevel")
        .add("add_prefix_space", false)
        .add("trim_offsets", trim)
        .add("use_regex", false);
  };
  const JsonObject regex = JsonObject()
                               .add("type", "Split")
                               .add("pattern", JsonObject().add("Regex", named_pattern(split)))
                               .add("behavior", "Isolated")
                               .add("invert", false);
  JsonObject model;
  model.add("type", "BPE").raw("dropout", "null").raw("unk_token", "null");
  model.raw("continuing_subword_prefix", "null").raw("end_of_word_suffix", "null");
  model.add("fuse_unk", false).add("byte_fallback", false);
  model.add("ignore_merges", v.ignore_merges).raw("vocab", "{" + vocabulary + "}");
  model.raw("merges", "[" + merges + "]");
  JsonObject out;
  out.add("version", "1.0").raw("truncation", "null").raw("padding", "null");
  out.raw("added_tokens", "[" + added + "]").raw("normalizer", "null");
  out.add("pre_tokenizer",
          JsonObject()
              .add("type", "Sequence")
              .raw("pretokenizers", "[" + regex.str() + ", " + byte_level(false).str() + "]"));
  out.add("post_processor", byte_level(false)).add("decoder", byte_level(true));
  return out.add("model", model).str() + "\n";
}

std::shared_ptr<const Tokenizer> read_tiktoken(const Tokenizer::StoredFile& file,
                                               const std::string& split) {
  named_pattern(split);  // it exists
  return read_tokenizer_json({"tokenizer.json", byte_level_json(Reading(file).run(split), split)});
}

}  // namespace gossamer::data
