// The parts of the file are read in an order in which each finds what it refers to.
#include "gossamer/data/text/tokenizer_json.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/io/xxh3.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/mix.h"
#include "gossamer/data/text/json.h"
#include "gossamer/data/text/marks.h"
#include "gossamer/data/text/steps/bpe.h"
#include "gossamer/data/text/steps/fields.h"
#include "gossamer/data/text/steps_tokenizer.h"
#include "gossamer/data/text/tokenizer_config.h"

namespace gossamer::data {
namespace {

// Published vocabularies have up to 262,145 ids.
constexpr i64 kMostIds = i64{1} << 22;
constexpr std::size_t kLongestAdded = 1024;  // bytes

std::uint64_t hash_of(const std::string& text, std::uint64_t before) {
  return xxh3(std::as_bytes(std::span(text)), before);
}

// A step as it is written, without what decides about no id.
std::string written(const Json* step) {
  if (!step) return "null";
  Json copy = *step;
  std::vector<Json*> all{&copy};
  while (!all.empty()) {
    Json* const one = all.back();
    all.pop_back();
    if (one->is_object()) one->erase("trim_offsets");
    if (one->is_structured())
      for (Json& inner : *one) all.push_back(&inner);
  }
  return copy.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class Reading {
 public:
  explicit Reading(const Tokenizer::StoredFile& file)
      : file_(file),
        name_(printable(file.name)),
        json_(json_of<Json>(file.bytes, name_ + ": is no JSON")),
        top_(json_, name_) {}

  std::shared_ptr<const Tokenizer> run(const std::optional<Tokenizer::StoredFile>& config,
                                       const std::vector<Tokenizer::StoredFile>& others) {
    top_.know({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
               "post_processor", "decoder", "model"});
    if (top_.text("version") != "1.0") top_.refuse("is of a version that is not known");
    read_normalizer_of_file();
    if (top_.find("pre_tokenizer")) steps_.pre = read_pre_tokenizer(top_.object("pre_tokenizer"));
    read_model();
    read_added();
    const Fields* const decoder =
        top_.find("decoder") ? &decoder_.emplace(top_.object("decoder")) : nullptr;
    steps_.decoded = decode_tokens(std::move(tokens_), decoder);
    if (top_.find("post_processor")) read_post_processor(top_.object("post_processor"));
    steps_.marks = marks_of([this](std::string_view name) { return mark(name); });
    steps_.files.push_back({"tokenizer.json", file_.bytes});
    const auto mark_of_name = [this](const std::string& name) { return mark(name); };
    if (config) use_tokenizer_config(*config, name_, mark_of_name, steps_);
    steps_.rules = hash_of(written(top_.find("normalizer")), steps_.rules);
    steps_.rules = hash_of(written(top_.find("pre_tokenizer")), steps_.rules);
    steps_.files.insert(steps_.files.end(), others.begin(), others.end());
    return make_tokenizer(std::move(steps_));
  }

 private:
  void read_normalizer_of_file() {
    if (!top_.find("normalizer")) return;
    const Fields step = top_.object("normalizer");
    steps_.normalizer = read_normalizer(step);
    const std::array<std::string, 6> local{"NFC", "NFD", "NFKC", "NFKD", "Lowercase"};
    steps_.normalizer_is_local = std::ranges::find(local, step.type()) != local.end();
  }

  std::int32_t id_of(const std::string& token, const Fields& of) const {
    const auto found = vocabulary_.find(token);
    if (found == vocabulary_.end())
      of.refuse("needs the token \"" + printable(token.substr(0, 100)) +
                "\", which the vocabulary lacks");
    return found->second;
  }

  void place(i64 id, const std::string& token, const Fields& of) {
    if (id >= kMostIds)
      of.refuse("gives \"" + printable(token.substr(0, 100)) + "\" the id " + std::to_string(id) +
                "; at most " + std::to_string(kMostIds - 1) + " is possible");
    if (static_cast<std::size_t>(id) >= tokens_.size())
      tokens_.resize(static_cast<std::size_t>(id) + 1);
    tokens_[static_cast<std::size_t>(id)] = token;
  }

  void read_model() {
    const Fields model = top_.object("model");
    if (const std::string type = model.text_or("type", "BPE"); type != "BPE")
      model.refuse("is of the type " + type + ", which is not supported; BPE is" +
                   (type == "Unigram" ? ", and Unigram as SentencePiece's .model file" : ""));
    model.know({"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
    if (const Json* dropout = model.find("dropout");
        dropout && !(dropout->is_number() && dropout->get<double>() == 0))
      model.refuse("has dropout, so that a text would have other ids each time");
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!model.text_or(key, "").empty())
        model.refuse(std::string("has ") + key + ", which is not supported");
    read_vocabulary(model.object("vocab"));
    BpeOptions options{.byte_level = steps_.pre.byte_level,
                       .byte_fallback = model.flag_or("byte_fallback", false),
                       .ignore_merges = model.flag_or("ignore_merges", false),
                       .fuse_unk = model.flag_or("fuse_unk", false)};
    if (model.find("unk_token")) options.unk = id_of(model.text("unk_token"), model);
    Merges merges = read_merges(model);
    for (const bool each : {options.byte_fallback, options.ignore_merges, options.fuse_unk})
      steps_.rules = mix(steps_.rules, each);
    steps_.rules = mix(steps_.rules, static_cast<std::uint32_t>(options.unk.value_or(-1)));
    for (const std::string& token : tokens_) steps_.rules = hash_of(token, steps_.rules);
    steps_.model = std::make_unique<Bpe>(vocabulary_, std::move(merges), options);
  }

  void read_vocabulary(const Fields& vocabulary) {
    const Json& all = vocabulary.json();
    if (all.empty()) vocabulary.refuse("is empty");
    std::vector<bool> taken;
    vocabulary_.reserve(all.size());
    for (const auto& [token, value] : all.items()) {
      const i64 id = value.is_number_unsigned() && value.get<std::uint64_t>() <= std::uint64_t{1}
                                                                                     << 53
                         ? value.get<i64>()
                         : -1;
      if (id < 0 ||
          (static_cast<std::size_t>(id) < taken.size() && taken[static_cast<std::size_t>(id)]))
        vocabulary.refuse("gives \"" + printable(token.substr(0, 100)) + "\" the id " +
                          printable(value.dump(-1, ' ', false, Json::error_handler_t::replace)) +
                          "; each token has one of its own");
      place(id, token, vocabulary);
      taken.resize(tokens_.size());
      taken[static_cast<std::size_t>(id)] = true;
      vocabulary_.emplace(token, static_cast<std::int32_t>(id));
    }
  }

  // Both forms: ["a", "b"], and "a b" in older files.
  Merges read_merges(const Fields& model) {
    const Json* const list = model.find("merges");
    if (!list || !list->is_array()) model.refuse("has no list \"merges\"");
    Merges merges;
    i64 number = -1;
    for (const Json& each : *list) {
      ++number;
      const auto refuse = [&](const std::string& what) {
        model.refuse("has the merge " + std::to_string(number) + ", which " + what);
      };
      std::string left, right;
      if (each.is_string()) {
        const auto& line = each.get_ref<const std::string&>();
        if (line.starts_with("#version")) continue;
        const std::size_t space = line.find(' ');
        if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
          refuse("is not two tokens with a space between them");
        left = line.substr(0, space);
        right = line.substr(space + 1);
      } else {
        if (!each.is_array() || each.size() != 2 || !each[0].is_string() || !each[1].is_string())
          refuse("is not two tokens");
        left = each[0].get<std::string>();
        right = each[1].get<std::string>();
      }
      std::array<std::int32_t, 3> ids{};
      const std::array<std::string, 3> tokens{left, right, left + right};
      for (std::size_t i = 0; i < 3; ++i) {
        const auto found = vocabulary_.find(tokens[i]);
        if (found == vocabulary_.end())
          refuse("needs the token \"" + printable(tokens[i].substr(0, 100)) +
                 "\", which the vocabulary lacks");
        ids[i] = found->second;
      }
      merges.add(ids[0], ids[1], ids[2]);  // of two of the same, the later counts
      steps_.rules = mix(steps_.rules, static_cast<std::uint64_t>(ids[0]) << 32 |
                                           static_cast<std::uint64_t>(ids[1]));
    }
    return merges;
  }

  void read_added() {
    if (!top_.find("added_tokens")) return;
    std::unordered_set<std::string> contents;
    for (const Fields& each : top_.list("added_tokens")) {
      each.know({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
      AddedToken token{.content = each.text("content"),
                       .special = each.flag_or("special", false),
                       .single_word = each.flag_or("single_word", false),
                       .strips_left = each.flag_or("lstrip", false),
                       .strips_right = each.flag_or("rstrip", false)};
      token.normalized = each.flag_or("normalized", !token.special);
      if (token.content.empty() || token.content.size() > kLongestAdded)
        each.refuse("has a content of " + std::to_string(token.content.size()) +
                    " bytes; 1 to 1024 are possible");
      if (!contents.insert(token.content).second)
        each.refuse("is \"" + printable(token.content) + "\" again");
      const i64 id = each.number("id");
      const auto known = vocabulary_.find(token.content);
      if (known != vocabulary_.end() && known->second != id)
        each.refuse("has the id " + std::to_string(id) + ", the vocabulary gives \"" +
                    printable(token.content) + "\" the id " + std::to_string(known->second));
      if (known == vocabulary_.end() && id < static_cast<i64>(tokens_.size()) &&
          !tokens_[static_cast<std::size_t>(id)].empty())
        each.refuse("has the id " + std::to_string(id) + ", which is that of \"" +
                    printable(tokens_[static_cast<std::size_t>(id)].substr(0, 100)) + "\"");
      token.id = static_cast<std::int32_t>(id);
      added_.emplace(token.content, token.id);
      if (token.normalized && steps_.normalizer) token.content = steps_.normalizer(token.content);
      place(id, token.content, each);
      steps_.added.push_back(std::move(token));
    }
  }

  void read_post_processor(const Fields& step) {
    const std::string type = step.type();
    if (type == "Sequence") {
      step.know({"processors"});
      for (const Fields& each : step.list("processors")) read_post_processor(each);
      return;
    }
    if (type == "ByteLevel") return;  // moves offsets only
    if (type != "TemplateProcessing")
      step.refuse("is of the type " + type + ", which is not supported");
    step.know({"single", "pair", "special_tokens"});
    const auto all = step.list("single");
    bool behind = false;
    for (const Fields& each : all) {
      if (each.json().contains("Sequence")) {
        if (behind) each.refuse("is the text again");
        behind = true;
        continue;
      }
      const std::string name = each.object("SpecialToken").text("id");
      const Fields special = step.object("special_tokens").object(name.c_str());
      const Json* const ids = special.find("ids");
      if (!ids || !ids->is_array()) special.refuse("has no list \"ids\"");
      for (const Json& id : *ids) {
        if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= steps_.decoded.text.size())
          special.refuse("has an id that is not in the vocabulary");
        (behind ? steps_.frame.after : steps_.frame.before).push_back(id.get<std::int32_t>());
      }
    }
    if (!behind) step.refuse("has no text in it");
  }

  // A mark's id by its name; -1: there is none.
  std::int32_t mark(std::string_view name) const {
    const std::string key(name);
    if (const auto found = added_.find(key); found != added_.end()) return found->second;
    return -1;
  }

  const Tokenizer::StoredFile& file_;
  std::string name_;
  Json json_;
  Fields top_;
  std::optional<Fields> decoder_;
  Bpe::Vocabulary vocabulary_;
  std::vector<std::string> tokens_;  // by id
  std::unordered_map<std::string, std::int32_t> added_;
  TokenizerSteps steps_;
};

}  // namespace

std::shared_ptr<const Tokenizer> read_tokenizer_json(
    const Tokenizer::StoredFile& file, const std::optional<Tokenizer::StoredFile>& config,
    const std::vector<Tokenizer::StoredFile>& others) {
  return Reading(file).run(config, others);
}

}  // namespace gossamer::data
