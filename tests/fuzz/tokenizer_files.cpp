// Fuzz target of .tiktoken files and of SentencePiece's .model files: any bytes give a tokenizer or
// a DataError, and with a tokenizer any text becomes ids of it. The first byte says which file the
// rest is; the text is its end.
//
// sources: added_tokens bpe decode fields normalize pattern pattern_text pre_tokenize
// sources: steps_tokenizer tokenizer_json tokenizer_config tokenizer merges byte_names split_words
// sources: byte_pairs characters tiktoken sentence_piece unigram files hash file_names
// sources: utf8 nesting printable xxh3
// libraries: -lpcre2-8 -lutf8proc -lfmt
#include <cstdlib>
#include <string>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/data/text/sentence_piece.h"
#include "gossamer/data/text/tiktoken.h"

using namespace gossamer::data;

namespace {

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
}

// Ranks of the 256 bytes, which a file of the input's needs to be whole.
std::string ranks_of_bytes() {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (unsigned byte = 0; byte < 256; ++byte)
    out += std::string{kDigits[byte >> 2], kDigits[(byte & 3) << 4]} +
           "== " + std::to_string(byte) + "\n";
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string text = bytes.substr(bytes.size() / 2);
  try {
    if (data[0] % 4 == 0)
      use(*read_tiktoken({"t", bytes}, "cl100k"), text);
    else if (data[0] % 4 == 1)
      use(*read_tiktoken({"t", ranks_of_bytes() + bytes}, "gpt2"), text);
    else
      use(*read_sentence_piece({"s", bytes}), text);
  } catch (const gossamer::DataError&) {
  }
  return 0;
}
