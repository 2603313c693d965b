// The folder runs/NAME of one run: its place, its log, and its result files.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "gossamer/core/text/json.h"

namespace gossamer::apps {

// What the end of a run writes.
inline constexpr const char* kResultFiles[] = {"model.safetensors",     "model-failed.safetensors",
                                               "model-ema.safetensors", "summary.json",
                                               "classes.json",          "report.html"};

class RunFolder {
 public:
  // Empty path: a dry run, which writes nothing.
  explicit RunFolder(std::filesystem::path path, int rank = 0)
      : path_(std::move(path)), rank_(rank) {}

  struct Begun {
    std::string moved;  // the new place of the older run, or ""
    std::string aside;  // of the results and `outdated`, or ""
  };
  // Worker 0 calls it once, when all workers have their state, so that a start that fails changes
  // nothing. It moves an older run of this name away, or the results of the run that goes on, and
  // `outdated` (names in the folder), into earlier/N, writes config.toml, and logs the event
  // `launch` (a JSON object; empty: none). IoError.
  Begun begin(const std::string& config_toml, const std::string& launch, bool resuming,
              const std::vector<std::string>& outdated = {}) const;
  // Each worker calls it when begin() is done: until then lines are held, from now on written.
  void open();

  // Appends a line to log.jsonl: {"event": …, "time": seconds since 1970, "rank": …, fields}.
  // Workers of one machine share the file, so a line is one write() in append mode. From any
  // thread. If the disk is full, lines are lost and the run goes on.
  void log(const std::string& event, const JsonObject& fields) const;
  long lost_lines() const { return lost_lines_; }  // of this worker
  // One worker calls it now and then. A log of more bytes than this becomes log-1.jsonl, the next
  // one log-2.jsonl …, and log.jsonl begins again. Where a file system cannot rename without
  // writing over another file (NFS), it goes on growing.
  void begin_new_log(std::uintmax_t at_bytes = std::uintmax_t{64} << 20) const;

  bool writes() const { return !path_.empty(); }
  std::filesystem::path file(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  // trace-RANK.json of this worker; merge_traces() joins them
  void write_trace(const std::string& header) const;
  void add_bad_images(const std::vector<std::string>& lines) const;
  // At the end: lists each damaged image once, though several workers met it. Returns how many.
  std::size_t merge_bad_images() const;

 private:
  std::string set_aside(const std::vector<std::string>& names) const;
  std::string line(const std::string& event, const std::string& fields) const;
  // False if it could not be written.
  bool append(const std::string& name, const std::string& lines) const;

  std::filesystem::path path_;
  int rank_;
  mutable std::mutex mutex_;
  bool open_ = false;
  mutable std::vector<std::pair<std::string, std::string>> held_;  // names of files, lines
  mutable std::atomic<long> lost_lines_{0};
  mutable std::atomic<bool> line_is_cut_{false};
};

// The files of a run's log, in the order of their lines: log-1.jsonl, log-2.jsonl … and log.jsonl.
// Of parts that somebody has removed the others remain.
std::vector<std::filesystem::path> log_files(const std::filesystem::path& run_folder);

// Renames what has this name to NAME.1, NAME.2 …, and returns the new name. IoError.
std::filesystem::path move_aside(const std::filesystem::path&);

}  // namespace gossamer::apps
