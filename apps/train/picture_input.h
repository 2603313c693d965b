// What evaluation gives a model: where its pictures are resized, one of a file, and noise.
#pragma once

#include <string>

#include "gossamer/apps/train/pictures.h"
#include "gossamer/data/loader.h"

namespace gossamer::apps {

// Whether the device of the model crops and resizes, within 1/255 of what the host does
// (core/input_pass.h): a GPU does, unless by area. like_gpu: so does a CPU, for tests.
bool device_resizes(const Pictures&, bool like_gpu = false);
// A file's picture, resized and cropped: [1, size, size, 3], normalized. Error: names the file.
Tensor read_picture(const std::string& path, const Pictures&, bool like_gpu = false);
// A batch as the loader gives it, for measuring: boxes of `resize` x `resize` pixels where the
// device resizes.
data::Batch noise_batch(const Pictures&, i64 count, bool like_gpu = false);

}  // namespace gossamer::apps
