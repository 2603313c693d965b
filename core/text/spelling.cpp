// See spelling.h.
#include "gossamer/core/text/spelling.h"

#include <algorithm>

namespace gossamer {

std::size_t edit_distance(const std::string& a, const std::string& b) {
  // distance[i][j]: between the first i letters of a and the first j of b
  std::vector<std::vector<std::size_t>> distance(a.size() + 1,
                                                 std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i)
    for (std::size_t j = 0; j <= b.size(); ++j) {
      std::size_t& here = distance[i][j];
      if (i == 0 || j == 0) {
        here = i + j;
        continue;
      }
      here = std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1,
                       distance[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        here = std::min(here, distance[i - 2][j - 2] + 1);
    }
  return distance[a.size()][b.size()];
}

bool is_slip(std::size_t edits, const std::string& word) {
  const std::size_t n = word.size();
  return edits <= (n <= 2 ? 0u : n <= 5 ? 1u : n <= 9 ? 2u : 3u);
}

std::vector<std::string> nearest(const std::string& word, const std::vector<std::string>& names) {
  std::vector<std::string> best;
  std::size_t least = word.size() + 1;
  for (const std::string& name : names) {
    std::size_t edits = edit_distance(word, name);
    if (word.find('-') == std::string::npos)
      edits = std::min(edits, edit_distance(word, name.substr(0, name.find('-'))));
    if (edits > least || !is_slip(edits, word)) continue;
    if (edits < least) best.clear();
    least = edits;
    best.push_back(name);
  }
  return best;
}

std::string alternatives(const std::vector<std::string>& names, const std::string& quote) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += (i == 0 ? "" : i + 1 < names.size() ? ", " : " or ") + quote + names[i] + quote;
  return out;
}

}  // namespace gossamer
