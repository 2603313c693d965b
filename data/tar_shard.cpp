// One tar shard of class/name.jpg members, read in place: an index of names and offsets in memory, pixels stay in the file.
#include <algorithm>
#include <map>

#include "gossamer/core/error.h"
#include "gossamer/data/files.h"
#include "gossamer/data/sources.h"
#include "gossamer/data/tar.h"

namespace gossamer::data {
namespace {

class TarShard final : public Dataset {
 public:
  explicit TarShard(const std::string& path) : file_(path) {
    std::vector<TarEntry> entries;
    {
      const Mapping map(file_);
      entries = index_tar(map.bytes(), path);
    }
    const std::size_t files = entries.size();
    std::erase_if(entries, [](const TarEntry& e) { return !is_image_name(e.name); });
    check<DataError>(!entries.empty(), path, ": no images: the archive holds ", files, " files, none of them a picture by its name. ",
                     "Wanted: members CLASS/NAME.jpg.");
    std::map<std::string, int> labels;
    i64 flat = 0;
    for (const TarEntry& entry : entries) {
      const std::string name = class_of(entry.name);
      flat += name.empty();
      labels[name] = 0;
    }
    check<DataError>(flat == 0, path, ": ", flat, " of ", entries.size(), " images lie in no class folder (", entries.front().name,
                     ", …). Pack them as CLASS/NAME.jpg.");
    for (auto& [name, label] : labels) {
      label = static_cast<int>(classes_.size());
      classes_.push_back(name);
    }
    for (const TarEntry& entry : entries) {
      samples_.add(entry.name, labels.at(class_of(entry.name)));
      places_.push_back({entry.offset, entry.bytes});
    }
  }

  i64 size() const override { return samples_.size(); }
  int label(i64 i) const override { return samples_.label(i); }
  std::string name(i64 i) const override { return samples_.name(i); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::span<const std::byte> bytes(i64 i, std::vector<std::byte>& buffer) const override {
    const Place& place = places_[static_cast<std::size_t>(i)];
    check_encoded_size(place.bytes, name(i));
    buffer.resize(place.bytes);
    file_.read(place.offset, buffer);
    return buffer;
  }

 private:
  struct Place { std::uint64_t offset, bytes; };

  static std::string class_of(const std::string& name) {       // the folder next to the file: train/n01440764/x.JPEG -> n01440764
    const std::size_t end = name.rfind('/');
    if (end == std::string::npos || end == 0) return {};
    const std::size_t before = name.rfind('/', end - 1);
    return name.substr(before == std::string::npos ? 0 : before + 1, end - (before == std::string::npos ? 0 : before + 1));
  }

  File file_;
  Samples samples_;
  std::vector<Place> places_;
  std::vector<std::string> classes_;
};

}  // namespace

std::shared_ptr<const Dataset> open_tar(const std::string& path) { return std::make_shared<TarShard>(path); }

}  // namespace gossamer::data
