// The kinds of data sets behind open(): each looks at one path and says where its samples lie.
#pragma once

#include <string>
#include <vector>

#include "gossamer/data/formats/index.h"

namespace gossamer::data {

// CLASS/NAME.jpg; or flat, with the ground truth beside it
Index index_image_folder(const std::string& folder);
// CLASS/NAME.jpg, a tar of tars, WebDataset, or flat with the ground truth
Index index_tar_file(const std::string& path);
// CIFAR-10 or, hundred, CIFAR-100 binary
Index index_cifar(const std::string& path, bool hundred);

// What open() opens: the containers behind these paths, in order; a folder of images counts as one.
struct Found {
  std::string path;
  bool folder = false;
};
struct Containers {
  std::vector<Found> found;
  // what lies there and is not taken
  std::vector<std::string> notes;
};
Containers find_containers(const std::vector<std::string>& paths, Part part);
// by its stored index if there is one that fits, else by reading it
Index index_container(const Found&);
Index read_container(const Found&);  // by reading it

}  // namespace gossamer::data
