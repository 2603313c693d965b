// Characters are found by the bytes of their UTF-8.
#include "gossamer/data/text/characters.h"

#include <nlohmann/json.hpp>
#include <unordered_map>

#include "gossamer/core/error.h"
#include "gossamer/core/io/xxh3.h"
#include "gossamer/core/text/utf8.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/text/json.h"
#include "gossamer/data/text/marks.h"

namespace gossamer::data {
namespace {

class Characters final : public Tokenizer {
 public:
  explicit Characters(StoredFile file) : file_(std::move(file)) {
    const nlohmann::json list =
        json_of<nlohmann::json>(file_.bytes, printable(file_.name) + ": is no JSON");
    check<DataError>(list.is_array() && !list.empty(), code::damaged, printable(file_.name),
                     ": is no vocabulary; that is a JSON list of characters");
    for (const auto& each : list) {
      const std::string text = each.is_string() ? each.get<std::string>() : "";
      check<DataError>(!text.empty() && utf8_length(text) == text.size(), code::damaged,
                       printable(file_.name), ": entry ", text_.size(), " is ",
                       printable(each.dump()), "; one character is wanted");
      check<DataError>(ids_.emplace(text, static_cast<std::int32_t>(text_.size())).second,
                       code::damaged, printable(file_.name), ": entry ", text_.size(), ", ",
                       printable(each.dump()), ", is there twice");
      text_.push_back(text);
      rules_ = xxh3(std::as_bytes(std::span(text)), rules_);
    }
  }

  i64 size() const override { return static_cast<i64>(text_.size()); }
  Marks marks() const override { return {}; }
  std::vector<StoredFile> files() const override { return {{"characters.json", file_.bytes}}; }

  void encode(std::string_view text, std::vector<std::int32_t>& ids) const override {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = utf8_length(text.substr(at, 4));
      const auto found = ids_.find(std::string(text.substr(at, length)));
      check<DataError>(length > 0, "encode: byte ", at + 1,
                       " of the text begins no character of UTF-8");
      if (found == ids_.end())
        fail<DataError>("encode: \"", printable(std::string(text.substr(at, length))),
                        "\" at byte ", at + 1, " of the text is none of the ", text_.size(),
                        " characters of the vocabulary");
      ids.push_back(found->second);
      at += length;
    }
  }

  void encode_with_marks(std::string_view text, std::vector<std::int32_t>& ids) const override {
    encode(text, ids);
  }

 private:
  std::string_view text_of(std::int32_t id, bool) const override {
    return text_[static_cast<std::size_t>(id)];
  }
  std::uint64_t rules() const override { return rules_; }

  StoredFile file_;
  std::uint64_t rules_ = 1;
  std::vector<std::string> text_;  // by id
  std::unordered_map<std::string, std::int32_t> ids_;
};

}  // namespace

std::shared_ptr<const Tokenizer> read_characters(const Tokenizer::StoredFile& file) {
  return std::make_shared<Characters>(file);
}

void CharacterSet::add(std::string_view text, const std::string& name) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at, 4));
    check<DataError>(length > 0, printable(name), ": byte ", at, " is no UTF-8");
    characters_.emplace(text.substr(at, length));
    at += length;
  }
}

std::shared_ptr<const Tokenizer> CharacterSet::tokenizer() const {
  check<DataError>(!characters_.empty(), code::not_understood,
                   "the text is empty, so a vocabulary of its characters would be, too");
  return read_characters({"characters.json", nlohmann::json(characters_).dump() + "\n"});
}

}  // namespace gossamer::data
