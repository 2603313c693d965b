// From what became of each image to the report on classes.
#pragma once

#include <vector>

#include "gossamer/apps/report/class_report.h"
#include "gossamer/data/dataset.h"

namespace gossamer::apps {

// Of workers that each judged a share of the set: 2 numbers for each sample, 0 where a worker did
// not judge it, so that the sum over the workers holds what all found; and back.
std::vector<double> judged_table(const std::vector<Judgement>&, const data::Dataset&);
std::vector<Judgement> judged_from(const std::vector<double>& table, const data::Dataset&);

// With the 20 most confident mistakes, as pictures with sides of at most 96 pixels.
ClassReport class_report(const std::vector<Judgement>&, const data::Dataset&);

}  // namespace gossamer::apps
