// Workers with different data (non-IID), as in federated learning: each worker has another share of
// each class.
// Threads: any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/data/dataset.h"

namespace gossamer::data {

// "dirichlet:0.3" -> 0.3, which is above 0, at most 1e6; ConfigError otherwise.
double parse_dirichlet(const std::string& text);

// The samples of each worker, ascending: each sample belongs to one worker. The shares of a class
// are drawn from Dirichlet(alpha, …, alpha) (Hsu, Qi, Brown 2019): with a small alpha few workers
// have most of a class, with a large one all have the same. A pure function of its arguments and
// the labels, so that workers need not communicate. A worker may have no samples.
std::vector<std::vector<i64>> dirichlet_parts(const Dataset&, double alpha, int workers,
                                              std::uint64_t seed);

// A part of a data set as a data set: its sample i is sample which[i] of the whole. It has all
// classes of the whole.
std::shared_ptr<const Dataset> part_of(std::shared_ptr<const Dataset>, std::vector<i64> which);

}  // namespace gossamer::data
