// FOLDER/CLASS/NAME.jpg: the layout of ImageNet and of most teaching sets. Class folders are one level deep. A flat folder is ImageNet's val/.
#include <algorithm>
#include <filesystem>

#include "gossamer/core/error.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/flat_val.h"
#include "gossamer/data/formats/packed.h"
#include "gossamer/data/formats/sources.h"

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

}  // namespace

Index index_image_folder(const std::string& folder) {
  const Listing top = list(folder);
  if (top.folders.empty()) {
    if (!top.images.empty()) return index_flat_folder(folder, top.images);
    fail<DataError>(code::nothing, folder, ": no images: the folder holds no class folders and ", top.others.size(), " other files",
                    top.others.empty() ? "" : " (" + some(top.others) + ")", ". Wanted: ", folder, "/CLASS/NAME.jpg.");
  }
  std::vector<std::string> classes, empty;
  for (const std::string& name : top.folders) classes.push_back(printable(name));
  std::ranges::sort(classes);
  const auto twice = std::ranges::adjacent_find(classes);
  check<DataError>(twice == classes.end(), code::not_understood, folder,
                   ": two class folders differ in control characters alone (", twice == classes.end() ? "" : *twice,
                   "); rename one.");
  IndexBuilder builder(folder, Wrapping::file);
  std::string full;                                         // a folder that holds folders or archives: perhaps that was meant
  for (const std::string& name : top.folders) {
    const Listing inside = list(fs::path(folder) / name);
    const bool archives = std::ranges::any_of(inside.others, [](const std::string& n) { return n.ends_with(".tar") || n.ends_with(kPackEnding); });
    if (full.empty() && (archives || !inside.folders.empty())) full = name;
    if (inside.images.empty()) empty.push_back(name);
    for (const std::string& image : inside.images) builder.add(name + "/" + image, printable(name));
  }
  check<DataError>(builder.size() > 0, code::nothing, folder, ": no images in its ", top.folders.size(), " folders (", some(top.folders), "). ",
                   full.empty() ? "Wanted: " + folder + "/CLASS/NAME.jpg (or .png)."
                                : "Those hold folders or archives: give one of them as the path, e.g. " + folder + "/" + full + ".");
  check<DataError>(empty.empty(), code::nothing, folder, ": ", empty.size(), " of ", top.folders.size(),
                   " class folders hold no image: ", some(empty), ". Fill or remove them.");
  return builder.finish();
}

}  // namespace gossamer::data
