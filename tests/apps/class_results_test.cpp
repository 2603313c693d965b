// Recall, precision and confusions from what became of each image.
#include "gossamer/apps/train/class_results.h"

#include <cmath>

#include <gmock/gmock.h>

#include "apps/program.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ClassResults : public ProgramTest {};

TEST_F(ClassResults, CountWhatWasTakenForWhat) {
  const std::vector<Judgement> judged{{0, 0}, {0, 1}, {0, 1}, {1, 1}, {1, 0}, {2, 1}};
  const auto results = class_results(judged, 4);
  EXPECT_EQ(results[0].images, 3);
  EXPECT_DOUBLE_EQ(results[0].recall(), 1. / 3);
  EXPECT_DOUBLE_EQ(results[0].precision(), .5);
  EXPECT_DOUBLE_EQ(results[1].precision(), .25);
  EXPECT_EQ(results[2].recall(), 0);
  EXPECT_TRUE(std::isnan(results[2].precision()));
  EXPECT_TRUE(std::isnan(results[3].recall()));
  const auto pairs = confusions(judged);
  ASSERT_EQ(pairs.size(), 3u);
  EXPECT_EQ(pairs[0].label, 0);
  EXPECT_EQ(pairs[0].predicted, 1);
  EXPECT_EQ(pairs[0].images, 2);
  write_class_csv(folder / "csv", judged, {"a", "b, \"c\"", "d", "e"});
  EXPECT_EQ(read_text(folder / "csv/per_class.csv"),
            "class,images,recall,precision\na,3,0.333333,0.5\n\"b, \"\"c\"\"\",2,0.5,0.25\n"
            "d,1,0,\ne,0,,\n");
  EXPECT_EQ(read_text(folder / "csv/confusion.csv"),
            "class,a,\"b, \"\"c\"\"\",d,e\na,1,2,0,0\n\"b, \"\"c\"\"\",1,1,0,0\nd,0,1,0,0\n"
            "e,0,0,0,0\n");
}

TEST_F(ClassResults, EvalGivesThem) {
  ASSERT_EQ(run(tiny({})).code, 0);
  const Result json = run({"eval", "runs/t/model.safetensors", "data.val=s/val", "--json",
                           "--per-class", "--confusion", "--csv", "tables"});
  ASSERT_EQ(json.code, 0) << json.err;
  const Json all = Json::parse(json.out);
  double right = 0, images = 0;
  ASSERT_EQ(all["per_class"].size(), 10u);
  for (const Json& row : all["per_class"]) {
    images += row["images"].get<double>();
    right += row["images"].get<double>() * row["recall"].get<double>();
  }
  EXPECT_EQ(images, 40);
  EXPECT_NEAR(right / 40, all["top1"].get<double>(), 1e-9);
  EXPECT_EQ(all["confusion"].size(), 10u);
  EXPECT_TRUE(all["top_confusions"].is_array());
  EXPECT_THAT(read_text(folder / "tables/per_class.csv"), StartsWith("class,images,recall"));
  const Result text =
      run({"eval", "runs/t/model.safetensors", "data.val=s/val", "--per-class", "--confusion"});
  EXPECT_THAT(text.out, AllOf(HasSubstr("recall  precision"), HasSubstr("taken for")));
}

TEST_F(ClassResults, EvalTakesTheMirrorImageAndAnotherSize) {
  ASSERT_EQ(run(tiny({})).code, 0);
  const auto loss = [&](std::vector<std::string> more) {
    std::vector<std::string> all{"eval", "runs/t/model.safetensors", "data.val=s/val", "--json"};
    all.insert(all.end(), more.begin(), more.end());
    const Result r = run(all);
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out)["loss"].get<double>();
  };
  const double plain = loss({});
  EXPECT_NE(loss({"--flip"}), plain);
  EXPECT_EQ(loss({"--size", "32"}), plain);
  EXPECT_NE(loss({"--size", "48"}), plain);
  EXPECT_EQ(run({"eval", "runs/t/model.safetensors", "data.val=s/val", "--size", "0"}).code, 2);
}

}  // namespace
}  // namespace gossamer::apps
