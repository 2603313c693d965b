// Several workers' states of one training (train_state.h): the mean of their models, as at the end
// of a run.
// Threads: any.
#pragma once

#include <filesystem>
#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/core/tensor.h"

namespace gossamer::nn {

// The mean of the models in these files, with the layout of memory. The variance of a batch norm
// becomes that of the activations of all workers together: the mean of v + m^2 minus the square of
// the mean m. What is equal in all files stays as it is, bit for bit; counters are the first's.
// IoError: a file cannot be read, or has another model.
std::vector<NamedTensor> mean_of_workers(const std::vector<std::filesystem::path>& files);
// Sets values, running statistics and what is frozen to that mean. OtherShapes: it is of another
// model.
void load_mean_of_workers(const std::vector<std::filesystem::path>& files, FlatParams&);

}  // namespace gossamer::nn
