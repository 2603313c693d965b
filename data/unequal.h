// Workers whose data differ (non-IID), as in federated learning: of each class every worker has
// another share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/data/dataset.h"

namespace gossamer::data {

// "dirichlet:0.3" -> 0.3, which is above 0, at most 1e6; ConfigError otherwise.
double parse_dirichlet(const std::string& text);

// Which samples each worker has, ascending: each sample belongs to one worker. The shares of a
// class are drawn from Dirichlet(alpha, …, alpha) (Hsu, Qi, Brown 2019): a small alpha leaves a
// class to few workers, a large one gives all the same. A pure function of its arguments and the
// labels, so that workers need not tell each other. A worker may have nothing.
std::vector<std::vector<i64>> dirichlet_parts(const Dataset&, double alpha, int workers,
                                              std::uint64_t seed);

// The samples `which` of a data set, as one: sample i of it is sample which[i]. The classes stay
// all of them.
std::shared_ptr<const Dataset> part_of(std::shared_ptr<const Dataset>, std::vector<i64> which);

}  // namespace gossamer::data
