// See relay.h.
#include "gossamer/dist/rounds/relay.h"

#include <set>

namespace gossamer::dist {

void check_tree(const std::string& method, const Rounds& rounds) {
  const int n = rounds.workers();
  bool tree = rounds.period() == 1 && !rounds.directed();
  std::vector<int> found{0};
  std::set<int> seen{0};
  std::size_t ends = 0;
  for (std::size_t i = 0; tree && i < found.size(); ++i)
    for (const Neighbour& each : rounds.round(found[i], 0).in) {
      ++ends;
      if (seen.insert(each.worker).second) found.push_back(each.worker);
    }
  const auto workers = static_cast<std::size_t>(n);
  tree = tree && found.size() == workers && ends == 2 * (workers - 1);
  check<ConfigError>(tree, "method ", method, ": sums go along a tree, and \"", rounds.name(),
                     "\" of ", n, " workers is none; take the graph chain, star or tree");
}

}  // namespace gossamer::dist
