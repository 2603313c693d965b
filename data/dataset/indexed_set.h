// One data set out of the samples of several containers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/data/dataset.h"
#include "gossamer/data/formats/index.h"

namespace gossamer::data {

// All containers in this order, their classes united. Classes that are numbers become "0000",
// "0001", … up to the largest, or the names of a list beside the files (class_names.h). `notes`:
// those of the search, before the containers' own. DataError: pixels and encoded images mixed,
// numbers and names mixed, no samples.
std::shared_ptr<const Dataset> open_indices(std::vector<Index> parts,
                                            LabelBase = LabelBase::automatic,
                                            std::vector<std::string> notes = {});

}  // namespace gossamer::data
