// --slow of `gossamer simulate` and `gossamer what-if`.
#pragma once

#include <string>
#include <vector>

namespace gossamer::apps {

// Reads "3:x10", worker 3 needs 10 times as long, or "3:0.5", it has half the speed. Sets slow[3],
// and those before it that are not listed yet to 1. ConfigError names the command, and says what is
// wanted.
void read_slow(const std::string& command, const std::string& text, int workers,
               std::vector<double>& slow);

}  // namespace gossamer::apps
