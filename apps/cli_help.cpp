// See cli_help.h.
#include "gossamer/apps/cli_help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <regex>

#include "gossamer/apps/config.h"
#include "gossamer/core/text/spelling.h"

namespace gossamer::apps {
namespace {

// The name of a command behind those of the commands above it.
std::string full_name(const CLI::App& app) {
  return (app.get_parent() ? full_name(*app.get_parent()) + " " : "") + app.get_name();
}

// "data: "; of gossamer itself, whose name stands before every error: "".
std::string whose(const CLI::App& app) {
  const std::string name = full_name(app), above = "gossamer";
  return name == above ? "" : name.substr(above.size() + 1) + ": ";
}

bool is_shown(const CLI::App* app) { return !app->get_group().empty(); }

// The command that the arguments lead to, or the one above it that could not use some of them.
const CLI::App& stuck_in(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() || !app.remaining().empty() ? app : stuck_in(*parsed.back());
}

// train and eval take key=value.
bool takes_keys(const CLI::App& app) {
  return std::ranges::any_of(app.get_options(), [](const CLI::Option* option) {
    return option->get_positional() && option->get_name() == "arguments";
  });
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// What CLI11 says of an option that came too often, or without its value.
std::string in_our_words(const std::string& why) {
  static const std::regex repeated("(\\S+): At Most 1 required but received (\\d+)"),
      missing("(\\S+): \\d+ required \\S+ missing");
  std::smatch parts;
  if (std::regex_match(why, parts, repeated))
    return parts.str(1) + " is given " + parts.str(2) + " times; give it once";
  if (std::regex_match(why, parts, missing)) return parts.str(1) + " wants a value behind it";
  return why;
}

std::string see(const CLI::App& app) { return " (see " + full_name(app) + " --help)"; }

std::string unknown_option(const CLI::App& app, const std::string& word,
                           const std::vector<std::string>& arguments) {
  const std::string option = word.substr(0, word.find('='));
  const std::string text = whose(app) + "there is no option " + option;
  if (const auto near = nearest(option, option_names(app)); !near.empty())
    return text + "; did you mean " + alternatives(near) + "?" + see(app);
  if (!takes_keys(app)) return text + see(app);
  std::string key = option.substr(option.find_first_not_of('-'));
  std::ranges::replace(key, '-', '_');
  std::vector<std::string> near = nearest_keys(key);
  if (near.empty())
    return text + "; the configuration is given as key=value, and `gossamer config` lists the keys";
  std::string value = "VALUE";
  if (option != word) {
    value = word.substr(option.size() + 1);
  } else if (auto at = std::ranges::find(arguments, word);
             at != arguments.end() && ++at != arguments.end() && !at->starts_with('-') &&
             at->find('=') == std::string::npos) {
    value = *at;
  }
  for (std::string& each : near)
    if (!each.starts_with('-')) each += "=" + value;
  return text + "; the configuration is given as key=value: " + alternatives(near) +
         " (`gossamer config` lists the keys)";
}

// --label-base {auto,0,1}; or those of the key that an option of this name stands for.
std::vector<std::string> values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const auto open = type.find('{'), close = type.find('}');
  if (open != std::string::npos && close != std::string::npos)
    return CLI::detail::split(type.substr(open + 1, close - open - 1), ',');
  if (option.get_type_size() == 0) return {};
  if (option.get_name() == "names") {  // of gossamer config
    std::vector<std::string> keys;
    for (const KeyText& key : key_texts()) keys.push_back(key.name);
    return keys;
  }
  for (const auto& [name, key] : {std::pair{"--model", "model.name"},
                                  {"--dtype", "train.dtype"},
                                  {"--isa", "train.isa"},
                                  {"--device", "train.device"},
                                  {"--method", "train.method"},
                                  {"--graph", "train.graph"}})
    if (option.get_name() == name) return choices_of(key);
  return {};
}

}  // namespace

std::vector<std::string> choices_of(const std::string& key) { return key_text(key).choices; }

std::string chosen_command(const CLI::App& root) {
  const CLI::App& app = stuck_in(root);
  return &app == &root ? "" : full_name(app).substr(root.get_name().size() + 1);
}

CommandHelp describe(const CLI::App& app) {
  CommandHelp out;
  out.name = full_name(app);
  out.about = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    OptionHelp row;
    row.positional = option->get_positional();
    for (const std::string& name : option->get_snames()) row.names.push_back("-" + name);
    for (const std::string& name : option->get_lnames()) row.names.push_back("--" + name);
    if (row.positional) row.names = {option->get_name()};
    if (option->get_type_size() > 0) row.value = option->get_type_name();
    row.about = option->get_description();
    row.preset = option->get_default_str();
    row.values = values_of(*option);
    row.required = option->get_required();
    row.repeats = option->get_expected_max() > 1;
    out.options.push_back(row);
  }
  for (const CLI::App* each : app.get_subcommands(is_shown))
    out.commands.push_back(describe(*each));
  out.takes_keys = takes_keys(app);
  out.takes_above = app.get_fallthrough();
  out.takes_any_command = app.get_prefix_command();
  return out;
}

std::string mistake(const CLI::App& root, const std::vector<std::string>& arguments,
                    const CLI::ParseError& error) {
  const CLI::App& app = stuck_in(root);
  const std::string why = in_our_words(error.what());
  if (!dynamic_cast<const CLI::ExtrasError*>(&error) &&
      !dynamic_cast<const CLI::RequiredError*>(&error))
    return why + see(app);
  const std::vector<std::string> left = app.remaining();
  const auto option =
      std::ranges::find_if(left, [](const std::string& word) { return word.starts_with('-'); });
  if (option != left.end()) return unknown_option(app, *option, arguments);
  std::vector<std::string> commands;
  for (const CLI::App* each : app.get_subcommands(is_shown)) commands.push_back(each->get_name());
  if (commands.empty()) return why + see(app);
  if (left.empty())
    return whose(app) + "a command is missing: " + alternatives(commands) + see(app);
  const auto near = nearest(left[0], commands);
  return whose(app) + "there is no command \"" + left[0] + "\"; " +
         (near.empty() ? "known are " + alternatives(commands)
                       : "did you mean " + alternatives(near) + "?") +
         see(app);
}

}  // namespace gossamer::apps
