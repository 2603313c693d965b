// The curves of a run as a table for spreadsheets and data frames.
#pragma once

#include <filesystem>

#include "gossamer/apps/report/run_record.h"

namespace gossamer::apps {

// A header, then one row for each `step` and `eval` line of the log, in the order of their times.
// A cell is empty where the line has no such number; of: a worker's rank, or "mean" for the final
// mean model. IoError.
void write_csv(const RunRecord&, const std::filesystem::path& file);

}  // namespace gossamer::apps
