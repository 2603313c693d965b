// WebDataset shards: groups members into samples and finds the label of each.
#include "gossamer/data/formats/webdataset.h"

#include <nlohmann/json.hpp>

#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/core/text/json.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"

namespace gossamer::data {
namespace {

constexpr std::uint64_t kMaxJson = 1 << 20, kMaxLabel = 128;

bool is_number(std::string_view text) {
  return !text.empty() && text.size() <= 9 &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpace(" \t\r\n\0", 5);
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos
             ? std::string()
             : std::string(text.substr(begin, text.find_last_not_of(kSpace) - begin + 1));
}

// "007" and "7" are one class.
std::string plain_number(const std::string& text) {
  const std::size_t digit = text.find_first_not_of('0');
  return digit == std::string::npos ? "0" : text.substr(digit);
}

struct Piece {
  i64 member = -1;
  std::string name;
};

struct Sample {
  // other: a name that ends like a picture's but has another kind, as img.1.jpg
  std::string key, other;
  Piece image, cls, json, txt;
};

class Grouper {
 public:
  Grouper(ByteReader& archive, const Members& members, const std::string& path)
      : archive_(archive), members_(members), path_(path) {}

  Index run() {
    members_.names.each([&](i64 i, const std::string& name) {
      const std::string kind = webdataset_kind(name);
      if (kind.empty()) return;
      if (const std::string_view key(name.data(), name.size() - kind.size() - 1);
          key != sample_.key) {
        flush();
        sample_ = {};
        sample_.key = key;
      }
      if (is_picture_kind(kind))
        put(sample_.image, i, name);
      else if (kind == "cls")
        put(sample_.cls, i, name);
      else if (kind == "json")
        put(sample_.json, i, name);
      else if (kind == "txt")
        put(sample_.txt, i, name);
      else if (is_image_name(name) && sample_.other.empty())
        sample_.other = name;
    });
    flush();
    check<DataError>(unlabelled_ == 0, code::no_truth, path_, ": ", unlabelled_, " of ", images_,
                     " images have no label, the first: ", printable(first_unlabelled_),
                     ". A WebDataset sample needs KEY.cls with a number beside KEY.jpg, or "
                     "KEY.json with \"label\".");
    Index index = builder_.finish();
    index.naming = numbers_ ? Naming::numbers : Naming::words;
    return index;
  }

 private:
  void put(Piece& piece, i64 member, const std::string& name) const {
    check<DataError>(piece.member < 0, code::not_understood, path_, ": ", printable(piece.name),
                     " and ", printable(name),
                     " are the same part of one sample, whose key ends at the first dot. Rename "
                     "one, or take the dots out of the keys.");
    piece = {member, name};
  }

  std::string text(i64 member, std::uint64_t limit) {
    const auto i = static_cast<std::size_t>(member);
    if (members_.bytes[i] > limit) return {};
    const auto bytes = archive_.at(members_.offset[i], static_cast<std::size_t>(members_.bytes[i]));
    return trimmed({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

  std::string label() {
    std::string found;
    if (sample_.cls.member >= 0) found = text(sample_.cls.member, kMaxLabel);
    if (found.empty() && sample_.json.member >= 0)
      found = trimmed(label_of_json(text(sample_.json.member, kMaxJson)).value_or(""));
    if (found.empty() && sample_.txt.member >= 0) found = text(sample_.txt.member, kMaxLabel);
    if (found.size() > kMaxLabel || found.find('\n') != std::string::npos) return {};
    return is_number(found) ? plain_number(found) : found;
  }

  void flush() {
    const auto& [member, name] = sample_.image;
    check<DataError>(member >= 0 || sample_.other.empty(), code::not_understood, path_, ": ",
                     printable(sample_.other),
                     " is no picture of a sample: a key ends at the first dot, so wanted is ",
                     printable(sample_.key), ".jpg. Take the dots out of the keys.");
    if (member < 0) return;
    ++images_;
    const std::string found = label();
    if (found.empty()) {
      if (unlabelled_++ == 0) first_unlabelled_ = name;
      return;
    }
    if (is_number(found))
      check<DataError>(std::stol(found) < kMaxClasses, path_, ": ", printable(name), " has label ",
                       found, "; the largest possible is ", kMaxClasses - 1);
    else
      numbers_ = false;
    const auto i = static_cast<std::size_t>(member);
    builder_.add(name, found, members_.offset[i], members_.bytes[i]);
  }

  ByteReader& archive_;
  const Members& members_;
  const std::string& path_;
  IndexBuilder builder_{path_, Wrapping::plain};
  Sample sample_;
  std::string first_unlabelled_;
  i64 images_ = 0, unlabelled_ = 0;
  bool numbers_ = true;
};

}  // namespace

std::string webdataset_kind(const std::string& name) {
  const std::size_t dot = name.find('.', name.rfind('/') + 1);  // npos + 1 = 0
  return dot == std::string::npos ? "" : lower_case(std::string_view(name).substr(dot + 1));
}

bool is_picture_kind(const std::string& kind) {
  return kind.find('.') == std::string::npos && is_image_name("." + kind);
}

std::optional<std::string> label_of_json(std::string_view text) {
  const auto json = parse_json<nlohmann::json>(text);
  if (!json.is_object()) return std::nullopt;
  for (const char* key :
       {"label", "cls", "class", "class_id", "target", "wnid", "synset", "class_name"}) {
    const auto at = json.find(key);
    if (at == json.end()) continue;
    if (at->is_number_unsigned()) return std::to_string(at->get<std::uint64_t>());
    if (at->is_string()) return at->get<std::string>();
  }
  return std::nullopt;
}

Index index_webdataset(ByteReader& archive, const Members& members, const std::string& path) {
  return Grouper(archive, members, path).run();
}

}  // namespace gossamer::data
