// Which files make a tokenizer.
#include "gossamer/data/text/tokenizer.h"

#include <array>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/hash.h"
#include "gossamer/data/text/byte_pairs.h"
#include "gossamer/data/text/characters.h"
#include "gossamer/data/text/sentence_piece.h"
#include "gossamer/data/text/steps/pattern.h"
#include "gossamer/data/text/tiktoken.h"
#include "gossamer/data/text/tokenizer_json.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{64} << 20, kMostModelBytes = kMostBytes / 4;

Tokenizer::StoredFile stored(const fs::path& path, std::size_t most = kMostBytes) {
  const std::vector<std::byte> bytes = read_whole(path.string(), most);
  return {path.string(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
}

// A kind of tokenizer, known by the names of its files.
struct Kind {
  std::array<const char*, 2> names;  // the second may be missing
  std::shared_ptr<const Tokenizer> (*read)(const fs::path& folder);
};

std::optional<Tokenizer::StoredFile> stored_if_there(const fs::path& path) {
  std::error_code none;
  if (!fs::exists(path, none)) return {};
  return stored(path);
}

std::shared_ptr<const Tokenizer> sentence_piece(const fs::path& path) {
  return read_sentence_piece(stored(path, kMostModelBytes),
                             stored_if_there(path.parent_path() / "tokenizer_config.json"));
}

// In this order: the first that a folder has counts.
const Kind kKinds[] = {
    {{"tokenizer.json", nullptr},
     [](const fs::path& folder) {
       std::vector<Tokenizer::StoredFile> others;
       if (auto chat = stored_if_there(folder / "chat_template.jinja"))
         others.push_back({"chat_template.jinja", std::move(chat->bytes)});
       return read_tokenizer_json(stored(folder / "tokenizer.json"),
                                  stored_if_there(folder / "tokenizer_config.json"), others);
     }},
    {{"vocab.json", "merges.txt"},
     [](const fs::path& folder) {
       return read_byte_pairs(stored(folder / "vocab.json"), stored(folder / "merges.txt"));
     }},
    {{"encoder.json", "vocab.bpe"},
     [](const fs::path& folder) {
       return read_byte_pairs(stored(folder / "encoder.json"), stored(folder / "vocab.bpe"));
     }},
    {{"tokenizer.model", nullptr},
     [](const fs::path& folder) { return sentence_piece(folder / "tokenizer.model"); }},
    {{"characters.json", nullptr},
     [](const fs::path& folder) { return read_characters(stored(folder / "characters.json")); }}};

}  // namespace

void Tokenizer::decode(std::span<const std::int32_t> ids, std::string& text) const {
  TextOfIds decoding(*this);
  for (const std::int32_t id : ids) decoding.add(id, text);
}

TextOfIds::TextOfIds(const Tokenizer& tokenizer, bool goes_on)
    : tokenizer_(tokenizer), first_(!goes_on), strip_(goes_on ? 0 : tokenizer.strip().most) {}

void TextOfIds::add(std::int32_t id, std::string& text) {
  check<DataError>(id >= 0 && id < tokenizer_.size(), "decode: there is no id ", id,
                   "; the vocabulary has ", tokenizer_.size());
  std::string_view part = tokenizer_.text_of(id, first_);
  first_ = false;
  if (strip_ > 0) {
    const std::string_view character = tokenizer_.strip().character;
    for (; strip_ > 0 && part.starts_with(character); --strip_)
      part.remove_prefix(character.size());
    if (!part.empty()) strip_ = 0;
  }
  text += part;
}

std::uint64_t Tokenizer::hash() const {
  std::uint64_t hash = 0;
  for (const StoredFile& file : files()) hash = xxh3(std::as_bytes(std::span(file.bytes)), hash);
  return hash;
}

std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& path, const std::string& split) {
  std::error_code none;
  const bool is_folder = fs::is_directory(path, none);
  const fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  const std::string file = is_folder ? "" : fs::path(path).filename().string();
  for (const auto& [names, read] : kKinds)
    if (is_folder ? fs::exists(folder / names[0], none)
                  : file == names[0] || (names[1] && file == names[1]))
      return read(folder);
  if (!is_folder && has_ending(file, {".tiktoken"})) {
    check<ConfigError>(!split.empty(), printable(path),
                       ": does not say how text is split; name its split: ", names_of_patterns());
    return read_tiktoken(stored(path), split);
  }
  if (!is_folder && has_ending(file, {".model"})) return sentence_piece(path);
  check<DataError>(fs::exists(path, none), code::nothing, printable(path),
                   ": there is no such file or folder");
  fail<DataError>(code::not_understood, printable(path),
                  ": is no tokenizer; that is a folder with tokenizer.json, with vocab.json and "
                  "merges.txt, with encoder.json and vocab.bpe, with tokenizer.model, or with "
                  "characters.json; or a .model or .tiktoken file");
}

std::shared_ptr<const Tokenizer> find_tokenizer(const std::string& folder) {
  std::error_code none;
  for (const Kind& kind : kKinds)
    if (fs::exists(fs::path(folder) / kind.names[0], none)) return open_tokenizer(folder);
  return nullptr;
}

}  // namespace gossamer::data
