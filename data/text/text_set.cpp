// index.json, and what stands for it where there is none.
#include "gossamer/data/text/text_set.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/text/examples.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kFormat = "gossamer text";
constexpr int kVersion = 1;
constexpr std::size_t kMostIndexBytes = std::size_t{16} << 20;

std::string hex(std::uint64_t value) {
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

// Checked access to a JSON that anyone may have written.
class Reader {
 public:
  Reader(const Json& json, std::string name) : json_(json), name_(std::move(name)) {
    if (!json.is_object()) refuse("is no JSON object");
  }
  [[noreturn]] void refuse(const std::string& what) const {
    fail<DataError>(code::damaged, printable(name_), ": ", printable(what));
  }
  bool has(const char* key) const { return json_.contains(key); }
  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) refuse(std::string("\"") + key + "\" is missing");
    return *found;
  }
  i64 number(const char* key, i64 least) const {
    const Json& value = at(key);
    constexpr auto kMost = i64{1} << 53;
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{kMost}) ||
        value.get<i64>() < least)
      refuse(std::string("\"") + key + "\" is " + value.dump() + "; a whole number from " +
             std::to_string(least) + " on is wanted");
    return value.get<i64>();
  }
  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) refuse(std::string("\"") + key + "\" is no text");
    return value.get<std::string>();
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> out;
    for (const Json& each : list(key)) {
      if (!each.is_string()) refuse(std::string("\"") + key + "\" is no list of texts");
      out.push_back(each.get<std::string>());
    }
    return out;
  }
  std::map<std::string, std::string> named_texts(const char* key) const {
    const Json& value = at(key);
    if (!value.is_object()) refuse(std::string("\"") + key + "\" is no object of texts");
    std::map<std::string, std::string> out;
    for (const auto& [name, each] : value.items()) {
      if (!each.is_string()) refuse(std::string("\"") + key + "\" is no object of texts");
      out[name] = each.get<std::string>();
    }
    return out;
  }
  std::vector<std::string> files(const char* key) const {
    std::vector<std::string> out;
    for (const Json& each : list(key)) {
      const std::string file = each.is_string() ? each.get<std::string>() : "";
      if (file.empty() || file.find('/') != std::string::npos ||
          file.find('\0') != std::string::npos || !has_ending(file, {".bin"}))
        refuse(std::string("\"") + key + "\" names " + each.dump() +
               "; files of the same folder that end with .bin are wanted");
      out.push_back(file);
    }
    return out;
  }

 private:
  const Json& list(const char* key) const {
    const Json& value = at(key);
    if (!value.is_array()) refuse(std::string("\"") + key + "\" is no list of files");
    return value;
  }
  const Json& json_;
  std::string name_;
};

TextIndex::Part decode_part(const Json& json, const std::string& name, bool pairs) {
  const Reader in(json, name);
  TextIndex::Part part;
  part.files = in.files("files");
  part.tokens = in.number("tokens", 0);
  if (pairs) {
    part.target_files = in.files("target_files");
    part.target_tokens = in.number("target_tokens", 0);
  }
  if (in.has("learnt_files")) {
    part.learnt_files = in.files("learnt_files");
    part.learnt = in.number("learnt", 0);
  }
  part.items = in.number("items", 0);
  part.text_bytes = in.number("text_bytes", 0);
  return part;
}

Json encode_part(const TextIndex::Part& part, bool pairs) {
  Json json{{"files", part.files},
            {"tokens", part.tokens},
            {"items", part.items},
            {"text_bytes", part.text_bytes}};
  if (pairs) {
    json["target_files"] = part.target_files;
    json["target_tokens"] = part.target_tokens;
  }
  if (!part.learnt_files.empty()) {
    json["learnt_files"] = part.learnt_files;
    json["learnt"] = part.learnt;
  }
  return json;
}

std::shared_ptr<const TokenFiles> open_files(const fs::path& folder,
                                             const std::vector<std::string>& names, i64 vocabulary,
                                             i64 wanted) {
  std::vector<std::string> paths;
  for (const std::string& name : names) paths.push_back((folder / name).string());
  auto files = std::make_shared<const TokenFiles>(paths, vocabulary);
  check<DataError>(files->size() == wanted, code::damaged, printable(folder.string()),
                   ": index.json says ", wanted, " ids, and ",
                   names.empty() ? "no file" : first_of(names), " has ", files->size());
  return files;
}

TextPart open_part(const fs::path& folder, const TextIndex& index, const TextIndex::Part& part) {
  if (part.files.empty()) return {};
  TextPart out;
  out.tokens = open_files(folder, part.files, index.vocabulary, part.tokens);
  if (index.pairs)
    out.targets = open_files(folder, part.target_files, index.vocabulary, part.target_tokens);
  if (!part.learnt_files.empty())
    out.learnt = open_files(folder, part.learnt_files, kLearntValues, part.tokens);
  out.learnt_ids = part.learnt;
  out.items = part.items;
  out.text_bytes = part.text_bytes;
  return out;
}

TextIndex read_text_index(const fs::path& folder) {
  const std::string path = (folder / "index.json").string();
  const std::vector<std::byte> bytes = read_whole(path, kMostIndexBytes);
  return decode_text_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
}

TextSet open_indexed(const fs::path& folder) {
  const TextIndex index = read_text_index(folder);
  TextSet set;
  set.path = folder.string();
  set.pairs = index.pairs;
  if (const auto chat = index.made.options.find("examples"); chat != index.made.options.end())
    set.chat = chat->second;
  set.vocabulary = index.vocabulary;
  set.marks = index.marks;
  set.tokenizer = open_tokenizer(folder.string());
  check<DataError>(
      set.tokenizer->size() == index.vocabulary && set.tokenizer->hash() == index.tokenizer,
      code::damaged, printable(folder.string()),
      ": its tokenizer is another one than the text was made with: it has ", set.tokenizer->size(),
      " ids and hash ", hex(set.tokenizer->hash()), ", index.json says ", index.vocabulary, " and ",
      hex(index.tokenizer));
  set.train = open_part(folder, index, index.train);
  set.val = open_part(folder, index, index.val);
  return set;
}

}  // namespace

namespace {

// Whether the name of a .bin file has this word in it: fineweb_val_000000.bin has val.
bool has_word(const fs::path& file, std::string_view word) {
  const std::string name = "_" + lower_case(file.stem().string()) + "_";
  for (std::size_t at = name.find(word); at != name.npos; at = name.find(word, at + 1))
    if (!std::isalpha(static_cast<unsigned char>(name[at - 1])) &&
        !std::isalpha(static_cast<unsigned char>(name[at + word.size()])))
      return true;
  return false;
}

struct Shards {
  std::vector<std::string> train, val;
};
// The .bin files of a folder without index.json, by name: those with val in it are validation text,
// all others training text.
Shards shards_in(const fs::path& folder) {
  Shards shards;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (const fs::path& file = it->path();
        !is_hidden(file.string()) && has_ending(file.string(), {".bin"}))
      (has_word(file, "val") ? shards.val : shards.train).push_back(file.string());
  check<DataError>(!error, code::nothing, printable(folder.string()), ": ", error.message());
  check<DataError>(!shards.train.empty() || !shards.val.empty(), code::not_understood,
                   printable(folder.string()),
                   ": has neither index.json nor a .bin file of ids; tokenize makes such a folder");
  std::ranges::sort(shards.train);
  std::ranges::sort(shards.val);
  return shards;
}

}  // namespace

std::string encode_text_index(const TextIndex& index) {
  const Json json{{"format", kFormat},
                  {"version", kVersion},
                  {"kind", index.pairs ? "pairs" : "documents"},
                  {"vocabulary", index.vocabulary},
                  {"tokenizer", hex(index.tokenizer)},
                  {"made",
                   {{"tokenizer", index.made.tokenizer},
                    {"split", index.made.split},
                    {"text", index.made.text},
                    {"val_text", index.made.val_text},
                    {"options", index.made.options}}},
                  {"end", index.marks.end},
                  {"begin", index.marks.begin},
                  {"pad", index.marks.pad},
                  {"train", encode_part(index.train, index.pairs)},
                  {"val", encode_part(index.val, index.pairs)}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

TextIndex decode_text_index(const std::string& text, const std::string& name) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception& error) {
    fail<DataError>(code::damaged, printable(name), ": is no JSON: ", printable(error.what()));
  }
  const Reader in(json, name);
  if (in.text("format") != kFormat) in.refuse("is no index of tokenized text");
  if (const i64 version = in.number("version", 0); version != kVersion)
    in.refuse("is of version " + std::to_string(version) + "; version " + std::to_string(kVersion) +
              " is known");
  TextIndex index;
  const std::string kind = in.text("kind"), hash = in.text("tokenizer");
  if (kind != "pairs" && kind != "documents") in.refuse("\"kind\" is \"" + kind + "\"");
  index.pairs = kind == "pairs";
  index.vocabulary = in.number("vocabulary", 1);
  if (index.vocabulary > std::numeric_limits<std::int32_t>::max())
    in.refuse("a vocabulary has 2147483647 ids at most");
  const char* const end = hash.data() + hash.size();
  if (const auto [at, error] = std::from_chars(hash.data(), end, index.tokenizer, 16);
      error != std::errc() || at != end || hash.size() != 16)
    in.refuse("\"tokenizer\" is no hash of 16 digits");
  if (json.contains("made")) {  // not in files of before
    const Reader made(in.at("made"), name + ", made");
    index.made = {made.text("tokenizer"), made.text("split"), made.texts("text"), {}, {}};
    if (made.has("val_text")) index.made.val_text = made.texts("val_text");
    if (made.has("options")) index.made.options = made.named_texts("options");
  }
  const auto mark = [&](const char* key) {
    const i64 id = in.number(key, -1);
    if (id >= index.vocabulary)
      in.refuse(std::string("\"") + key + "\" is " + std::to_string(id) +
                ", not in the vocabulary");
    return static_cast<std::int32_t>(id);
  };
  index.marks = {mark("end"), mark("begin"), mark("pad")};
  index.train = decode_part(in.at("train"), name + ", train", index.pairs);
  index.val = decode_part(in.at("val"), name + ", val", index.pairs);
  return index;
}

bool is_text_set(const std::string& path) {
  std::error_code none;
  if (!fs::exists(fs::path(path) / "index.json", none)) return false;
  try {
    read_text_index(path);
    return true;
  } catch (const DataError&) {
    return false;  // an index.json of something else
  }
}

TextSet open_text(const std::string& path, i64 vocabulary) {
  const fs::path folder(path);
  std::error_code none;
  check<DataError>(fs::exists(folder, none), code::nothing, printable(path),
                   ": there is no such file or folder");
  if (fs::exists(folder / "index.json", none)) return open_indexed(folder);
  TextSet set;
  set.path = path;
  const auto files = [&](const std::vector<std::string>& paths) {
    return std::make_shared<const TokenFiles>(paths,
                                              set.vocabulary > 0 ? set.vocabulary : vocabulary);
  };
  if (!fs::is_directory(folder, none)) {
    check<DataError>(has_ending(path, {".bin"}), code::not_understood, printable(path),
                     ": is no .bin file of ids; tokenize makes them of text");
    set.train.tokens = files({path});
    return set;
  }
  const auto [train, val] = shards_in(folder);
  if (!set.tokenizer && (set.tokenizer = find_tokenizer(path))) {
    set.vocabulary = set.tokenizer->size();
    set.marks = set.tokenizer->marks();
  }
  if (!train.empty()) set.train.tokens = files(train);
  if (!val.empty()) set.val.tokens = files(val);
  return set;
}

}  // namespace gossamer::data
