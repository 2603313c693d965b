// Whether a path that a command should write to is one that a run has written.
#pragma once

#include <filesystem>

namespace gossamer::apps {

// A file that is there and that only its run writes: model, best models, checkpoints, log, config …
// A report is made anew.
bool is_file_of_run(const std::filesystem::path&);

}  // namespace gossamer::apps
