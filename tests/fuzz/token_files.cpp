// Fuzz target of .bin files and of index.json: any bytes give ids below the vocabulary or a
// DataError, and an index that is accepted is written and read back alike. With an odd first byte
// the file gets a header that fits, so that its ids are reached.
//
// sources: token_files text_set
// sources: added_tokens bpe decode fields normalize pattern pattern_text pre_tokenize
// sources: steps_tokenizer tokenizer_json tokenizer_config tokenizer merges byte_names split_words
// sources: byte_pairs characters tiktoken sentence_piece unigram files hash file_names
// sources: utf8 nesting printable xxh3
// libraries: -lpcre2-8 -lutf8proc -lfmt
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/data/text/text_set.h"

using namespace gossamer::data;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const std::string once = encode_text_index(decode_text_index(text, "fuzz"));
    if (encode_text_index(decode_text_index(once, "fuzz")) != once) std::abort();
  } catch (const gossamer::DataError&) {
  }
  if (size < 4) return 0;
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("fuzz-ids-" + std::to_string(getpid()))).string();
  std::string file = text.substr(1);
  if (data[0] % 2) {
    const bool wide = data[0] % 4 == 1;
    std::int32_t header[256] = {wide ? 20240801 : 20240520, wide ? 7 : 1,
                                static_cast<std::int32_t>(file.size() / (wide ? 4 : 2))};
    if (data[0] % 32 == 1) header[1 + data[1] % 2] ^= data[2];
    file.insert(0, reinterpret_cast<const char*>(header), sizeof header);
  }
  std::ofstream(path, std::ios::binary) << file;
  try {
    const gossamer::i64 vocabulary = data[0] < 128 ? 0 : 1000;
    const TokenFiles files({path, path}, vocabulary);
    std::vector<std::int32_t> all(static_cast<std::size_t>(files.size())), part;
    files.read(0, all);
    for (const std::int32_t id : all)
      if (id < 0 || (vocabulary && id >= vocabulary)) std::abort();
    part.resize(all.size() / 2);
    files.read(static_cast<gossamer::i64>(all.size() / 3), part);
    if (!part.empty() && std::memcmp(part.data(), all.data() + all.size() / 3, 4 * part.size()))
      std::abort();
  } catch (const gossamer::DataError&) {
  }
  std::filesystem::remove(path);
  return 0;
}
