// What nvcc has put into the objects of this build, and so into what is shipped: machine code for
// each architecture that was asked, and PTX of the one that was named. No GPU and none of the
// toolkit's programs is needed.
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "gossamer/core/cuda.h"

namespace gossamer {
namespace {

namespace fs = std::filesystem;

struct Content {
  std::set<int> code, ptx;  // architectures
};

template <class T>
T number_at(const std::string& bytes, std::size_t at) {
  T value{};
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// A fat binary begins with a magic number (4 bytes), a version (2), the size of this header (2) and
// of all entries (8). An entry begins with its kind (2 bytes: 1 is PTX, 2 is code), attributes (2),
// the size of its header (4) and of what follows (8); 28 bytes from its start is its architecture.
Content content_of(const std::string& object) {
  const std::string magic = "\x50\xed\x55\xba";
  Content out;
  for (std::size_t at = object.find(magic); at != std::string::npos;
       at = object.find(magic, at + magic.size())) {
    std::size_t entry = at + number_at<std::uint16_t>(object, at + 6);
    const std::size_t end = entry + number_at<std::uint64_t>(object, at + 8);
    if (number_at<std::uint16_t>(object, at + 4) != 1 || end > object.size()) continue;
    while (entry < end) {
      const int kind = number_at<std::uint16_t>(object, entry);
      const int arch = static_cast<int>(number_at<std::uint32_t>(object, entry + 28));
      if (kind == 1) out.ptx.insert(arch);
      if (kind == 2) out.code.insert(arch);
      entry +=
          number_at<std::uint32_t>(object, entry + 4) + number_at<std::uint64_t>(object, entry + 8);
    }
  }
  return out;
}

std::set<int> numbers(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<int>(in), {}};
}

TEST(FatBinary, HasCodeForEachArchitectureAndThePtxThatWasNamed) {
  if (!cuda::built()) GTEST_SKIP() << "this build has no CUDA";
  int objects = 0;
  for (const auto& file :
       fs::directory_iterator(fs::path(GOSSAMER_PROGRAM).parent_path() / "nvcc")) {
    const fs::path source = file.path().stem().string() + ".cpp";
    // A build folder may hold objects of sources that are gone.
    if (file.path().extension() != ".o" ||
        !(fs::exists(fs::path(GOSSAMER_SOURCE_DIR "/core/ops") / source) ||
          fs::exists(fs::path(GOSSAMER_SOURCE_DIR "/core/cuda/kernels") / source)))
      continue;
    std::ifstream in(file.path(), std::ios::binary);
    const Content found = content_of({std::istreambuf_iterator<char>(in), {}});
    EXPECT_EQ(found.code, numbers(GOSSAMER_BUILT_FOR)) << file.path();
    EXPECT_EQ(found.ptx, numbers(GOSSAMER_PTX)) << file.path();
    ++objects;
  }
  EXPECT_GT(objects, 0);
}

}  // namespace
}  // namespace gossamer
