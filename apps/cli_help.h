// What was probably meant by a mistake on the command line.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace gossamer::apps {

// The sentence for arguments that `app` could not parse. It names an unknown command or option and
// the nearest one, or the key that an option of other programs is here.
std::string mistake(const CLI::App& app, const std::vector<std::string>& arguments,
                    const CLI::ParseError&);

}  // namespace gossamer::apps
