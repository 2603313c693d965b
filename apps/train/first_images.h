// What the network is given at the start of a run, to look at in TensorBoard.
#pragma once

#include "gossamer/apps/train/loop.h"

namespace gossamer::apps {

// The first eight images of a batch, cropped, augmented and mixed as in training, from the worker
// that speaks, if it writes for TensorBoard. Nothing of an empty batch.
void show_images(Worker&, const TrainingLoss&, const data::Batch&, const Position&);

}  // namespace gossamer::apps
