// What lies behind a path: which files and folders make up a data set, and of which kind each is.
#pragma once

#include <string>
#include <vector>

#include "gossamer/data/dataset.h"
#include "gossamer/data/formats/index.h"

namespace gossamer::data {

// A file of samples, or a folder of images.
struct Container {
  std::string path;
  bool folder = false;
};
struct Containers {
  std::vector<Container> found;
  std::vector<std::string> notes;  // what lies there and is not taken
};
// What open() opens: the containers behind these paths, in order. DataError as open().
Containers find_containers(const std::vector<std::string>& paths, Part part);

// The samples of a container, by its stored index if there is one that fits, else by reading it.
// DataError as open().
Index index_container(const Container&);
Index read_container(const Container&);  // by reading it

}  // namespace gossamer::data
