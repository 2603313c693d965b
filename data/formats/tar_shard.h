// One tar archive as a data set.
#pragma once

#include <string>

#include "gossamer/data/formats/index.h"

namespace gossamer::data {

// CLASS/NAME.jpg, a tar of tars, WebDataset, or flat with the ground truth beside it. DataError
// says what is wrong with it.
Index index_tar_file(const std::string& path);

}  // namespace gossamer::data
