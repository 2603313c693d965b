// The kinds of data sets behind open().
#pragma once

#include <memory>
#include <string>

#include "gossamer/data/dataset.h"

namespace gossamer::data {

std::shared_ptr<const Dataset> open_image_folder(const std::string& folder);
std::shared_ptr<const Dataset> open_tar(const std::string& path);
std::shared_ptr<const Dataset> open_cifar(const std::string& path, bool hundred);        // CIFAR-10 or, hundred, CIFAR-100 binary
std::shared_ptr<const Dataset> join(std::vector<std::shared_ptr<const Dataset>> parts);  // classes are united

}  // namespace gossamer::data
