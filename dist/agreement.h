// The begin of a training: all workers check that they are about to do the same thing. Private to
// dist/.
#pragma once

#include <string>
#include <string_view>

#include "gossamer/dist/method.h"

namespace gossamer::dist {

// values() become the mean of all workers', except after a resume (start_samples or restore),
// where each goes on from its own. Who dies meanwhile is left out. DistError on every worker if two
// do not agree: it names them, the option and both values. settings: name and value of each setting
// of any method, as many and in the same order on all. Returns the start_samples of all.
double begin_together(const std::string& method, FlatParams&, Group&, const Graph&,
                      const MethodOptions&,
                      const std::vector<std::pair<std::string, std::string>>& settings);

// n and the edges with their rates: the same text on workers with the same graph.
std::string text_of(const Graph&);
// 64 bits of FNV-1a.
std::uint64_t hash_of(std::string_view bytes);

}  // namespace gossamer::dist
