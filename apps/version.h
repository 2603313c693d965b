// Which Gossamer this is.
#pragma once

#include <string>

namespace gossamer::apps {

std::string version();         // "0.1.0"
std::string git_hash();        // of the tree at configure time; "unknown" outside git
std::string compiler();        // "gcc 12.2.0"
std::string onednn_version();  // "2.6.3", or "none"
bool has_gloo();

}  // namespace gossamer::apps
