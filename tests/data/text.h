// For the tests of text: real files where they are, and small vocabularies.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gossamer/data/text/tokenizer.h"

namespace gossamer::data {

// Beside the source folder, or in GOSSAMER_TEST_DATA.
inline std::filesystem::path text_folder() {
  if (const char* set = std::getenv("GOSSAMER_TEST_DATA"))
    return std::filesystem::path(set) / "text";
  return std::filesystem::path(GOSSAMER_SOURCE_DIR).parent_path() / "shared" / "data" / "text";
}

#define NEEDS_TEXT(path)              \
  if (!std::filesystem::exists(path)) \
  GTEST_SKIP() << (path).string()     \
               << " is not on this machine; set GOSSAMER_TEST_DATA to a folder with text/ in it"

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<std::int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::int32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

inline std::string text_from(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  std::string text;
  tokenizer.decode(ids, text);
  return text;
}

}  // namespace gossamer::data
