// Reading a vocabulary with its merges.
#include "gossamer/data/text/byte_pairs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/io/xxh3.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/mix.h"
#include "gossamer/data/text/byte_names.h"
#include "gossamer/data/text/json.h"
#include "gossamer/data/text/marks.h"
#include "gossamer/data/text/steps/bpe.h"
#include "gossamer/data/text/steps_tokenizer.h"

namespace gossamer::data {
namespace {

constexpr std::size_t kMostTokens = std::size_t{1} << 24;

class Reading {
 public:
  Reading(const Tokenizer::StoredFile& vocabulary, const Tokenizer::StoredFile& merges)
      : vocabulary_(vocabulary), merges_file_(merges) {}

  std::shared_ptr<const Tokenizer> run() {
    read_vocabulary();
    read_merges();
    find_marks();
    TokenizerSteps steps;
    steps.added = std::move(added_);
    steps.pre = byte_level_split("gpt2");
    steps.model = std::make_unique<Bpe>(ids_, std::move(merges_), BpeOptions{.byte_level = true});
    steps.decoded.text = std::move(text_);
    steps.marks = marks_;
    steps.files = {{"vocab.json", vocabulary_.bytes}, {"merges.txt", merges_file_.bytes}};
    steps.rules = rules_;
    return make_tokenizer(std::move(steps));
  }

 private:
  // Fills text_, by id, with the tokens as they are written.
  void read_vocabulary() {
    const std::string& name = vocabulary_.name;
    const nlohmann::json tokens =
        json_of<nlohmann::json>(vocabulary_.bytes, printable(name) + ": is no JSON");
    check<DataError>(tokens.is_object() && !tokens.empty() && tokens.size() <= kMostTokens,
                     code::damaged, printable(name),
                     ": is no vocabulary; that is a JSON object from tokens to ids");
    text_.resize(tokens.size());
    std::vector<bool> known(tokens.size());
    for (const auto& [token, value] : tokens.items()) {
      const bool is_id = value.is_number_unsigned() && value.get<std::uint64_t>() < tokens.size();
      check<DataError>(is_id && !known[value.get<std::size_t>()], code::damaged, printable(name),
                       ": token \"", printable(token), "\" has the id ", printable(value.dump()),
                       "; the ids of ", tokens.size(), " tokens are 0 to ", tokens.size() - 1,
                       ", each once");
      check<DataError>(!token.empty(), code::damaged, printable(name), ": a token is empty");
      known[value.get<std::size_t>()] = true;
      text_[value.get<std::size_t>()] = token;
      ids_.emplace(token, value.get<std::int32_t>());
    }
    is_mark_.assign(text_.size(), 1);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const auto found = ids_.find(byte_names()[byte]);
      check<DataError>(found != ids_.end(), code::damaged, printable(name),
                       ": has no token for byte ", byte,
                       "; a byte-level vocabulary has one for each of the 256");
      is_mark_[static_cast<std::size_t>(found->second)] = 0;
    }
  }

  void read_merges() {
    const std::string_view all = merges_file_.bytes;
    i64 number = 0;
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t end = std::min(all.find('\n', at), all.size());
      std::string_view line = all.substr(at, end - at);
      at = end + 1;
      ++number;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (line.empty() || (number == 1 && line.starts_with("#version"))) continue;
      const std::size_t space = line.find(' ');
      const auto refuse = [&](const auto&... why) {
        fail<DataError>(code::damaged, printable(merges_file_.name), ":", number, ": \"",
                        printable(std::string(line.substr(0, 80))), "\" ", why...);
      };
      if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos)
        refuse("is no merge; that is two tokens with a space between them");
      const std::string left(line.substr(0, space)), right(line.substr(space + 1));
      const auto id_of = [&](const std::string& token) {
        const auto found = ids_.find(token);
        if (found == ids_.end())
          refuse("needs the token \"", printable(token), "\", which ", printable(vocabulary_.name),
                 " does not have");
        return found->second;
      };
      const std::int32_t result = id_of(left + right);
      if (!merges_.add(id_of(left), id_of(right), result)) refuse("is there twice");
      is_mark_[static_cast<std::size_t>(result)] = 0;
      for (const std::int32_t id : {id_of(left), id_of(right)})
        rules_ = mix(rules_, static_cast<std::uint64_t>(id));
    }
  }

  // Finds the marks, and the bytes of the other tokens.
  void find_marks() {
    marks_ = marks_of([&](std::string_view name) {
      const auto found = ids_.find(std::string(name));
      return found != ids_.end() && is_mark_[static_cast<std::size_t>(found->second)]
                 ? found->second
                 : -1;
    });
    for (std::size_t id = 0; id < text_.size(); ++id)
      if (!is_mark_[id]) {
        std::optional<std::string> bytes = from_byte_names(text_[id]);
        check<DataError>(bytes.has_value(), code::damaged, printable(merges_file_.name),
                         ": makes the token \"", printable(text_[id]),
                         "\", in which a character stands for no byte");
        text_[id] = *std::move(bytes);
      }
    for (std::size_t id = 0; id < text_.size(); ++id)
      rules_ = xxh3(std::as_bytes(std::span(text_[id])),
                    mix(rules_, static_cast<std::uint64_t>(is_mark_[id])));
    for (const std::int32_t id : {marks_.end, marks_.begin, marks_.pad})
      if (id >= 0)
        added_.push_back(
            {.id = id, .content = text_[static_cast<std::size_t>(id)], .special = true});
  }

  const Tokenizer::StoredFile &vocabulary_, &merges_file_;
  std::uint64_t rules_ = 0;
  std::vector<std::string> text_;  // by id
  std::vector<char> is_mark_;
  Bpe::Vocabulary ids_;
  Merges merges_;
  std::vector<AddedToken> added_;
  Marks marks_;
};

}  // namespace

std::shared_ptr<const Tokenizer> read_byte_pairs(const Tokenizer::StoredFile& vocabulary,
                                                 const Tokenizer::StoredFile& merges) {
  return Reading(vocabulary, merges).run();
}

}  // namespace gossamer::data
