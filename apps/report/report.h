// report.html, the run on one page, and the same curves of several runs on common axes.
#pragma once

#include <filesystem>
#include <vector>

#include "gossamer/apps/report/run_record.h"

namespace gossamer::apps {

// What the pages below hold, without a trace.
std::string body_of(const RunRecord&);
std::string body_of_comparison(const std::vector<RunRecord>&);

// Writes the page of a run. If `folder` holds a trace.json, the page shows it. IoError names the
// file that could not be written.
void write_page(const RunRecord&, const std::filesystem::path& folder,
                const std::filesystem::path& page);
void write_comparison(const std::vector<RunRecord>&, const std::filesystem::path& page);

// Writes report.html and log.csv into the run's folder. IoError as write_page().
void write_report(const RunRecord&, const std::filesystem::path& folder);

}  // namespace gossamer::apps
