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

TEST_F(ClassResults, EvalAveragesSeveralModels) {
  ASSERT_EQ(run(tiny({"run.name=a", "train.seed=1"})).code, 0);
  ASSERT_EQ(run(tiny({"run.name=b", "train.seed=2", "model.name=resnet20-cifar"})).code, 0);
  const std::string a = "runs/a/model.safetensors", b = "runs/b/model.safetensors";
  const auto eval = [&](std::vector<std::string> more) {
    std::vector<std::string> all{"eval"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  };
  const auto json = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"data.val=s/val", "--json", "--flip", "--confusion"});
    const Result r = eval(more);
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out);
  };
  const Json one = json({a}), two = json({b}), both = json({a, b}), same = json({a, a});
  EXPECT_FALSE(one.contains("models"));
  EXPECT_EQ(both["model"], "mean of 2 models");
  ASSERT_EQ(both["models"].size(), 2u);
  EXPECT_EQ(both["models"][0]["file"], a);
  EXPECT_EQ(both["models"][1]["model"], "resnet20-cifar");
  for (const char* key : {"top1", "top5", "loss"}) {
    EXPECT_EQ(both["models"][0][key], one[key]);
    EXPECT_EQ(both["models"][1][key], two[key]);
  }
  EXPECT_LT(both["loss"].get<double>(), (one["loss"].get<double>() + two["loss"].get<double>()) / 2)
      << "the loss is convex in the probabilities";
  EXPECT_NEAR(same["loss"].get<double>(), one["loss"].get<double>(), 1e-5);
  EXPECT_EQ(same["confusion"], one["confusion"]);

  const Result text = eval({a, b, "data.val=s/val", "--per-class", "--csv", "t", "--size", "24"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(HasSubstr(a + " (resnet8-cifar): top-1"),
                              HasSubstr(b + " (resnet20-cifar): top-1"),
                              HasSubstr("mean of 2 models: top-1"), HasSubstr("recall")));
}

TEST_F(ClassResults, EvalAveragesOnlyModelsThatAreAlike) {
  ASSERT_EQ(run(tiny({"run.name=a"})).code, 0);
  ASSERT_EQ(run(tiny({"run.name=larger", "data.size=40"})).code, 0);
  std::string renamed = read_text(folder / "runs/a/model.safetensors");
  const std::size_t name = renamed.find("circle");
  ASSERT_NE(name, std::string::npos);
  write_text(folder / "renamed.safetensors", renamed.replace(name, 6, "sphere"));
  const auto with = [&](const std::string& other) {
    const Result r = run({"eval", "runs/a/model.safetensors", other, "data.val=s/val"});
    EXPECT_EQ(r.code, 2) << other;
    return r.err;
  };
  EXPECT_THAT(with("runs/larger/model.safetensors"),
              AllOf(HasSubstr("runs/a/model.safetensors and runs/larger/model.safetensors want "
                              "other pictures: side 32"),
                    HasSubstr("side 40"), HasSubstr("data.eval_size")));
  EXPECT_THAT(with("renamed.safetensors"),
              HasSubstr("have other classes: number 1 is circle and sphere; only models of"));
  EXPECT_EQ(run({"eval", "runs/a/model.safetensors", "runs/larger/model.safetensors",
                 "data.val=s/val", "data.eval_size=32", "data.resize=32"})
                .code,
            0);
  EXPECT_THAT(with("three.txt"), HasSubstr("three.txt"));
}

}  // namespace
}  // namespace gossamer::apps
