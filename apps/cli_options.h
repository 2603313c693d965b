// For the files that parse options (cli*.cpp): a command bound to its options.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

namespace gossamer::apps {

// Runs `command` with its options when `app` was parsed. Returns the options, to be bound.
template <class Options>
Options& run_on(CLI::App& app, int (*command)(const Options&), int& code) {
  const auto options = std::make_shared<Options>();
  app.callback([options, command, &code] { code = command(*options); });
  return *options;
}

inline void add_json(CLI::App& app, bool& json,
                     const std::string& help = "print the result as one JSON object") {
  app.add_flag("--json", json, help);
}

// The help of the key=value of a command that takes a model: `its` keys, and those of find_model().
inline std::string model_keys_help(const std::string& its) {
  return its +
         "; of weights of others also model.init_key=NAME, the state dict of a .pth to take, and "
         "model.init_rename=OLD=NEW";
}

// The device that a command computes on, as the key train.device among its arguments. Declared
// behind them.
inline void add_device(CLI::App& app, std::vector<std::string>& arguments) {
  app.add_option_function<std::string>(
      "--device",
      [&arguments](const std::string& name) { arguments.push_back("train.device=" + name); },
      "cpu, cuda, cuda:N, or auto (a GPU if there is one), the default");
}

// The commands for teaching: lesson, course, tape (cli_teaching.cpp).
void add_teaching(CLI::App& app, int& code);
void add_paper(CLI::App& app, int& code);     // cli_paper.cpp
void add_compare(CLI::App& app, int& code);   // cli_paper.cpp
void add_simulate(CLI::App& app, int& code);  // cli_simulate.cpp
// The commands for text: generate, translate and average; and tokenize, of `gossamer data`
// (cli_text.cpp).
void add_text_commands(CLI::App& app, int& code);
void add_tokenize(CLI::App& data, int& code);

}  // namespace gossamer::apps
