// gossamer bench data: what it prints can be used, and what it can't measure it says. Not how fast
// anything is.
#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/core/dtype.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class BenchData : public ProgramTest {};

TEST_F(BenchData, PrintsRatesSharesAndWhetherAGpuStarves) {
  for (const std::string mode : {"train", "eval"}) {
    const Result r = run({"bench", "data", "s/train", "--mode", mode, "--size", "32", "--seconds",
                          "0.4", "--gpu-rate", "1e12", "--json"});
    ASSERT_EQ(r.code, 0) << r.err;
    const Json j = Json::parse(r.out);
    EXPECT_EQ(j["files"], 96);
    EXPECT_EQ(j["damaged"], 0);
    for (const char* key :
         {"images_per_s", "images_per_s_per_core", "images_per_s_per_core_wall",
          "coefficients_per_s_per_core", "entropy_per_s_per_core", "decode_per_s_per_core",
          "prepare_per_s_per_core", "loader_images_per_s", "mean_bytes", "mean_megapixels"})
      EXPECT_GT(j.at(key).get<double>(), 0) << key;
    EXPECT_NEAR(j["mean_megapixels"], 32 * 32 / 1e6, 1e-9);
    EXPECT_NEAR(j["share"]["huffman"].get<double>() + j["share"]["idct_colour"].get<double>() +
                    j["share"]["resize"].get<double>(),
                1, 1e-9);
    EXPECT_EQ(j["starves"], true);
    EXPECT_GT(j["cores_needed"], 1);
  }
}

TEST_F(BenchData, LeavesDamagedFilesOutAndCountsThem) {
  fs::copy(shapes(), folder / "c", fs::copy_options::recursive);
  for (const auto& e : fs::recursive_directory_iterator(folder / "c" / "train"))
    if (e.path().extension() == ".jpg") {
      fs::resize_file(e.path(), 100);
      break;
    }
  const Result r = run({"bench", "data", "c/train", "--size", "32", "--what", "prepare",
                        "--threads", "2", "--seconds", "0.1", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out)["damaged"], 1);
  EXPECT_EQ(Json::parse(r.out)["files"], 95);
}

TEST_F(BenchData, MeasuresTheWayToAGpuOrSaysWhyNot) {
  const Result all = run({"bench", "data", "s/train", "--size", "32", "--seconds", "0.1"},
                         {"CUDA_VISIBLE_DEVICES="});
  ASSERT_EQ(all.code, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr("to a GPU: not measured: "));
  const Result device =
      run({"bench", "data", "s/train", "--what", "device"}, {"CUDA_VISIBLE_DEVICES="});
  EXPECT_EQ(device.code, 4);
  EXPECT_THAT(device.err, HasSubstr("bench data: --what device: "));
  const Result loader =
      run({"bench", "data", "s/train", "--size", "32", "--what", "loader", "--seconds", "0.1"});
  EXPECT_THAT(loader.out, HasSubstr("by the loader from files to host memory"));
}

TEST_F(BenchData, FillsTheCacheAsFarAsItMay) {
  i64 bytes = 0;
  for (const auto& e : fs::recursive_directory_iterator(folder / "s/train"))
    if (e.is_regular_file() && e.path().extension() == ".jpg")
      bytes += static_cast<i64>(fs::file_size(e.path()));
  const auto cached = [&](const std::string& gb) {
    const Result r = run({"bench", "data", "s/train", "--size", "32", "--what", "loader",
                          "--seconds", "0.1", "--cache-gb", gb, "--json"});
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out).at("cached_mb").get<double>() * 1e6;
  };
  EXPECT_NEAR(cached("1"), static_cast<double>(bytes), 1);
  const double half = static_cast<double>(bytes) / 2;
  // up to a picture, and these are small; six digits of GB are kilobytes
  EXPECT_NEAR(cached(std::to_string(half * 1e-9)), half, half / 4);
  for (const char* gb : {"-1", "1e11", "inf"})
    EXPECT_THAT(run({"bench", "data", "s/train", "--cache-gb", gb}).err, HasSubstr("0 to 1000000"))
        << gb;
  EXPECT_THAT(run({"bench", "data", "s/train", "--cache-gb", "1", "--what", "prepare"}).err,
              HasSubstr("--cache-gb is for the loader"));
}

TEST_F(BenchData, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(run({"bench", "data", "s/train", "--mode", "test"}).err,
              HasSubstr("use train or eval"));
  EXPECT_THAT(run({"bench", "data", "s/train", "--what", "sleep"}).err,
              HasSubstr("coefficients, entropy, decode, prepare, loader or device"));
  EXPECT_THAT(run({"bench", "data", "nowhere"}).err, HasSubstr("nowhere"));
  EXPECT_EQ(run({"bench", "data", "s/train", "--threads", "0"}).code, 2);
}

}  // namespace
}  // namespace gossamer::apps
