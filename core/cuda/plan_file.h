// A small table of texts in a JSON file: what was measured once on a machine and need not be
// measured again.
#pragma once

#include <map>
#include <mutex>
#include <string>

namespace gossamer {

// A file that is missing, damaged or of another format counts as empty: everything in it can be
// made again. Thread-safe.
class PlanFile {
 public:
  explicit PlanFile(std::string path);             // "": kept in memory only
  std::string find(const std::string& key) const;  // "" if unknown
  // Keeps it and replaces the file in one step, with what others wrote meanwhile. IoError names the
  // file.
  void store(const std::string& key, const std::string& text);

 private:
  std::string path_;
  mutable std::mutex mutex_;
  std::map<std::string, std::string> texts_;
};

}  // namespace gossamer
