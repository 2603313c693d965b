// What shells and manuals are told of the program: completion scripts for bash and zsh, and the man
// page. All are written from the command line's own list and from the list of keys.
#pragma once

#include <string>
#include <vector>

namespace gossamer::apps {

struct OptionHelp {
  std::vector<std::string> names;   // "--threads"; of a positional: "workers"
  std::string value;                // of what kind: "INT", "TEXT"; empty: a flag
  std::string about, preset;        // preset: the default; empty: none is said
  std::vector<std::string> values;  // that it takes; empty: there is no list of them
  bool positional = false, required = false, repeats = false;
};

struct CommandHelp {
  std::string name, about;  // name: with those above: "gossamer data pack"
  std::vector<OptionHelp> options;
  std::vector<CommandHelp> commands;
  bool takes_keys = false;         // key=value, as train
  bool takes_above = false;        // the options of the command above
  bool takes_any_command = false;  // run: a command of gossamer's
};

std::string bash_completion(const CommandHelp&);
std::string zsh_completion(const CommandHelp&);
std::string man_page(const CommandHelp&);  // roff, section 1

}  // namespace gossamer::apps
