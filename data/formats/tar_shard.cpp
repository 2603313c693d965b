// The members of an archive show which of the layouts it has.
#include "gossamer/data/formats/tar_shard.h"

#include <filesystem>
#include <string_view>

#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/core/text/plural.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/class_names.h"
#include "gossamer/data/formats/flat_val.h"
#include "gossamer/data/formats/format.h"
#include "gossamer/data/formats/tar.h"
#include "gossamer/data/formats/webdataset.h"

namespace gossamer::data {
namespace {

// The last folder that is a WordNet id (n01440764/images/x.JPEG), else the one of the file:
// train/cat/x.jpg -> cat.
std::string class_of(const std::string& name) {
  std::string_view folders(name), next;
  folders =
      folders.substr(0, folders.rfind('/') == std::string_view::npos ? 0 : folders.rfind('/'));
  while (!folders.empty()) {
    const std::size_t slash = folders.rfind('/');
    const std::string_view folder = folders.substr(slash == std::string_view::npos ? 0 : slash + 1);
    if (next.empty()) next = folder;
    if (is_wnid(folder)) return std::string(folder);
    folders = folders.substr(0, slash == std::string_view::npos ? 0 : slash);
  }
  return std::string(next);
}

}  // namespace

Index index_tar_file(const std::string& path) {
  const File file(path);
  FileReader reader(file);
  const Members members = list_tar(reader, path);
  if (members.size() == 0) {  // the last shard of a writer that filled the one before
    Index nothing = IndexBuilder(path, Wrapping::plain).finish();
    nothing.notes.push_back(path + ": holds no files");
    return nothing;
  }
  const std::string stem = std::filesystem::path(path).stem().string();
  // ImageNet's train archive, unpacked one level
  const std::string around = is_wnid(stem) ? stem + "/" : "";
  i64 images = 0, flat = 0, pictured = 0, numbered = 0, described = 0, others = 0;
  std::vector<std::string> first_others;
  members.names.each([&](i64, const std::string& name) {
    const bool image = is_image_name(name);
    images += image;
    if (!image && others++ < 4) first_others.push_back(name);
    flat += image && class_of(around + name).empty();
    pictured += is_picture_kind(webdataset_kind(name));
    numbered += has_ending(name, {".cls"});
    described += has_ending(name, {".json", ".txt"});
  });
  check<DataError>(images > 0, code::nothing, path, ": no images: the archive holds ",
                   members.size(), " files, none of them a picture by its name. ",
                   "Wanted: members CLASS/NAME.jpg, or KEY.jpg with KEY.cls (WebDataset).");
  if (numbered >= images || (pictured > 0 && numbered >= pictured) ||
      (flat > 0 && numbered + described > 0))
    return index_webdataset(reader, members, path);
  if (flat == images) return index_flat_tar(members, path);
  check<DataError>(flat == 0, code::not_understood, path, ": ", flat, " of ", images,
                   " images lie in no class folder. Pack them as CLASS/NAME.jpg.");
  IndexBuilder builder(path, Wrapping::plain);
  members.names.each([&](i64 i, const std::string& name) {
    const auto k = static_cast<std::size_t>(i);
    if (is_image_name(name))
      builder.add(name, class_of(around + name), members.offset[k], members.bytes[k]);
  });
  Index index = builder.finish();
  if (others > 0)
    index.notes.push_back(path + ": " + counted(others, "file") +
                          " left out, by a name that does not end like those of pictures that can "
                          "be read (" +
                          first_of(first_others) + ")");
  return index;
}

FileFormat tar_format() {
  return {.name = "tar",
          .wanted = "its official tars, tar shards (CLASS/NAME.jpg or WebDataset)",
          .has_name = [](const std::string& name) { return has_ending(name, {".tar"}); },
          .starts_with = looks_like_tar,
          .index = index_tar_file};
}

}  // namespace gossamer::data
