// Lists in messages: "a, b, c".
// Threads: any.
#pragma once

#include <algorithm>
#include <concepts>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/core/text/printable.h"

namespace gossamer {

// What `text` makes of each item, a text or a whole number; between two of them stands `between`.
template <class List, class Text = std::identity>
std::string listed(const List& list, std::string_view between = ", ", Text text = {}) {
  std::string out;
  bool first = true;
  for (const auto& item : list) {
    if (!first) out += between;
    first = false;
    if constexpr (std::integral<std::remove_cvref_t<decltype(std::invoke(text, item))>>)
      out += std::to_string(std::invoke(text, item));
    else
      out += std::string_view(std::invoke(text, item));
  }
  return out;
}

// The first names, printable: "a, b, c, …".
inline std::string first_of(const std::vector<std::string>& names, std::size_t most = 3) {
  return listed(std::span(names).first(std::min(most, names.size())), ", ",
                [](const std::string& name) { return printable(name); }) +
         (names.size() > most ? ", …" : "");
}

}  // namespace gossamer
