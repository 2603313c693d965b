// `gossamer compare EXPERIMENT.toml` (../compare/README.md).
#pragma once

#include <string>

namespace gossamer::apps {

struct CompareCommand {
  std::string experiment;  // a TOML file
  std::string out;         // folder of its runs and its page; empty: runs/compare/NAME
  int jobs = 1;            // runs at a time
  bool json = false;
};
int compare(const CompareCommand&);

}  // namespace gossamer::apps
