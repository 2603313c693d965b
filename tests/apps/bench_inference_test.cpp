// gossamer bench inference: what it prints can be used. Not how fast anything is.
#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/apps/train/picture_input.h"
#include "gossamer/core/input_pass.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BenchInference : public ProgramTest {};

TEST_F(BenchInference, PrintsRatesLatenciesAndMemory) {
  const Result r = run({"bench", "inference", "--model", "resnet8-cifar", "--batch", "3",
                        "--seconds", "0.05", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  EXPECT_EQ(j["model"], "resnet8-cifar");
  EXPECT_EQ(j["batch"], 3);
  EXPECT_GE(j["calls"], 5);
  for (const char* key : {"images_per_s", "ms_min", "prepare_ms", "peak_bytes", "peak_rss_bytes"})
    EXPECT_GT(j.at(key).get<double>(), 0) << key;
  EXPECT_NEAR(j["from_bytes_images_per_s"].get<double>() * j["from_bytes_ms_median"].get<double>(),
              3000, 1);
  EXPECT_NEAR(j["images_per_s"].get<double>() * j["ms_median"].get<double>(), 3000, 1);
  EXPECT_LE(j["ms_min"], j["ms_median"]);
  EXPECT_LE(j["ms_median"], j["ms_p90"]);
  EXPECT_LE(j["ms_p90"], j["ms_p99"]);
  EXPECT_THAT(run({"bench", "inference", "--model", "resnet8-cifar", "--seconds", "0"}).out,
              AllOf(HasSubstr("resnet8-cifar f32, batch 1, 32 x 32 pixels"),
                    HasSubstr("from bytes on the host")));
}

// What a GPU is given is the same noise, whose middle it takes.
TEST(NoiseBatch, IsWhatAnEvaluationFeeds) {
  const Pictures prepare{
      .size = 6, .resize = 9, .mean = {.5f, .5f, .5f}, .std = {.25f, .25f, .25f}};
  Pictures large = prepare;
  large.size = 9;
  const data::Batch boxes = noise_batch(prepare, 2, true);
  EXPECT_EQ(noise_batch(prepare, 2).images.shape(), (Shape{2, 6, 6, 3}));
  ASSERT_TRUE(boxes.bytes.defined());
  check_pictures({reinterpret_cast<const Picture*>(boxes.pictures.data()), 2}, boxes.bytes.numel(),
                 6, 6);
  const Tensor got = prepare(boxes), all = large(noise_batch(large, 2));
  ASSERT_EQ(got.shape(), (Shape{2, 6, 6, 3}));
  for (const i64 n : {0, 1})
    for (i64 y = 0; y < 6; ++y)
      for (i64 x = 0; x < 18; ++x)
        EXPECT_NEAR(got.as<float>()[(n * 6 + y) * 18 + x],
                    all.as<float>()[(n * 9 + y + 1) * 27 + 3 + x], 1e-5f);
}

TEST_F(BenchInference, SaysWhatItCannotMeasure) {
  EXPECT_THAT(run({"bench", "inference", "--dtype", "f16"}).err, HasSubstr("use f32 or bf16"));
  EXPECT_THAT(run({"bench", "inference", "--batch", "0"}).err, HasSubstr("at least 1"));
  EXPECT_THAT(run({"bench", "inference", "--model", "resnet"}).err, HasSubstr("resnet50"));
}

}  // namespace
}  // namespace gossamer::apps
