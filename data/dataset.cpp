// open(): finds out what a path is, and joins several into one data set.
#include "gossamer/data/dataset.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "gossamer/core/error.h"
#include "gossamer/data/files.h"
#include "gossamer/data/sources.h"
#include "gossamer/data/tar.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;

class Joined final : public Dataset {
 public:
  explicit Joined(std::vector<std::shared_ptr<const Dataset>> parts) : parts_(std::move(parts)) {
    std::set<std::string> names;
    for (const auto& part : parts_) names.insert(part->classes().begin(), part->classes().end());
    classes_.assign(names.begin(), names.end());
    i64 total = 0;
    for (const auto& part : parts_) {
      check<DataError>(part->raw().height == parts_[0]->raw().height && part->raw().width == parts_[0]->raw().width,
                       "data: CIFAR binary files and encoded images can't be joined; give paths of one kind");
      begin_.push_back(total);
      total += part->size();
      std::vector<int> map;
      for (const std::string& name : part->classes()) map.push_back(static_cast<int>(std::ranges::lower_bound(classes_, name) - classes_.begin()));
      labels_.push_back(std::move(map));
    }
    size_ = total;
  }

  i64 size() const override { return size_; }
  int label(i64 i) const override {
    const std::size_t p = part(i);
    return labels_[p][static_cast<std::size_t>(parts_[p]->label(i - begin_[p]))];
  }
  std::string name(i64 i) const override { return parts_[part(i)]->name(i - begin_[part(i)]); }
  std::span<const std::byte> bytes(i64 i, std::vector<std::byte>& buffer) const override {
    const std::size_t p = part(i);
    return parts_[p]->bytes(i - begin_[p], buffer);
  }
  Raw raw() const override { return parts_[0]->raw(); }
  const std::vector<std::string>& classes() const override { return classes_; }

 private:
  std::size_t part(i64 i) const { return static_cast<std::size_t>(std::ranges::upper_bound(begin_, i) - begin_.begin()) - 1; }

  std::vector<std::shared_ptr<const Dataset>> parts_;
  std::vector<i64> begin_;                       // first index of each part
  std::vector<std::vector<int>> labels_;         // of a part -> of the whole
  std::vector<std::string> classes_;
  i64 size_ = 0;
};

// Files in a folder that make it a data set of another kind than class folders: tar shards, or CIFAR's train or test files.
std::vector<std::string> special_files(const fs::path& folder, Part part) {
  std::vector<std::string> tars, cifar, test;
  std::error_code error;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(".tar") && !name.starts_with('.')) tars.push_back(it->path().string());
    if ((name.starts_with("data_batch_") && name.ends_with(".bin")) || name == "train.bin") cifar.push_back(it->path().string());
    if (name == "test_batch.bin" || name == "test.bin") test.push_back(it->path().string());
  }
  if (part == Part::val) {
    check<DataError>(cifar.empty() || !test.empty(), folder.string(), ": holds CIFAR's training files, but neither test_batch.bin (CIFAR-10) nor ",
                     "test.bin (CIFAR-100) to validate with. Copy it there, or name the file meant in data.val.");
    cifar = test;
  }
  auto& found = cifar.empty() ? tars : cifar;
  std::ranges::sort(found);
  return found;
}

std::shared_ptr<const Dataset> open_file(const std::string& path) {
  std::vector<std::byte> start;
  std::size_t size = 0;
  {
    const File file(path);
    size = file.size();
    start.resize(std::min<std::size_t>(size, 512));
    file.read(0, start);
  }
  if (path.ends_with(".tar") || looks_like_tar(start)) return open_tar(path);
  // CIFAR is told by its size alone; one file name each helps when the size is wrong.
  const std::string name = fs::path(path).filename().string();
  if (size && size % 3073 == 0) return open_cifar(path, false);
  if (size && size % 3074 == 0) return open_cifar(path, true);
  if (name.ends_with(".bin")) return open_cifar(path, name == "train.bin" || name == "test.bin");
  if (name.ends_with(".tgz") || name.ends_with(".gz") || name.ends_with(".xz") || name.ends_with(".zst")) return open_tar(path);
  if (is_image_name(name))
    fail<DataError>(path, ": this is one picture; a data set is a folder of class folders, tar shards or CIFAR binary files");
  fail<DataError>(path, ": not a data set: neither a tar archive nor CIFAR records (", size,
                  " bytes). Give a folder of class folders, tar shards of class/name.jpg, or CIFAR-10/100 binary files.");
}

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 3; ++i) text += (i ? ", " : "") + ("'" + names[i] + "'");
  return names.size() > 3 ? text + " and " + std::to_string(names.size() - 3) + " more" : text;
}

}  // namespace

std::shared_ptr<const Dataset> join(std::vector<std::shared_ptr<const Dataset>> parts) {
  if (parts.size() == 1) return parts[0];
  return std::make_shared<Joined>(std::move(parts));
}

std::shared_ptr<const Dataset> open(const std::vector<std::string>& paths, Part part) {
  check<DataError>(!paths.empty(), "data: no path given; wanted a folder of class folders, tar shards or CIFAR binary files");
  std::vector<std::shared_ptr<const Dataset>> parts;
  for (std::string path : paths) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) {
      const fs::path parent = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
      fail<DataError>(path, ": no such file or folder", fs::exists(parent, error) ? "" : " (nor is there a folder " + parent.string() + ")",
                      ". Check data.train and data.val; relative paths count from ", fs::current_path(error).string(), ".");
    }
    if (!fs::is_directory(status)) {
      parts.push_back(open_file(path));
      continue;
    }
    const std::vector<std::string> files = special_files(path, part);
    if (files.empty()) parts.push_back(open_image_folder(path));
    for (const std::string& file : files) parts.push_back(open_file(file));
  }
  return join(std::move(parts));
}

void check_same_classes(const Dataset& train, const Dataset& val) {
  const auto &a = train.classes(), &b = val.classes();
  if (a == b) return;
  std::vector<std::string> only_train, only_val;
  std::ranges::set_difference(a, b, std::back_inserter(only_train));
  std::ranges::set_difference(b, a, std::back_inserter(only_val));
  std::string text;
  if (!only_train.empty()) text += "; only in train: " + list(only_train);
  if (!only_val.empty()) text += "; only in val: " + list(only_val);
  fail<DataError>("data: ", a.size(), " classes in train and ", b.size(), " in val", text,
                  ". Both need the same class folders: add what is missing or remove what is too much.");
}

}  // namespace gossamer::data
