// A folder that is gone when it is no longer needed.
#pragma once

#include <filesystem>
#include <string>

namespace gossamer::apps {

class TemporaryFolder {
 public:
  // gossamer-NAME-XXXXXX where the system keeps such things. IoError: it cannot be made.
  explicit TemporaryFolder(const std::string& name);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace gossamer::apps
