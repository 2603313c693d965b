// What the command line says about itself: what was probably meant by a mistake, and its commands
// with their options as plain lists, from which completion and man page are written.
#pragma once

#include <string>
#include <vector>

#include "gossamer/apps/commands/shell.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace gossamer::apps {

CommandHelp describe(const CLI::App&);

// The values that this configuration key may have.
std::vector<std::string> choices_of(const std::string& key);

// The command that the arguments of a parsed `app` lead to, as "data pack".
std::string chosen_command(const CLI::App& app);

// The sentence for arguments that `app` could not parse. It names an unknown command or option and
// the nearest one, or the key that an option of other programs is here.
std::string mistake(const CLI::App& app, const std::vector<std::string>& arguments,
                    const CLI::ParseError&);

}  // namespace gossamer::apps
