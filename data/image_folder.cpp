// FOLDER/CLASS/NAME.jpg: the layout of ImageNet and of most teaching sets. Class folders are one level deep.
#include <algorithm>
#include <filesystem>
#include <map>

#include "gossamer/core/error.h"
#include "gossamer/data/files.h"
#include "gossamer/data/sources.h"

namespace gossamer::data {
namespace {

namespace fs = std::filesystem;

struct Listing {
  std::vector<std::string> folders, images, others;
};

Listing list(const fs::path& folder) {
  Listing found;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.starts_with('.')) continue;                     // .DS_Store, .ipynb_checkpoints
    std::error_code unreadable;                              // a dangling link counts as neither
    if (it->is_directory(unreadable)) found.folders.push_back(name);
    else if (is_image_name(name)) found.images.push_back(name);
    else found.others.push_back(name);
  }
  check<DataError>(!error, folder.string(), ": can't be listed: ", error.message());
  std::ranges::sort(found.folders);
  std::ranges::sort(found.images);
  return found;
}

std::string some(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 3; ++i) text += (i ? ", " : "") + printable(names[i]);
  return text + (names.size() > 3 ? ", …" : "");
}

class ImageFolder final : public Dataset {
 public:
  explicit ImageFolder(const std::string& folder) : root_(folder) {
    const Listing top = list(folder);
    if (top.folders.empty()) {
      check<DataError>(top.images.empty(), folder, ": the folder is flat: ", top.images.size(), " images (", some(top.images),
                       ") and no class folders. Put each image into a folder with the name of its class: ", folder, "/CLASS/NAME.jpg.");
      fail<DataError>(folder, ": no images: the folder holds no class folders and ", top.others.size(), " other files",
                      top.others.empty() ? "" : " (" + some(top.others) + ")", ". Wanted: ", folder, "/CLASS/NAME.jpg.");
    }
    bool nested = false;
    std::vector<std::string> empty;
    for (const std::string& name : top.folders) classes_.push_back(printable(name));
    std::ranges::sort(classes_);
    const auto twice = std::ranges::adjacent_find(classes_);
    check<DataError>(twice == classes_.end(), folder, ": two class folders differ in control characters alone (", twice == classes_.end() ? "" : *twice,
                     "); rename one.");
    for (const std::string& name : top.folders) {
      const Listing inside = list(fs::path(folder) / name);
      const auto label = static_cast<int>(std::ranges::lower_bound(classes_, printable(name)) - classes_.begin());
      nested = nested || !inside.folders.empty();
      if (inside.images.empty()) empty.push_back(name);
      for (const std::string& image : inside.images) samples_.add(name + "/" + image, label);
    }
    check<DataError>(samples_.size() > 0, folder, ": no images in its ", top.folders.size(), " folders (", some(top.folders), "). ",
                     nested ? "Those hold folders again: give one of them as the path, e.g. " + folder + "/" + top.folders.front() + "."
                            : "Wanted: " + folder + "/CLASS/NAME.jpg (or .png).");
    check<DataError>(empty.empty(), folder, ": ", empty.size(), " of ", top.folders.size(), " class folders hold no image: ", some(empty),
                     ". Fill or remove them.");
  }

  i64 size() const override { return samples_.size(); }
  int label(i64 i) const override { return samples_.label(i); }
  std::string name(i64 i) const override { return printable(samples_.name(i)); }
  const std::vector<std::string>& classes() const override { return classes_; }
  std::span<const std::byte> bytes(i64 i, std::vector<std::byte>& buffer) const override {
    const File file(root_ + "/" + samples_.name(i));
    check_encoded_size(file.size(), name(i));
    buffer.resize(file.size());
    file.read(0, buffer);
    return buffer;
  }

 private:
  std::string root_;
  Samples samples_;
  std::vector<std::string> classes_;
};

}  // namespace

std::shared_ptr<const Dataset> open_image_folder(const std::string& folder) { return std::make_shared<ImageFolder>(folder); }

}  // namespace gossamer::data
