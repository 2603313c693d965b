// `gossamer simulate … --html FILE` and `gossamer graph … --html FILE`: the results as pictures.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "gossamer/apps/report/pictures.h"
#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/simulation/consensus.h"
#include "gossamer/dist/simulation/problems.h"
#include "gossamer/dist/simulation/timeline.h"

namespace gossamer::apps {

std::string consensus_pictures(const dist::ConsensusResult&);
std::string training_pictures(const dist::TrainingResult&);
std::string timeline_pictures(const dist::TimelineResult&);
std::string exchange_pictures(const std::vector<dist::ExchangeCount>&);
// The graph with its rates; how (x - mean)^2 decays at each of the named exponents.
std::string graph_pictures(const dist::Graph&,
                           const std::vector<std::pair<std::string, double>>& decays);
// rounds that multiply |x - mean| by rho each
std::string rounds_picture(double rho);

// The pictures, and below them the numbers and the command's text output.
void write_result_page(const std::string& file, const std::string& title,
                       const std::string& pictures, const std::string& json);

}  // namespace gossamer::apps
