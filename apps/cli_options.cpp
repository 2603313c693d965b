// See cli_options.h.
#include "gossamer/apps/cli_options.h"

#include <CLI/CLI.hpp>

namespace gossamer::apps {

void when_parsed(CLI::App& app, std::function<void()> then) { app.callback(std::move(then)); }

void add_json(CLI::App& app, bool& json, const std::string& help) {
  app.add_flag("--json", json, help);
}

}  // namespace gossamer::apps
