// See file_names.h.
#include "gossamer/core/text/file_names.h"

#include <algorithm>

namespace gossamer {

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

bool has_ending(std::string_view name, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view ending) {
    return name.size() >= ending.size() &&
           lower_case(name.substr(name.size() - ending.size())) == ending;
  });
}

bool is_hidden(std::string_view path) {
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    if (part.starts_with('.') ? part != "." && part != ".."
                              : part == "__MACOSX" || part == "@eaDir" || part == "lost+found")
      return true;
    path.remove_prefix(std::min(part.size() + 1, path.size()));
  }
  return false;
}

}  // namespace gossamer
