// The kinds of data sets behind open(): each looks at one path and says where its samples lie.
#pragma once

#include <string>
#include <vector>

#include "gossamer/data/formats/index.h"

namespace gossamer::data {

Index index_image_folder(const std::string& folder);                       // CLASS/NAME.jpg; or flat, with the ground truth beside it
Index index_tar_file(const std::string& path);                             // CLASS/NAME.jpg, a tar of tars, WebDataset, or flat with the ground truth
Index index_cifar(const std::string& path, bool hundred);                  // CIFAR-10 or, hundred, CIFAR-100 binary

// What open() opens: the containers behind these paths, in order; a folder of images counts as one.
struct Found { std::string path; bool folder = false; };
struct Containers {
  std::vector<Found> found;
  std::vector<std::string> notes;                                          // what lies there and is not taken
};
Containers find_containers(const std::vector<std::string>& paths, Part part);
Index index_container(const Found&);                                       // by its stored index if there is one that fits, else by reading it
Index read_container(const Found&);                                        // by reading it

}  // namespace gossamer::data
