// Reads samples where an index says they lie, and unites the classes of several.
#include "gossamer/data/dataset/indexed_set.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/class_names.h"
#include "gossamer/data/formats/tfrecord.h"
#include "gossamer/data/hash.h"
#include "gossamer/data/inner_error.h"

namespace gossamer::data {
namespace {

// Files that stay open. With more files each is opened when it is read: a process may usually have
// 1,024 open.
constexpr std::size_t kKeepOpen = 256;

int number_of(const std::string& name) {
  int value = 0;
  std::from_chars(name.data(), name.data() + name.size(), value);
  return value;
}

// At least four digits, so that sets of different sizes name their classes alike.
std::string padded(int number) {
  std::string text = std::to_string(number);
  return text.insert(0, text.size() < 4 ? 4 - text.size() : 0, '0');
}

LabelBase base_of(const std::vector<Index>& parts, LabelBase told) {
  bool any = false, zero = false;
  for (const Index& part : parts) {
    if (part.naming != Naming::tensorflow) continue;
    any = true;
    const bool here = std::ranges::binary_search(part.classes, "0");
    check<DataError>(
        !here || told != LabelBase::one, code::other_classes, part.path,
        ": a label 0 occurs, so labels do not count from 1. Set label_base to 0 or auto.");
    zero = zero || here;
  }
  if (!any || told != LabelBase::automatic) return any ? told : LabelBase::automatic;
  return zero ? LabelBase::zero : LabelBase::one;
}

// Turns class numbers into names, for all parts together. notes: what it had to guess.
void name_numbers(std::vector<Index>& parts, LabelBase base, bool told,
                  std::vector<std::string>& notes) {
  const auto words = std::ranges::find(parts, Naming::words, &Index::naming);
  const auto numbers =
      std::ranges::find_if(parts, [](const Index& p) { return p.naming != Naming::words; });
  if (numbers == parts.end()) return;
  const auto class_of = [&](const Index& part, const std::string& name) {
    return number_of(name) - (part.naming == Naming::tensorflow && base == LabelBase::one ? 1 : 0);
  };
  int most = 0;
  for (const Index& part : parts)
    if (part.naming != Naming::words)
      for (const std::string& name : part.classes) most = std::max(most, class_of(part, name));
  const std::vector<std::string> names = class_names_beside(numbers->path, most + 1);
  if (base == LabelBase::one && !told && most + 1 != static_cast<int>(names.size()))
    notes.push_back(numbers->path +
                    ": labels are taken to count from 1, because no 0 occurs; if they count from "
                    "0, set label_base to 0");
  check<DataError>(words == parts.end() || !names.empty(), code::other_classes, numbers->path,
                   ": its classes are numbers, those of ", words == parts.end() ? "" : words->path,
                   " are names. Put the list of names in the order of the numbers beside it "
                   "(LOC_synset_mapping.txt, synset_words.txt or classes.txt).");
  for (Index& part : parts) {
    if (part.naming == Naming::words) continue;
    std::vector<std::string> given;
    for (const std::string& name : part.classes) {
      const int number = class_of(part, name);
      given.push_back(names.empty() ? padded(number) : names[static_cast<std::size_t>(number)]);
    }
    std::vector<std::string> all = names;
    if (names.empty())
      for (int i = 0; i <= most; ++i) all.push_back(padded(i));
    std::ranges::sort(all);
    for (std::int32_t& label : part.label)
      label = static_cast<std::int32_t>(
          std::ranges::lower_bound(all, given[static_cast<std::size_t>(label)]) - all.begin());
    part.classes = std::move(all);
    part.naming = Naming::words;
  }
}

std::string kind_of(const Index& part) {
  if (part.wrapping != Wrapping::pixels) return "encoded images (" + part.path + ")";
  return fmt::format("raw pixels of {} x {} ({})", part.layout.width, part.layout.height,
                     part.path);
}

class IndexedSet final : public Dataset {
 public:
  IndexedSet(std::vector<Index> parts, LabelBase base, std::vector<std::string> notes)
      : parts_(std::move(parts)), notes_(std::move(notes)), base_(base_of(parts_, base)) {
    for (Index& part : parts_) std::ranges::move(part.notes, std::back_inserter(notes_));
    name_numbers(parts_, base_, base != LabelBase::automatic, notes_);
    std::set<std::string> names;
    for (const Index& part : parts_) names.insert(part.classes.begin(), part.classes.end());
    classes_.assign(names.begin(), names.end());
    note_escapes();
    for (Index& part : parts_) {
      check<DataError>(part.layout.height == parts_[0].layout.height &&
                           part.layout.width == parts_[0].layout.width,
                       code::not_understood, kind_of(parts_[0]), " and ", kind_of(part),
                       " can't be joined; give paths of one kind");
      begin_.push_back(size_);
      size_ += part.size();
      if (part.classes != classes_) {
        std::vector<std::int32_t> map;
        for (const std::string& name : part.classes)
          map.push_back(static_cast<std::int32_t>(std::ranges::lower_bound(classes_, name) -
                                                  classes_.begin()));
        for (std::int32_t& label : part.label) label = map[static_cast<std::size_t>(label)];
      }
      part.classes.clear();
      if (parts_.size() <= kKeepOpen && part.wrapping != Wrapping::file)
        files_.push_back(std::make_unique<File>(part.path));
      else
        files_.push_back(nullptr);
    }
  }

  i64 size() const override { return size_; }
  int label(i64 i) const override {
    const std::size_t p = part(i);
    return parts_[p].label[static_cast<std::size_t>(i - begin_[p])];
  }
  std::string name(i64 i) const override {
    const std::size_t p = part(i);
    return printable(parts_[p].names.at(i - begin_[p]));
  }
  Raw raw() const override {
    return {static_cast<int>(parts_[0].layout.height), static_cast<int>(parts_[0].layout.width)};
  }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::vector<std::string> left_out() const override {
    std::vector<std::string> all;
    // Those of packed shards were damaged in the set that was packed, and reported then.
    for (const Index& part : parts_)
      if (part.wrapping != Wrapping::checked)
        all.insert(all.end(), part.left_out.begin(), part.left_out.end());
    return all;
  }
  std::vector<std::string> empty_classes() const override {
    std::vector<std::string> all;
    for (const Index& part : parts_) all.insert(all.end(), part.empty.begin(), part.empty.end());
    return all;
  }
  LabelBase label_base() const override { return base_; }
  std::vector<std::string> notes() const override { return notes_; }

  std::span<const std::byte> bytes(i64 i, std::vector<std::byte>& buffer) const override {
    const std::size_t p = part(i);
    const Index& index = parts_[p];
    const auto k = static_cast<std::size_t>(i - begin_[p]);
    if (index.wrapping == Wrapping::file) {
      const std::string folder = index.path + "/";
      try {
        const File file(folder + index.names.at(static_cast<i64>(k)));
        check_encoded_size(file.size(), name(i));
        buffer.resize(file.size());
        file.read(0, buffer);
      } catch (const DataError& error) {
        // in lists of damaged images each is called as the set calls it
        const std::string text = error.what();
        fail<DataError>(text.starts_with(folder) ? text.substr(folder.size()) : text);
      }
      return buffer;
    }
    if (files_[p]) return read(*files_[p], index, k, i, buffer);
    return read(File(index.path), index, k, i, buffer);
  }

 private:
  void note_escapes() {
    std::vector<std::string> escaped;
    std::ranges::copy_if(classes_, std::back_inserter(escaped), has_escapes);
    if (!escaped.empty())
      notes_.push_back(
          parts_[0].path + ": " + counted(escaped.size(), "class name") +
          " with bytes that are no printable UTF-8; they are written as \\xNN in files "
          "and messages (" +
          first_of(escaped) + ")");
  }

  std::size_t part(i64 i) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(begin_, i) - begin_.begin()) - 1;
  }

  std::span<const std::byte> read(const File& file, const Index& index, std::size_t k, i64 i,
                                  std::vector<std::byte>& buffer) const {
    const std::uint64_t offset = index.offset[k];
    const std::size_t bytes = index.bytes[k];
    check_encoded_size(bytes, name(i));
    const auto get = [&](std::size_t at, std::span<std::byte> to) {
      try {
        file.read(at, to);
      } catch (const DataError& error) {
        // this error names the file; a user needs the name of the image too
        fail<DataError>(name(i), ": ", without_code(error.what()));
      }
    };
    if (index.wrapping == Wrapping::pixels) {
      const PixelLayout& p = index.layout;
      const std::size_t whole = std::size_t{3} * p.width * p.height;
      buffer.resize(whole + bytes);
      const std::span<std::byte> stored = std::span(buffer).subspan(whole);
      get(offset, stored);
      std::byte* to = buffer.data();
      for (std::size_t y = 0; y < p.height; ++y)
        for (std::size_t x = 0; x < p.width; ++x)
          for (std::size_t c = 0; c < 3; ++c)
            *to++ = stored[x * p.right + y * p.down + c * p.channel];
      return {buffer.data(), whole};
    }
    if (index.wrapping == Wrapping::checked) {
      buffer.resize(bytes + 8);
      get(offset - 8, buffer);
      std::uint64_t wanted = 0;
      std::memcpy(&wanted, buffer.data(), 8);
      const std::span<const std::byte> content = std::span<const std::byte>(buffer).subspan(8);
      check<DataError>(xxh3(content) == wanted, name(i), ": damaged in ", file.path(),
                       ": its checksum is wrong");
      return content;
    }
    if (index.wrapping == Wrapping::tfrecord) {
      buffer.resize(bytes + 4);
      get(offset, buffer);
      return image_of_record(buffer, name(i) + " in " + file.path());
    }
    buffer.resize(bytes);
    get(offset, buffer);
    return buffer;
  }

  std::vector<Index> parts_;
  std::vector<std::unique_ptr<File>> files_;  // of each part; empty: opened for each read
  std::vector<i64> begin_;                    // first sample of each part
  std::vector<std::string> classes_, notes_;
  LabelBase base_;
  i64 size_ = 0;
};

}  // namespace

std::shared_ptr<const Dataset> open_indices(std::vector<Index> parts, LabelBase base,
                                            std::vector<std::string> notes) {
  return std::make_shared<IndexedSet>(std::move(parts), base, std::move(notes));
}

}  // namespace gossamer::data
