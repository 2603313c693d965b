// Folders of images as a data set.
#pragma once

#include <string>

#include "gossamer/data/formats/index.h"

namespace gossamer::data {

// CLASS/NAME.jpg; or flat, with the ground truth beside it (flat_val.h). DataError says what is
// missing; a class folder without a picture is no error here (Index::empty).
Index index_image_folder(const std::string& folder);
// Whether a picture lies in this folder or below; stops at the first.
bool holds_pictures(const std::string& folder);

}  // namespace gossamer::data
