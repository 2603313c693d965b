// The folder runs/NAME of one run: where it lies, its log, and its result files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gossamer/apps/json.h"

namespace gossamer::apps {

class RunFolder {
 public:
  // Empty path: a dry run, nothing is written.
  explicit RunFolder(std::filesystem::path path, int rank = 0)
      : path_(std::move(path)), rank_(rank) {}

  // Before anything is started, once a run: makes the folder, proves that it can be written, moves
  // the results of an older run of the same name to NAME.1, NAME.2 … (not when resuming), and
  // writes config.toml. IoError. Returns where the old results went, or "".
  std::string prepare(const std::string& config_toml, bool resuming) const;

  // One line of log.jsonl: {"event": …, "time": seconds since 1970, "rank": …, fields}. Workers of
  // one machine share the file: each line is one write() in append mode. Safe from any thread. A
  // full disk loses lines, not the run.
  void log(const std::string& event, JsonObject fields) const;

  bool writes() const { return !path_.empty(); }
  std::filesystem::path file(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  // trace-RANK.json of this worker; merge_traces() makes one of all
  void write_trace(const std::string& header) const;
  void add_bad_images(const std::vector<std::string>& lines) const;
  // at the end: workers found the same files; each is listed once. Returns how many
  std::size_t settle_bad_images() const;

 private:
  std::filesystem::path path_;
  int rank_;
};

// report.html: the run on one page, no network needed. Reads config.toml, log.jsonl and
// summary.json of the folder.
void write_report(const std::filesystem::path& folder);

}  // namespace gossamer::apps
