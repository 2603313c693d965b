// Runs the example of data/README.md. That it is the same: tests/apps/readme_paths_test.cpp.
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
                            .epoch = {.seed = 1}});
  i64 images = 0;
  for (data::Batch batch = loader.next(); batch.images.defined(); batch = loader.next())
    images += batch.images.shape(0);
  return images;
}
// clang-format on

namespace {

TEST(DataReadme, ItsExampleRuns) {
  const data::TempFolder folder;
  data::make_shapes(folder / "set", {.train = 70, .val = 10, .size = 32});
  EXPECT_EQ(count_images(folder / "set/train"), 64);  // two whole batches
}

}  // namespace
