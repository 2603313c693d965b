// Folders that are gone when they are no longer needed.
#include "gossamer/apps/temporary_folder.h"

#include <cerrno>
#include <cstdlib>

#include <gmock/gmock.h>

#include "support/error_of.h"

namespace gossamer::apps {
namespace {

TEST(TemporaryFolder, SaysWhyItCannotBeMade) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  setenv("TMPDIR", "/proc", 1);  // where nobody makes folders
  errno = 0;
  const std::string says = error_of<IoError>([] { TemporaryFolder("x"); });
  before ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
  EXPECT_THAT(says, testing::HasSubstr("in /proc: No such file or directory; TMPDIR may name"));
}

}  // namespace
}  // namespace gossamer::apps
