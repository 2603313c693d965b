// MNIST's files of pictures and of labels.
#pragma once

#include <string>

#include "gossamer/data/formats/byte_reader.h"
#include "gossamer/data/formats/index.h"

namespace gossamer::data {

// The file where the labels of these pictures lie: images-idx3 becomes labels-idx1. Empty: the name
// says none.
std::string idx_labels_of(const std::string& path);
// DataError names the file that is wrong, `path` or `labels_path`.
Index index_idx(ByteReader& pictures, const std::string& path, ByteReader& labels,
                const std::string& labels_path);

}  // namespace gossamer::data
