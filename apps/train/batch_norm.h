// Running statistics of batch norms for weights that no training has had, such as an average.
#pragma once

#include "gossamer/apps/train/task.h"

namespace gossamer::apps {

// Estimates them again on so many batches of the task's training data, from `at` on. The network
// stays in training mode.
void estimate_batch_norm(Task&, nn::Module&, const nn::Position& at, i64 batches);

}  // namespace gossamer::apps
