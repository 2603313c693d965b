// Runs that are watched: their folders, read again when they have grown.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/apps/report/run_record.h"

namespace gossamer::apps {

// From any thread. A folder without a log is a run that has not begun.
class LiveRuns {
 public:
  explicit LiveRuns(const std::vector<std::filesystem::path>& folders);
  std::string names() const;  // of the folders, with commas
  // HTML: what report.html shows, and of several runs first how they compare.
  std::string body();
  // Prometheus's text format 0.0.4.
  std::string metrics();

 private:
  using Clock = std::chrono::steady_clock;
  struct Live {
    std::filesystem::path folder;
    std::optional<RunRecord> run{};
    std::string body{};        // of its page
    std::string unreadable{};  // why the folder could not be read
    std::uintmax_t size = 0;
    std::filesystem::file_time_type written{};
    Clock::time_point next{};  // a long log is not read more often than that
  };
  void read_again();
  std::mutex mutex_;
  std::vector<Live> runs_;
  std::string comparison_;
};

}  // namespace gossamer::apps
