// The file of train.graph=file:PATH. A run keeps a copy, so that it goes on without the file.
#pragma once

#include <filesystem>

#include "gossamer/apps/config.h"

namespace gossamer::apps {

// Copies it into the run's folder, if the graph is one of a file. IoError.
void keep_graph_file(const Config&, const std::filesystem::path& run_folder);
// The graph becomes that of the run's copy, if there is one and the command line says no other.
void take_graph_file(Config&, const std::filesystem::path& run_folder);

}  // namespace gossamer::apps
