// Selects parameters by their names.
// Threads: any.
#pragma once

#include <string>
#include <vector>

namespace gossamer::nn {

// Patterns between commas or spaces; "all but PATTERNS" means all the others. A pattern is the name
// of a parameter or of a layer, which means all below it; "*" stands for any characters:
//
//   conv1, bn1, layer1      all but fc      layer*.bn*      all
class Selection {
 public:
  explicit Selection(const std::string& text);  // ConfigError if there is no pattern
  bool operator()(const std::string& name) const;
  // ConfigError names a pattern that fits none of `names`, and lists the layers; if it fits one of
  // `all`, the error says that those parameters are frozen.
  void check_used(const std::vector<std::string>& names,
                  const std::vector<std::string>& all = {}) const;

 private:
  std::string text_;
  std::vector<std::string> patterns_;
  bool others_ = false;
};

}  // namespace gossamer::nn
