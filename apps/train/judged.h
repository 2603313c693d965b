// Turns what became of each image of an evaluation into the report on classes.
#pragma once

#include <vector>

#include "gossamer/apps/report/class_report.h"
#include "gossamer/data/dataset.h"

namespace gossamer::apps {

// Each worker judged a share of the set. The table has 2 numbers for each sample, 0 where this
// worker did not judge it, so that the sum over the workers holds what all found; judged_from()
// reads that.
std::vector<double> judged_table(const std::vector<Judgement>&, const data::Dataset&);
std::vector<Judgement> judged_from(const std::vector<double>& table, const data::Dataset&);

// The report, with the 20 most confident mistakes as pictures with sides of at most 96 pixels.
ClassReport class_report(const std::vector<Judgement>&, const data::Dataset&);

}  // namespace gossamer::apps
