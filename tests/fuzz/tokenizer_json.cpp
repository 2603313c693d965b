// Fuzz target of tokenizer.json and what it is made of: any file gives a tokenizer or a DataError,
// and with a tokenizer any text becomes ids of it, which are decoded. The input is a whole file and
// a text; or a normalizer, a pre-tokenizer, a decoder, the content of an added token and a text,
// with zero bytes between them, around a small vocabulary.
//
// sources: added_tokens bpe decode fields normalize pattern pattern_text pre_tokenize
// sources: steps_tokenizer tokenizer_json tokenizer_config tokenizer merges byte_names split_words
// sources: token_tables byte_pairs characters tiktoken sentence_piece unigram files hash file_names
// sources: utf8 nesting printable xxh3
// libraries: -lpcre2-8 -lutf8proc -lfmt
#include "gossamer/data/text/tokenizer_json.h"

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/data/text/token_tables.h"

using namespace gossamer::data;

namespace {

using Json = nlohmann::json;

void use(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::int32_t> ids;
  try {
    tokenizer.encode(text, ids);
    tokenizer.encode_with_marks(text, ids);
  } catch (const gossamer::DataError&) {
  }
  for (const std::int32_t id : ids)
    if (id < 0 || id >= tokenizer.size()) std::abort();
  std::string back;
  tokenizer.decode(ids, back);
  const Tokenizer::Frame frame = tokenizer.frame();
  tokenizer.decode(frame.before, back);
  tokenizer.decode(frame.after, back);
  tokenizer.hash();
  token_tables(tokenizer);
}

// With the parts of the input as its steps, where they are JSON.
std::string around_vocabulary(std::uint8_t flags, const std::array<std::string, 5>& parts) {
  Json vocabulary = Json::object();
  const auto add = [&](const std::string& token) {
    if (!vocabulary.contains(token)) vocabulary[token] = vocabulary.size();
  };
  for (char c = '!'; c <= '~'; ++c) add(std::string(1, c));
  for (const char* token :
       {"\u0120", "\u2581", "<unk>", "ab", "\u2581a", "abab", "\u0120a", "<0x41>"})
    add(token);
  const auto step = [](const std::string& text) { return Json::parse(text, nullptr, false); };
  Json file{{"version", "1.0"}};
  const char* const keys[] = {"normalizer", "pre_tokenizer", "decoder"};
  for (std::size_t i = 0; i < 3; ++i)
    if (Json value = step(parts[i]); !value.is_discarded()) file[keys[i]] = std::move(value);
  file["added_tokens"] = Json::array();
  if (!parts[3].empty())
    file["added_tokens"].push_back({{"id", 200},
                                    {"content", parts[3]},
                                    {"special", (flags & 1) != 0},
                                    {"normalized", (flags & 2) != 0},
                                    {"single_word", (flags & 4) != 0},
                                    {"lstrip", (flags & 8) != 0},
                                    {"rstrip", (flags & 16) != 0}});
  file["model"] = {{"type", "BPE"},
                   {"vocab", vocabulary},
                   {"merges", {"a b", "ab ab", "\u2581 a", "\u0120 a"}},
                   {"unk_token", "<unk>"},
                   {"fuse_unk", (flags & 32) != 0},
                   {"byte_fallback", (flags & 64) != 0},
                   {"ignore_merges", (flags & 128) != 0}};
  return file.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string all(reinterpret_cast<const char*>(data) + 2, size - 2);
  std::array<std::string, 5> parts;
  std::size_t at = 0;
  for (std::string& part : parts) {
    const std::size_t end = std::min(all.find('\0', at), all.size());
    part = all.substr(at, &part == &parts.back() ? std::string::npos : end - at);
    at = std::min(end + 1, all.size());
  }
  try {
    const bool whole = data[0] % 4 == 0;
    const Tokenizer::StoredFile file{"t", whole ? parts[0] : around_vocabulary(data[1], parts)};
    use(*read_tokenizer_json(file), parts[4]);
  } catch (const gossamer::DataError&) {
  }
  return 0;
}
