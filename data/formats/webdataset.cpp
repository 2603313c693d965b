// WebDataset shards: grouping members into samples, and finding the label of each.
#include "gossamer/data/formats/webdataset.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "gossamer/core/error.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"

namespace gossamer::data {
namespace {

constexpr std::uint64_t kMaxJson = 1 << 20, kMaxLabel = 128;

bool is_number(std::string_view text) { return !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == std::string_view::npos; }

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpace(" \t\r\n\0", 5);
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == std::string_view::npos ? std::string() : std::string(text.substr(begin, text.find_last_not_of(kSpace) - begin + 1));
}

// "007" and "7" are one class.
std::string plain_number(const std::string& text) {
  const std::size_t digit = text.find_first_not_of('0');
  return digit == std::string::npos ? "0" : text.substr(digit);
}

struct Sample {
  std::string key;
  i64 image = -1, cls = -1, json = -1, txt = -1;             // members
};

class Grouper {
 public:
  Grouper(Reader& archive, const Members& members, const std::string& path) : archive_(archive), members_(members), path_(path) {}

  Index run() {
    members_.names.each([&](i64 i, const std::string& name) {
      const std::size_t base = name.rfind('/') + 1;         // npos + 1 = 0
      const std::size_t dot = name.find('.', base);
      if (dot == std::string::npos) return;
      if (std::string_view(name).substr(0, dot) != sample_.key) {
        flush();
        sample_ = {name.substr(0, dot), -1, -1, -1, -1};
      }
      if (is_image_name(name) && sample_.image < 0) {
        sample_.image = i;
        image_name_ = name;
      } else if (name.ends_with(".cls")) sample_.cls = i;
      else if (name.ends_with(".json")) sample_.json = i;
      else if (name.ends_with(".txt")) sample_.txt = i;
    });
    flush();
    check<DataError>(unlabelled_ == 0, code::no_truth, path_, ": ", unlabelled_, " of ", images_,
                     " images have no label, the first: ", first_unlabelled_,
                     ". A WebDataset sample needs KEY.cls with a number beside KEY.jpg, or KEY.json with \"label\".");
    Index index = builder_.finish();
    index.naming = numbers_ ? Naming::numbers : Naming::words;
    return index;
  }

 private:
  std::string text(i64 member, std::uint64_t limit) {
    const auto i = static_cast<std::size_t>(member);
    if (members_.bytes[i] > limit) return {};
    const auto bytes = archive_.at(members_.offset[i], static_cast<std::size_t>(members_.bytes[i]));
    return trimmed({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

  std::string label() {
    std::string found;
    if (sample_.cls >= 0) found = text(sample_.cls, kMaxLabel);
    if (found.empty() && sample_.json >= 0) found = trimmed(label_of_json(text(sample_.json, kMaxJson)).value_or(""));
    if (found.empty() && sample_.txt >= 0) found = text(sample_.txt, kMaxLabel);
    if (found.size() > kMaxLabel || found.find('\n') != std::string::npos) return {};
    return is_number(found) ? plain_number(found) : printable(found);
  }

  void flush() {
    if (sample_.image < 0) return;
    ++images_;
    const std::string found = label();
    if (found.empty()) {
      if (unlabelled_++ == 0) first_unlabelled_ = image_name_;
      return;
    }
    if (is_number(found))
      check<DataError>(std::stol(found) < kMaxClasses, path_, ": ", image_name_, " has label ", found, "; the largest possible is ", kMaxClasses - 1);
    else numbers_ = false;
    const auto i = static_cast<std::size_t>(sample_.image);
    builder_.add(image_name_, found, members_.offset[i], members_.bytes[i]);
  }

  Reader& archive_;
  const Members& members_;
  const std::string& path_;
  IndexBuilder builder_{path_, Wrapping::plain};
  Sample sample_;
  std::string image_name_, first_unlabelled_;
  i64 images_ = 0, unlabelled_ = 0;
  bool numbers_ = true;
};

}  // namespace

std::optional<std::string> label_of_json(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return std::nullopt;
  for (const char* key : {"label", "cls", "class", "class_id", "target", "wnid", "synset", "class_name"}) {
    const auto at = json.find(key);
    if (at == json.end()) continue;
    if (at->is_number_unsigned()) return std::to_string(at->get<std::uint64_t>());
    if (at->is_string()) return at->get<std::string>();
  }
  return std::nullopt;
}

Index index_webdataset(Reader& archive, const Members& members, const std::string& path) { return Grouper(archive, members, path).run(); }

}  // namespace gossamer::data
