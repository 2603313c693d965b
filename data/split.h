// Validation data that no path names: what lies beside the training data, or a part of it.
// Threads: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gossamer/data/dataset.h"

namespace gossamer::data {

// What these paths hold: {train, val} if both (folders train/ and val/, shards named for both,
// ...), otherwise {any}.
std::vector<Part> parts_in(const std::vector<std::string>& paths);

// The files, and folders of images, that open() takes behind these paths. DataError as open().
std::vector<std::string> sources_of(const std::vector<std::string>& paths, Part part);

// Paths whose part `val` belongs to this training data: the same ones if they hold both parts, else
// the folder around the one path if that folder holds it as its training data. Empty: there are
// none. DataError as open() if there is no training data.
std::vector<std::string> validation_beside(const std::vector<std::string>& train);

// Which samples train and which validate; ascending.
struct Split {
  std::vector<i64> train, val;
};
// The nearest number to this share of each class validates, but at least one and never all of its
// samples; a class of one sample trains. Drawn from the seed: a pure function of its arguments and
// the labels, so that workers and a later evaluation need not communicate. share: above 0, below 1.
Split stratified_split(const Dataset&, double share, std::uint64_t seed);

}  // namespace gossamer::data
