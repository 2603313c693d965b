// See temporary_folder.h.
#include "gossamer/apps/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "gossamer/core/error.h"

namespace gossamer::apps {

TemporaryFolder::TemporaryFolder(const std::string& name) {
  const std::filesystem::path where = std::filesystem::temp_directory_path();
  std::string pattern = (where / ("gossamer-" + name + "-XXXXXX")).string();
  const bool made = mkdtemp(pattern.data()) != nullptr;
  check<IoError>(made, "cannot make a folder in ", where.string(), ": ", std::strerror(errno),
                 "; TMPDIR may name another");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace gossamer::apps
