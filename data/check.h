// Looks at every picture of a data set and lists the damaged and the unusual ones, for `gossamer
// data check`.
// Threads: any; tick is called by the calling thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gossamer/core/parallel.h"
#include "gossamer/data/dataset.h"

namespace gossamer::data {

struct CheckReport {
  i64 images = 0;           // that were looked at
  std::uint64_t bytes = 0;  // in their files
  int least_side = 0, most_side = 0;
  // "name: what is wrong", in the order of the set; then the samples that it had to leave out
  std::vector<std::string> damaged;
  // by oddity (picture_facts.h): names, in the order of the set
  std::map<std::string, std::vector<std::string>> odd;
  bool whole = true;  // false: stopped early
};

// Reads and decodes every picture. tick(done): see for_each_sample(). A damaged picture is no
// exception here.
CheckReport check_pictures(const Dataset&, int threads, FunctionRef<bool(i64)> tick);

}  // namespace gossamer::data
