// The models in the files of a checkpoint's workers: their mean, as at the end of a run.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gossamer/core/tensor.h"

namespace gossamer::apps {

// Header entries for the file of a worker, and back: what the header of the model's file would be,
// and which names belong to the state of training (`prefixes`: "optim.", "ema.", …).
void add_model_entries(std::map<std::string, std::string>& header,
                       const std::map<std::string, std::string>& model,
                       const std::vector<std::string>& prefixes);
// Empty: an older file, which has none.
std::map<std::string, std::string> model_entries(const std::map<std::string, std::string>& header);

// The mean of the models in these files, with the layout of memory. The variance of a batch norm
// becomes that of the activations of all workers together: the mean of v + m^2 minus the square of
// the mean m. What is equal in all files stays as it is, bit for bit; counters are the first's.
// IoError: a file cannot be read, or has another model.
std::vector<NamedTensor> mean_of_workers(const std::vector<std::filesystem::path>& files);

}  // namespace gossamer::apps
