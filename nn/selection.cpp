// See selection.h.
#include "gossamer/nn/selection.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"

namespace gossamer::nn {
namespace {

// Goes back to the last star only, so the time is at most the product of both lengths.
bool like(std::string_view text, std::string_view pattern) {
  std::size_t t = 0, p = 0, star = pattern.npos, after_star = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p, ++t;
    } else if (star != pattern.npos) {
      p = star + 1;
      t = ++after_star;
    } else {
      return false;
    }
  }
  return std::ranges::all_of(pattern.substr(p), [](char c) { return c == '*'; });
}

bool is_of(const std::string& name, const std::string& pattern) {
  return pattern == "all" || like(name, pattern) || like(name, pattern + ".*");
}

}  // namespace

Selection::Selection(const std::string& text) : text_(text) {
  std::string spaced = text;
  std::ranges::replace(spaced, ',', ' ');
  std::istringstream words(spaced);
  for (std::string word; words >> word;) patterns_.push_back(word);
  if (patterns_.size() >= 2 && patterns_[0] == "all" && patterns_[1] == "but") {
    others_ = true;
    patterns_.erase(patterns_.begin(), patterns_.begin() + 2);
  }
  check<ConfigError>(!patterns_.empty(), "\"", text, "\" names no parameter; wanted, for example, ",
                     "\"conv1, layer1\" or \"all but fc\"");
}

bool Selection::operator()(const std::string& name) const {
  return others_ != std::ranges::any_of(patterns_, [&](auto& p) { return is_of(name, p); });
}

void Selection::check_used(const std::vector<std::string>& names,
                           const std::vector<std::string>& all) const {
  std::vector<std::string> layers;
  for (const std::string& name : names)
    if (const std::string layer = name.substr(0, name.find('.'));
        std::ranges::find(layers, layer) == layers.end())
      layers.push_back(layer);
  std::ranges::sort(layers);
  for (const std::string& pattern : patterns_) {
    const auto is_meant = [&](const std::string& n) { return is_of(n, pattern); };
    if (std::ranges::any_of(names, is_meant)) continue;
    check<ConfigError>(std::ranges::none_of(all, is_meant), "\"", text_,
                       "\": all parameters called \"", pattern, "\" are frozen");
    fail<ConfigError>("\"", text_, "\": no parameter is called \"", pattern,
                      "\"; the layers are: ", listed(layers));
  }
}

}  // namespace gossamer::nn
