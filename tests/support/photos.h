// Where the ImageNet photos lie, for tests that need them and skip elsewhere.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace gossamer {

inline std::filesystem::path photos() {
  const char* set = std::getenv("GOSSAMER_TEST_DATA");
  const auto folder =
      set ? std::filesystem::path(set)
          : std::filesystem::path(GOSSAMER_SOURCE_DIR).parent_path() / "shared" / "data";
  return folder / "photos" / "photos.tar";
}

}  // namespace gossamer
