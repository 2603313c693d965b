// What a run was started with and on: its command, the machine, the versions, the data.
#pragma once

#include <filesystem>
#include <string>

#include "gossamer/core/text/json.h"

namespace gossamer::apps {

// Keys: command (as a shell takes it), folder (in which it was given), host, processor, cores,
// memory_gib, gossamer, git, compiler, onednn.
JsonObject launch_facts();

// How the process that starts a run tells worker 0 what to log as the `launch` line: a JSON object.
constexpr const char* kLaunchVariable = "GOSSAMER_LAUNCH";

// The last `launch` line of a run's log without its event, time and rank; "" if it has none.
std::string last_launch(const std::filesystem::path& run_folder);

}  // namespace gossamer::apps
