// What the network is given at the start of a run, to look at in TensorBoard.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gossamer/apps/train/picture_step.h"
#include "gossamer/data/codec/image.h"

namespace gossamer::apps {

// The first eight images of a batch, cropped, augmented and mixed as in training, by their classes.
std::vector<std::pair<std::string, data::Image>> first_images(
    const nn::DrawnBatch&, const PictureStep&, const Pictures&,
    const std::vector<std::string>& classes);

}  // namespace gossamer::apps
