// gossamer bench inference: what it prints can be used. Not how fast anything is.
#include <gmock/gmock.h>

#include "apps/program.h"

namespace gossamer::apps {
namespace {

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
  EXPECT_NEAR(j["images_per_s"].get<double>() * j["ms_median"].get<double>(), 3000, 1);
  EXPECT_LE(j["ms_min"], j["ms_median"]);
  EXPECT_LE(j["ms_median"], j["ms_p90"]);
  EXPECT_LE(j["ms_p90"], j["ms_p99"]);
  EXPECT_THAT(run({"bench", "inference", "--model", "resnet8-cifar", "--seconds", "0"}).out,
              HasSubstr("resnet8-cifar f32, batch 1, 32 x 32 pixels"));
}

TEST_F(BenchInference, SaysWhatItCannotMeasure) {
  EXPECT_THAT(run({"bench", "inference", "--dtype", "f16"}).err, HasSubstr("use f32 or bf16"));
  EXPECT_THAT(run({"bench", "inference", "--batch", "0"}).err, HasSubstr("at least 1"));
  EXPECT_THAT(run({"bench", "inference", "--model", "resnet"}).err, HasSubstr("resnet50"));
}

}  // namespace
}  // namespace gossamer::apps
