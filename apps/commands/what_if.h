// `gossamer what-if`.
#pragma once

#include <string>
#include <vector>

namespace gossamer::apps {

// Speed of a run that was not made, from the trace of one that was.
struct WhatIfCommand {
  std::string run;                       // folder
  int workers = 0, machines = 0;         // 0: as of the run
  std::string graph, method, bandwidth;  // "10G" bits a second; empty: as of the run
  std::vector<std::string> slow;         // "3:x2": worker 3 needs twice as long
  bool json = false;
};
int what_if(const WhatIfCommand&);

}  // namespace gossamer::apps
