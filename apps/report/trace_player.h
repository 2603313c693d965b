// The trace of a run in its report, to move through: drawn by the scripts of the lesson.
#pragma once

#include <filesystem>
#include <string>

namespace gossamer::apps {

// HTML with scripts: steps, waiting and transfers of each worker in trace.json of the folder, the
// first ones of a long run. "" without a trace that has some.
std::string trace_player(const std::filesystem::path& folder);

}  // namespace gossamer::apps
