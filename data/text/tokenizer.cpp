// Which files make a tokenizer.
#include "gossamer/data/text/tokenizer.h"

#include <array>
#include <filesystem>
#include <system_error>

#include "gossamer/core/error.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/hash.h"
#include "gossamer/data/text/byte_pairs.h"
#include "gossamer/data/text/characters.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::array<std::array<const char*, 2>, 3> kKinds{
    {{"vocab.json", "merges.txt"}, {"encoder.json", "vocab.bpe"}, {"characters.json", nullptr}}};

Tokenizer::StoredFile stored(const fs::path& path) {
  const std::vector<std::byte> bytes = read_whole(path.string(), kMostBytes);
  return {path.string(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
}

}  // namespace

void Tokenizer::decode(std::span<const std::int32_t> ids, std::string& text) const {
  for (const std::int32_t id : ids) {
    check<DataError>(id >= 0 && id < size(), "decode: there is no id ", id, "; the vocabulary has ",
                     size());
    text += text_of(id);
  }
}

std::uint64_t Tokenizer::hash() const {
  std::uint64_t hash = 0;
  for (const StoredFile& file : files()) hash = xxh3(std::as_bytes(std::span(file.bytes)), hash);
  return hash;
}

std::shared_ptr<const Tokenizer> open_tokenizer(const std::string& path) {
  std::error_code none;
  const bool is_folder = fs::is_directory(path, none);
  const fs::path folder = is_folder ? fs::path(path) : fs::path(path).parent_path();
  const std::string file = is_folder ? "" : fs::path(path).filename().string();
  for (const auto& [vocabulary, merges] : kKinds) {
    if (is_folder ? !fs::exists(folder / vocabulary, none)
                  : file != vocabulary && (!merges || file != merges))
      continue;
    return merges ? read_byte_pairs(stored(folder / vocabulary), stored(folder / merges))
                  : read_characters(stored(folder / vocabulary));
  }
  check<DataError>(fs::exists(path, none), code::nothing, printable(path),
                   ": there is no such file or folder");
  fail<DataError>(code::not_understood, printable(path),
                  ": is no tokenizer; that is a folder with vocab.json and merges.txt, with "
                  "encoder.json and vocab.bpe, or with characters.json");
}

std::shared_ptr<const Tokenizer> find_tokenizer(const std::string& folder) {
  std::error_code none;
  for (const auto& [vocabulary, merges] : kKinds)
    if (fs::exists(fs::path(folder) / vocabulary, none)) return open_tokenizer(folder);
  return nullptr;
}

}  // namespace gossamer::data
