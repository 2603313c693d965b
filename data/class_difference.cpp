// See class_difference.h.
#include "gossamer/data/class_difference.h"

#include <algorithm>

namespace gossamer::data {
namespace {

std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 3; ++i)
    text += (i ? ", " : "") + ("'" + names[i] + "'");
  return names.size() > 3 ? text + " and " + std::to_string(names.size() - 3) + " more" : text;
}

}  // namespace

std::string class_difference(const std::vector<std::string>& a, const std::string& first,
                             const std::vector<std::string>& b, const std::string& second) {
  if (a == b) return {};
  auto sorted_a = a, sorted_b = b;
  std::ranges::sort(sorted_a);
  std::ranges::sort(sorted_b);
  std::vector<std::string> only_a, only_b;
  std::ranges::set_difference(sorted_a, sorted_b, std::back_inserter(only_a));
  std::ranges::set_difference(sorted_b, sorted_a, std::back_inserter(only_b));
  std::string text;
  if (!only_a.empty()) text += "; only in " + first + ": " + list(only_a);
  if (!only_b.empty()) text += "; only in " + second + ": " + list(only_b);
  if (!text.empty()) return text;
  const auto [x, y] = std::ranges::mismatch(a, b);
  return "; number " + std::to_string(x - a.begin()) + " is '" + *x + "' in " + first + " and '" +
         *y + "' in " + second;
}

}  // namespace gossamer::data
