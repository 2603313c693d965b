// One tar archive as a data set: which of the layouts it has is seen from its members.
#include <algorithm>

#include "gossamer/core/error.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/files.h"
#include "gossamer/data/formats/flat_val.h"
#include "gossamer/data/formats/sources.h"
#include "gossamer/data/formats/tar.h"
#include "gossamer/data/formats/webdataset.h"

namespace gossamer::data {
namespace {

std::string class_of(const std::string& name) {               // the folder next to the file: train/n01440764/x.JPEG -> n01440764
  const std::size_t end = name.rfind('/');
  if (end == std::string::npos || end == 0) return {};
  const std::size_t before = name.rfind('/', end - 1);
  return name.substr(before == std::string::npos ? 0 : before + 1, end - (before == std::string::npos ? 0 : before + 1));
}

}  // namespace

Index index_tar_file(const std::string& path) {
  const File file(path);
  FileReader reader(file);
  const Members members = list_tar(reader, path);
  i64 images = 0, flat = 0, numbered = 0, described = 0;
  members.names.each([&](i64, const std::string& name) {
    const bool image = is_image_name(name);
    images += image;
    flat += image && class_of(name).empty();
    numbered += name.ends_with(".cls");
    described += name.ends_with(".json") || name.ends_with(".txt");
  });
  check<DataError>(images > 0, code::nothing, path, ": no images: the archive holds ", members.size(), " files, none of them a picture by its name. ",
                   "Wanted: members CLASS/NAME.jpg, or KEY.jpg with KEY.cls (WebDataset).");
  if (numbered >= images || (flat > 0 && numbered + described > 0)) return index_webdataset(reader, members, path);
  if (flat == images) return index_flat_tar(members, path);
  check<DataError>(flat == 0, code::not_understood, path, ": ", flat, " of ", images, " images lie in no class folder. Pack them as CLASS/NAME.jpg.");
  IndexBuilder builder(path, Wrapping::plain);
  members.names.each([&](i64 i, const std::string& name) {
    const auto k = static_cast<std::size_t>(i);
    if (is_image_name(name)) builder.add(name, class_of(name), members.offset[k], members.bytes[k]);
  });
  return builder.finish();
}

}  // namespace gossamer::data
