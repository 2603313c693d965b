// Fuzz target of tokenizers: any files give a tokenizer or a DataError, and with a tokenizer any
// bytes come back from their ids. The input is a vocabulary, a merge a line and a text; short
// vocabularies get the bytes that they lack.
//
// sources: added_tokens bpe decode fields normalize pattern pattern_text pre_tokenize
// sources: steps_tokenizer tokenizer_json tokenizer_config tokenizer merges byte_names split_words
// sources: byte_pairs characters tiktoken sentence_piece unigram files hash file_names
// sources: utf8 nesting printable xxh3
// libraries: -lpcre2-8 -lutf8proc -lfmt
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "gossamer/core/error.h"
#include "gossamer/data/text/byte_names.h"
#include "gossamer/data/text/byte_pairs.h"
#include "gossamer/data/text/characters.h"
#include "gossamer/data/text/split_words.h"

using namespace gossamer::data;

namespace {

void there_and_back(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids);
  std::string back;
  tokenizer.decode(ids, back);
  if (back != text) std::abort();
  ids.clear();
  back.clear();
  tokenizer.encode_with_marks(text, ids);
  tokenizer.decode(ids, back);
  if (back != text) std::abort();
}

// The input's merges, with every token that they need.
std::string vocabulary_for(const std::string& merges) {
  nlohmann::json tokens;
  const auto add = [&](const std::string& token) {
    if (!token.empty() && !tokens.contains(token)) tokens[token] = tokens.size();
  };
  for (const std::string& name : byte_names()) add(name);
  for (std::size_t at = 0; at < merges.size();) {
    const std::size_t end = std::min(merges.find('\n', at), merges.size());
    const std::string line = merges.substr(at, end - at);
    if (const std::size_t space = line.find(' '); space != std::string::npos)
      for (const std::string& token : {line.substr(0, space), line.substr(space + 1),
                                       line.substr(0, space) + line.substr(space + 1)})
        add(token);
    at = end + 1;
  }
  return tokens.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string all(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t first = std::min(all.find('\0'), all.size()),
                    second = std::min(all.find('\0', first + 1), all.size());
  const std::string merges = all.substr(first, second - first);
  try {
    const auto tokenizer = read_byte_pairs(
        {"v", data[0] % 2 ? all.substr(0, first) : vocabulary_for(merges)}, {"m", merges});
    there_and_back(*tokenizer, all);
  } catch (const gossamer::DataError&) {
  }
  try {
    there_and_back(*read_characters({"c", all.substr(0, first)}), all.substr(first));
  } catch (const gossamer::DataError&) {
  }
  static const WordSplitter splitter;
  std::string joined;
  splitter.split(all, [&](std::string_view piece) {
    if (piece.empty()) std::abort();
    joined += piece;
  });
  if (joined != all) std::abort();
  // Cut at a boundary, the pieces are the same.
  const std::size_t cut = word_boundary(all, all.size() / 2);
  std::vector<std::string> whole, parts;
  splitter.split(all, [&](std::string_view piece) { whole.emplace_back(piece); });
  splitter.split(std::string_view(all).substr(0, cut),
                 [&](std::string_view piece) { parts.emplace_back(piece); });
  splitter.split(std::string_view(all).substr(cut),
                 [&](std::string_view piece) { parts.emplace_back(piece); });
  if (whole != parts) std::abort();
  return 0;
}
