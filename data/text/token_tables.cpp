// The tokenizer's files are read again: they hold the tables, and the tokenizer need not keep them.
#include "gossamer/data/text/token_tables.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "gossamer/core/error.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/text/byte_names.h"
#include "gossamer/data/text/json.h"
#include "gossamer/data/text/sentence_piece.h"
#include "gossamer/data/text/steps/pattern.h"

namespace gossamer::data {
namespace {

using Json = nlohmann::json;
constexpr std::string_view kSpaceMark = "\u2581";

[[noreturn]] void refuse(const std::string& what) {
  fail<DataError>("the tokenizer ", what, ", which tables of tokens cannot say");
}

// A step as a list of steps: those of a Sequence, or itself.
std::vector<Json> steps_of(const Json& file, const char* key, const char* inner) {
  const Json& step = file.value(key, Json());
  if (step.is_null()) return {};
  if (step.value("type", "") != "Sequence") return {step};
  return step.at(inner).get<std::vector<Json>>();
}

bool is_type(const Json& step, const char* type) { return step.value("type", "") == type; }

// Spaces become the mark.
bool marks_spaces(const Json& step) {
  return is_type(step, "Replace") && step.at("pattern") == Json{{"String", " "}} &&
         step.at("content") == std::string(kSpaceMark);
}

class Tables {
 public:
  Tables(const Json& file, i64 size) : file_(file), size_(static_cast<std::size_t>(size)) {}

  TokenTables run() && {
    const auto pre = steps_of(file_, "pre_tokenizer", "pretokenizers"),
               normalizer = steps_of(file_, "normalizer", "normalizers");
    out_.byte_level =
        std::ranges::any_of(pre, [](const Json& step) { return is_type(step, "ByteLevel"); });
    read_tokens();
    if (out_.byte_level) {
      read_split(pre);
      for (const Json& step : normalizer) {
        if (!is_type(step, "NFC")) refuse("normalizes text by " + step.value("type", ""));
        out_.notes.push_back(
            "the tables do not say that text is normalized (NFC) before it is cut");
      }
      out_.ignore_merges = model().value("ignore_merges", false);
      for (const auto& [left, right] : merges()) out_.merges.push_back(left + " " + right);
    } else {
      read_spaces(pre, normalizer);
      for (const char* const digits = "0123456789ABCDEF"; const int byte : all_bytes()) {
        const std::string name = std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">";
        const auto found = ids_.find(name);
        if (found == ids_.end() || !model().value("byte_fallback", false))
          refuse("writes unknown characters by no tokens of their bytes");
        out_.kinds[found->second] = TokenKind::byte;
      }
      score();
    }
    return std::move(out_);
  }

 private:
  const Json& model() const { return file_.at("model"); }

  static std::vector<int> all_bytes() {
    std::vector<int> out(256);
    for (int i = 0; i < 256; ++i) out[static_cast<std::size_t>(i)] = i;
    return out;
  }

  void read_tokens() {
    out_.tokens.resize(size_);
    out_.kinds.assign(size_, TokenKind::unused);
    const auto set = [&](const std::string& token, std::size_t id, TokenKind kind) {
      out_.tokens[id] = token;
      out_.kinds[id] = kind;
      ids_[token] = id;
    };
    for (const auto& [token, id] : model().at("vocab").items())
      set(token, id.get<std::size_t>(), TokenKind::normal);
    const std::string unknown = model().value("unk_token", Json()).is_string()
                                    ? model().at("unk_token").get<std::string>()
                                    : "";
    for (const Json& each : file_.value("added_tokens", Json::array())) {
      const auto content = each.at("content").get<std::string>();
      for (const char* flag : {"single_word", "lstrip", "rstrip"})
        if (each.value(flag, false))
          out_.notes.push_back("the tables do not say " + std::string(flag) + " of " + content);
      set(content, each.at("id").get<std::size_t>(),
          each.value("special", false) ? TokenKind::control : TokenKind::user_defined);
    }
    if (const auto at = ids_.find(unknown); at != ids_.end())
      out_.kinds[at->second] = TokenKind::unknown;
  }

  void read_split(const std::vector<Json>& pre) {
    const Json& bytes = pre.back();
    if (!is_type(bytes, "ByteLevel")) refuse("cuts text behind ByteLevel");
    if (bytes.value("add_prefix_space", true)) refuse("puts a space in front of each text");
    const bool cuts = bytes.value("use_regex", true);
    if (cuts && pre.size() == 1) {
      out_.split = "gpt2";
    } else if (cuts && pre.size() == 2 && is_type(pre[0], "Digits") &&
               pre[0].value("individual_digits", false)) {
      out_.split = "digits";
    } else if (!cuts && pre.size() == 2 && is_type(pre[0], "Split") &&
               pre[0].at("pattern").contains("Regex")) {
      const auto how = std::pair(pre[0].value("behavior", ""), pre[0].value("invert", false));
      const auto pattern = pre[0].at("pattern").at("Regex").get<std::string>();
      const bool pieces = how == std::pair(std::string("Isolated"), false) ||
                          how == std::pair(std::string("Removed"), true);
      for (const char* name : {"gpt2", "cl100k", "qwen2", "o200k", "tekken"})
        if (pieces && pattern == named_pattern(name)) out_.split = name;
    }
    if (out_.split.empty()) refuse("cuts text by a pattern without a name");
  }

  void read_spaces(const std::vector<Json>& pre, const std::vector<Json>& normalizer) {
    if (pre.empty() && normalizer.size() == 2 && is_type(normalizer[0], "Prepend") &&
        normalizer[0].at("prepend") == std::string(kSpaceMark) && marks_spaces(normalizer[1])) {
      out_.space_in_front = true;
    } else if (pre.empty() && normalizer.size() == 1 && marks_spaces(normalizer[0])) {
      out_.space_in_front = false;
    } else if (normalizer.empty() && pre.size() == 1 && is_type(pre[0], "Metaspace") &&
               pre[0].value("replacement", "") == kSpaceMark) {
      const std::string scheme = pre[0].value(
          "prepend_scheme", pre[0].value("add_prefix_space", true) ? "always" : "never");
      out_.space_in_front = scheme != "never";
      if (scheme == "first")
        out_.notes.push_back(
            "the tables say that a space stands in front of each part between marks; the "
            "tokenizer puts it in front of the whole text only");
      if (scheme != "never")
        out_.notes.push_back(
            "the tables say that a space is put in front of a text that has one, too");
    } else {
      refuse("changes text in other ways than SentencePiece does");
    }
  }

  std::vector<std::array<std::string, 2>> merges() const {
    std::vector<std::array<std::string, 2>> out;
    for (const Json& each : model().at("merges")) {
      if (each.is_array()) {
        out.push_back({each[0].get<std::string>(), each[1].get<std::string>()});
        continue;
      }
      const auto line = each.get<std::string>();
      if (line.starts_with("#version")) continue;
      const std::size_t space = line.find(' ');
      out.push_back({line.substr(0, space), line.substr(space + 1)});
    }
    return out;
  }

  // By scores a token is made in every way that its parts allow, as soon as it is the best; so the
  // merges of a token must be all of its ways, one behind the other.
  void score() {
    out_.scores.assign(size_, 0);
    std::unordered_set<std::string> listed, made;
    std::string last;
    float next = 0;
    for (const auto& [left, right] : merges()) {
      const std::string whole = left + right;
      if (whole != last) {
        if (!made.insert(whole).second) refuse("has merges of \"" + whole + "\" in two places");
        out_.scores[ids_.at(whole)] = --next;
        last = whole;
      }
      listed.insert(left + " " + right);
    }
    const auto is_normal = [&](const std::string& token) {
      const auto found = ids_.find(token);
      return found != ids_.end() && out_.kinds[found->second] == TokenKind::normal;
    };
    for (std::size_t id = 0; id < size_; ++id) {
      const std::string& token = out_.tokens[id];
      if (out_.kinds[id] != TokenKind::normal) continue;
      for (std::size_t at = utf8_length(token); at > 0 && at < token.size();
           at += utf8_length(std::string_view(token).substr(at))) {
        const std::string left = token.substr(0, at), right = token.substr(at);
        if (is_normal(left) && is_normal(right) && !listed.contains(left + " " + right))
          refuse("does not make \"" + token + "\" of \"" + left + "\" and \"" + right + "\"");
      }
    }
  }

  const Json& file_;
  const std::size_t size_;
  std::unordered_map<std::string, std::size_t> ids_;
  TokenTables out_;
};

// GPT-2's two files as the parts of a tokenizer.json that are read here.
Json as_tokenizer_json(const Tokenizer& tokenizer, const std::string& vocabulary,
                       const std::string& merges) {
  Json lines = Json::array(), added = Json::array();
  for (std::size_t at = 0; at < merges.size();) {
    const std::size_t end = std::min(merges.find('\n', at), merges.size());
    std::string line = merges.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) lines.push_back(std::move(line));
  }
  const Marks marks = tokenizer.marks();
  for (const std::int32_t id : {marks.end, marks.begin, marks.pad}) {
    if (id < 0) continue;
    std::string name;
    tokenizer.decode(std::span(&id, 1), name);
    added.push_back({{"id", id}, {"content", name}, {"special", true}});
  }
  return {{"model",
           {{"vocab", json_of<Json>(vocabulary, "vocab.json: is no JSON")}, {"merges", lines}}},
          {"added_tokens", added},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}}};
}

}  // namespace

TokenTables token_tables(const Tokenizer& tokenizer) {
  const auto files = tokenizer.files();
  const auto find = [&](const char* name) {
    const auto at = std::ranges::find(files, name, &Tokenizer::StoredFile::name);
    return at == files.end() ? nullptr : &*at;
  };
  if (const auto* file = find("tokenizer.json")) {
    const auto json = json_of<Json>(file->bytes, "tokenizer.json: is no JSON");
    try {
      return Tables(json, tokenizer.size()).run();
    } catch (const Json::exception& error) {  // as a null in place of a flag
      refuse("has a step that is written in another way (" + std::string(error.what()) + ")");
    }
  }
  if (const auto* vocabulary = find("vocab.json"), *merges = find("merges.txt");
      vocabulary && merges)
    return Tables(as_tokenizer_json(tokenizer, vocabulary->bytes, merges->bytes), tokenizer.size())
        .run();
  if (const auto* file = find("tokenizer.model")) return sentence_piece_tables(*file);
  refuse("is none of byte pairs");
}

}  // namespace gossamer::data
