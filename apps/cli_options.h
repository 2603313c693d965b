// What the files that parse options share.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace CLI {
class App;
}

namespace gossamer::apps {

void when_parsed(CLI::App&, std::function<void()>);
// Runs `command` with its options when `app` was parsed. Returns the options, to be bound.
template <class Options>
Options& run_on(CLI::App& app, int (*command)(const Options&), int& code) {
  const auto options = std::make_shared<Options>();
  when_parsed(app, [options, command, &code] { code = command(*options); });
  return *options;
}

void add_json(CLI::App&, bool& json,
              const std::string& help = "print the result as one JSON object");

void add_paper(CLI::App&, int& code);  // cli_paper.cpp
// The commands for text (cli_text.cpp): generate and translate; and tokenize, of `gossamer data`.
void add_text_commands(CLI::App&, int& code);
void add_tokenize(CLI::App& data, int& code);

}  // namespace gossamer::apps
