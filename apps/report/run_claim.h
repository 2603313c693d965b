// One run at a time writes into runs/NAME.
#pragma once

#include <filesystem>
#include <vector>

namespace gossamer::apps {

// The right to a run's folder: from before its workers start until its first process ends, however
// it ends. Held by a lock on the file .NAME.lock beside the folder, because an older run may be
// moved away. On a file system without locks, two runs of one name are not noticed.
class RunClaim {
 public:
  // Makes the folder and tests that it can be written. ConfigError: another run that still goes on
  // has it. IoError: it cannot be written.
  explicit RunClaim(const std::filesystem::path& folder);
  // Leaves no empty folder that it has made.
  ~RunClaim();
  RunClaim(const RunClaim&) = delete;
  RunClaim& operator=(const RunClaim&) = delete;

 private:
  void lock();
  void leave();
  void make_folder();
  std::filesystem::path folder_, lock_;
  std::vector<std::filesystem::path> made_;  // the innermost first
  int fd_ = -1;
};

}  // namespace gossamer::apps
