// FOLDER/CLASS/NAME.jpg: the layout of ImageNet and of most teaching sets. A flat folder is
// ImageNet's val/.
#include "gossamer/data/formats/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/class_names.h"
#include "gossamer/data/formats/flat_val.h"
#include "gossamer/data/formats/packed.h"

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
    if (is_hidden(name)) continue;
    std::error_code unreadable;  // a dangling link counts as neither
    if (it->is_directory(unreadable))
      found.folders.push_back(name);
    else if (is_image_name(name))
      found.images.push_back(name);
    else
      found.others.push_back(name);
  }
  check<DataError>(!error, folder.string(), ": can't be listed: ", error.message());
  std::ranges::sort(found.folders);
  std::ranges::sort(found.images);
  return found;
}

// Whether it is a link to a folder above it.
bool leads_back(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_symlink(folder, ignored)) return false;
  for (fs::path above = folder.parent_path(); above.has_relative_path();
       above = above.parent_path())
    if (fs::equivalent(above, folder, ignored)) return true;
  return false;
}

// The folder and all below it, sorted by their paths from `parent` on: the order of torchvision's
// ImageFolder.
void walk(const fs::path& parent, const std::string& folder, std::map<std::string, Listing>& all) {
  const Listing& here = all[folder] = list(parent / folder);
  for (const std::string& name : here.folders)
    if (const std::string below = folder + "/" + name; !leads_back(parent / below))
      walk(parent, below, all);
}

void note(Index& index, const std::vector<std::string>& files, const char* why) {
  if (!files.empty())
    index.notes.push_back(index.path + ": " + std::to_string(files.size()) + " " + why + " (" +
                          first_of(files) + ")");
}

}  // namespace

bool holds_pictures(const std::string& folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator it(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (is_hidden(name)) continue;
    std::error_code unreadable;
    if (it->is_directory(unreadable))
      folders.push_back(it->path());
    else if (is_image_name(name))
      return true;
  }
  return std::ranges::any_of(folders, [](const fs::path& below) {
    return !leads_back(below) && holds_pictures(below.string());
  });
}

Index index_image_folder(const std::string& folder) {
  const Listing top = list(folder);
  if (top.folders.empty()) {
    if (!top.images.empty()) return index_flat_folder(folder, top.images);
    fail<DataError>(code::nothing, folder, ": no images: the folder holds no class folders and ",
                    top.others.size(), " other files",
                    top.others.empty() ? "" : " (" + first_of(top.others) + ")",
                    ". Wanted: ", folder, "/CLASS/NAME.jpg.");
  }
  std::vector<std::string> empty;
  IndexBuilder builder(folder, Wrapping::file);
  // a folder with folders or archives in it: perhaps the user meant that one
  std::string full;
  // false: no picture lies directly in its class folder; perhaps the path is one level too high
  bool direct = false;
  std::vector<std::string> others;
  for (const std::string& name : top.folders) {
    std::map<std::string, Listing> all;
    walk(folder, name, all);
    const i64 before = builder.size();
    bool archives = false;
    for (const auto& [place, inside] : all) {
      for (const std::string& image : inside.images) builder.add(place + "/" + image, name);
      for (const std::string& other : inside.others) {
        others.push_back(place + "/" + other);
        archives = archives || has_ending(other, {".tar", kPackEnding});
      }
    }
    direct = direct || !all[name].images.empty() || (is_wnid(name) && builder.size() > before);
    if (full.empty() && (archives || all.size() > 1)) full = name;
    if (builder.size() == before) empty.push_back(printable(name));
  }
  check<DataError>(direct, code::nothing, folder, ": no images in its ", top.folders.size(),
                   " folders (", first_of(top.folders), "). ",
                   full.empty()
                       ? "Wanted: " + folder + "/CLASS/NAME.jpg (or .png)."
                       : "Those hold folders or archives: give one of them as the path, e.g. " +
                             folder + "/" + full + ".");
  Index index = builder.finish();
  index.empty = std::move(empty);
  note(index, top.images, "pictures lie in no class folder and are left out");
  note(index, others,
       "files in class folders are left out: their names do not end like those of pictures that "
       "can be read");
  return index;
}

}  // namespace gossamer::data
