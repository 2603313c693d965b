// Keeps data/README.md true: its example stands, word for word, in this file, and runs.
#include <sstream>

#include <gtest/gtest.h>

#include "data/helpers.h"
#include "gossamer/data/formats/shapes.h"
// clang-format off
#include "gossamer/data/loader.h"

using namespace gossamer;

i64 count_images(const std::string& folder) {
  const auto set = data::open({folder});
  data::Loader loader(set, {.batch = 32,
                            .size = 32,
                            .augment = data::Augment::pad_crop_flip,
                            .threads = 2,
                            .seed = 1});
  i64 images = 0;
  for (data::Batch batch = loader.next(); batch.images.defined(); batch = loader.next())
    images += batch.images.shape(0);
  return images;
}
// clang-format on

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(DataReadme, ItsExampleRuns) {
  const data::TempFolder folder;
  data::make_shapes(folder / "set", {.train = 70, .val = 10, .size = 32});
  EXPECT_EQ(count_images(folder / "set/train"), 64);  // two whole batches
}

TEST(DataReadme, ItsExampleIsTheOneAbove) {
  const std::filesystem::path source = GOSSAMER_SOURCE_DIR;
  const std::string readme = text_of(source / "data" / "README.md"),
                    here = text_of(source / "tests" / "data" / "readme_test.cpp");
  const std::size_t begin = readme.find("```cpp\n") + 7, end = readme.find("```", begin);
  ASSERT_NE(end, std::string::npos);
  EXPECT_NE(here.find(readme.substr(begin, end - begin)), std::string::npos);
}

}  // namespace
