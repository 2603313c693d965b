// Recall, precision and confusions from what became of each image.
#include "gossamer/apps/report/class_results.h"

#include <cmath>

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/apps/report/class_report.h"
#include "gossamer/apps/train/judged.h"
#include "gossamer/core/error.h"
#include "gossamer/data/codec/image.h"
#include "gossamer/data/codec/jpeg_encode.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class ClassResults : public ProgramTest {};

TEST_F(ClassResults, CountWhatWasTakenForWhat) {
  const auto judged = count_pairs({{0, 0}, {0, 1}, {0, 1}, {1, 1}, {1, 0}, {2, 1}});
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

TEST_F(ClassResults, ANameInATableIsNoFormula) {
  const std::vector<std::string> names{
      "=HYPERLINK(\"http://a\",\"b\")", "+1", "-x", "@SUM(A1)", "\tx", "\rx", "a=b"};
  write_class_csv(folder / "csv", {}, names);
  const std::string text = read_text(folder / "csv/per_class.csv");
  EXPECT_EQ(text.substr(text.find('\n') + 1),
            "\"'=HYPERLINK(\"\"http://a\"\",\"\"b\"\")\",0,,\n'+1,0,,\n'-x,0,,\n'@SUM(A1),0,,\n"
            "'\tx,0,,\n\"'\rx\",0,,\na=b,0,,\n");
  EXPECT_EQ(read_text(folder / "csv/confusion.csv").find("=H"), std::string("class,\"'").size());
}

ClassReport report_of(int classes) {
  ClassReport report;
  for (int k = 0; k < classes; ++k) report.classes.push_back("c" + std::to_string(k));
  report.classes[1] = "<b>";
  for (int k = 0; k < classes; ++k) report.pairs.push_back({k, k, 3});
  for (int k = 0; k + 1 < classes; ++k) report.pairs.push_back({k, k + 1, k % 2 + 1});
  report.mistakes = {{"a/1.jpg", 0, 1, 0.75, "data:image/jpeg;base64,AAAA"}};
  return report;
}

TEST_F(ClassResults, AreAPartOfAPage) {
  const std::string ten = class_report_html(report_of(10));
  EXPECT_THAT(ten,
              AllOf(HasSubstr("&lt;b&gt;"), HasSubstr("1 of 4 c0 taken for &lt;b&gt;"),
                    HasSubstr("src=\"data:image/jpeg;base64,AAAA\" alt=\"a/1.jpg\""),
                    HasSubstr("75.0&nbsp;%"), Not(HasSubstr("<b></b>")), Not(HasSubstr("more"))));
  EXPECT_LT(ten.find("2 of 5"), ten.find("1 of 4", ten.find("taken for</th>")))
      << "the most frequent first";
  const std::string many = class_report_html(report_of(1000));
  EXPECT_THAT(many, AllOf(Not(HasSubstr("<svg")), HasSubstr("980 classes with a higher recall"),
                          HasSubstr("and 979 rarer pairs")));
  EXPECT_EQ(class_report_html({}), "");
}

TEST_F(ClassResults, AreKeptInAFile) {
  const ClassReport report = report_of(4);
  const std::string text = class_report_json(report);
  EXPECT_EQ(class_report_html(parse_class_report(text)), class_report_html(report));
  for (std::size_t length = 0; length + 2 < text.size(); length += 7)
    EXPECT_TRUE(parse_class_report(text.substr(0, length)).classes.empty()) << length;
  const auto with = [&](std::string from, const std::string& to) {
    std::string changed = text;
    return parse_class_report(changed.replace(changed.find(from), from.size(), to));
  };
  EXPECT_TRUE(with("[1, 1, 3]", "[1, 4, 3]").classes.empty());
  EXPECT_TRUE(with("[1, 1, 3]", "[1, -1, 3]").classes.empty());
  EXPECT_TRUE(with("[1, 1, 3]", "[1, \"a\"]").classes.empty());
  EXPECT_TRUE(with("[1, 1, 3]", "[1, 1, 0]").classes.empty());
  EXPECT_TRUE(with("[1, 1, 3]", "[1, 1, 9223372036854775807]").classes.empty());
  EXPECT_EQ(with("data:image/jpeg;base64,AAAA", "http://a.b/c.jpg").mistakes[0].picture, "");
}

// The thumbnails of a page, decoded.
std::vector<data::Image> pictures_of(const std::string& page) {
  const std::string begin = "src=\"data:image/jpeg;base64,",
                    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<data::Image> found;
  for (std::size_t at = page.find(begin); at != std::string::npos; at = page.find(begin, at + 1)) {
    std::vector<std::byte> bytes;
    unsigned bits = 0, count = 0;
    for (std::size_t i = at + begin.size(); page[i] != '"' && page[i] != '='; ++i) {
      bits = bits << 6 | static_cast<unsigned>(digits.find(page[i]));
      count += 6;
      if (count >= 8) bytes.push_back(static_cast<std::byte>(bits >> (count -= 8)));
    }
    found.push_back(data::decode(bytes, "thumbnail"));
  }
  return found;
}

TEST_F(ClassResults, RunsAndEvalShowThemOnAPage) {
  for (const std::string workers : {"1", "2"}) {
    ASSERT_EQ(run(tiny({"--workers", workers})).code, 0);
    const ClassReport report = parse_class_report(read_text(folder / "runs/t/classes.json"));
    const std::string page = read_text(folder / "runs/t/report.html");
    EXPECT_THAT(page, AllOf(HasSubstr("40 images of 10 classes"), HasSubstr("Confusions"),
                            HasSubstr("Most confident mistakes"), HasSubstr("img-src data:")));
    const Result json = run({"eval", "runs/t/model.safetensors", "data.val=s/val", "--json",
                             "--confusion", "--html", "page.html"});
    ASSERT_EQ(json.code, 0) << json.err;
    EXPECT_EQ(Json(confusion_matrix(report.pairs, 10)), Json::parse(json.out)["confusion"])
        << workers << " workers found the same as one process";
    const std::string eval_page = read_text(folder / "page.html");
    EXPECT_THAT(eval_page, AllOf(HasSubstr("on 40 images"), HasSubstr("runs/t/model.safetensors"),
                                 HasSubstr(class_report_html(report).substr(0, 2000))));
    const auto pictures = pictures_of(page);
    EXPECT_EQ(pictures.size(), std::min<std::size_t>(20, report.mistakes.size()));
    EXPECT_GT(pictures.size(), 3u) << "after one epoch";
    for (const data::Image& p : pictures) EXPECT_EQ(p.width, 32);
    for (std::size_t i = 1; i < report.mistakes.size(); ++i)
      EXPECT_LE(report.mistakes[i].probability, report.mistakes[i - 1].probability);
  }
}

// Raw pixels of a set are pictures too.
TEST_F(ClassResults, ThumbnailsOfRawPixels) {
  class Raws final : public data::Dataset {
   public:
    i64 size() const override { return 2; }
    int label(i64) const override { return 0; }
    std::string name(i64) const override { return "raw"; }
    std::span<const std::byte> bytes(i64 i, std::vector<std::byte>& buffer) const override {
      buffer.assign(8u * 10 * 3, static_cast<std::byte>(100 * (i + 1)));
      return buffer;
    }
    Raw raw() const override { return {8, 10}; }
    const std::vector<std::string>& classes() const override { return classes_; }

   private:
    std::vector<std::string> classes_{"a", "b"};
  };
  const auto pictures = pictures_of(class_report_html(class_report({{0, 1, .9f, 1}}, Raws())));
  ASSERT_EQ(pictures.size(), 1u);
  EXPECT_EQ(pictures[0].height, 8);
  EXPECT_EQ(pictures[0].width, 10);
  EXPECT_NEAR(pictures[0].pixels[50], 200, 3);
}

// Larger pictures become small; one that is gone since has none.
TEST_F(ClassResults, ThumbnailsAreSmall) {
  class Large final : public data::Dataset {
   public:
    i64 size() const override { return 3; }
    int label(i64 i) const override { return static_cast<int>(i % 2); }
    std::string name(i64 i) const override { return "n" + std::to_string(i); }
    std::span<const std::byte> bytes(i64 i, std::vector<std::byte>& buffer) const override {
      check<DataError>(i < 2, "gone");
      const int width = i == 0 ? 400 : 30;
      buffer = data::encode_jpeg({200, width, std::vector<std::uint8_t>(200u * width * 3u, 90)});
      return buffer;
    }
    const std::vector<std::string>& classes() const override { return classes_; }

   private:
    std::vector<std::string> classes_{"a", "b"};
  };
  const Large set;
  const std::vector<Judgement> judged{{0, 1, .9f, 0}, {1, 0, .95f, 1}, {0, 1, .5f, 2}};
  EXPECT_EQ(count_pairs(judged_from(judged_table(judged, set), set)).size(), 2u);
  auto twice = judged_table({judged[0]}, set);
  for (double& number : twice) number *= 2;
  EXPECT_TRUE(judged_from(twice, set).empty()) << "of two workers";
  const ClassReport report = class_report(judged, set);
  ASSERT_EQ(report.mistakes.size(), 3u);
  EXPECT_EQ(report.mistakes[0].name, "n1");
  EXPECT_EQ(report.mistakes[2].picture, "");
  const auto pictures = pictures_of(class_report_html(report));
  ASSERT_EQ(pictures.size(), 2u);
  EXPECT_EQ(pictures[0].width, 14);
  EXPECT_EQ(pictures[0].height, 96);
  EXPECT_EQ(pictures[1].width, 96);
  EXPECT_EQ(pictures[1].height, 48);
  EXPECT_NEAR(pictures[1].pixels[1000], 90, 3);
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
  SafeTensors renamed = read_safetensors(folder / "runs/a/model.safetensors");
  std::string& classes = renamed.metadata.at("classes");
  const std::size_t name = classes.find("circle");
  ASSERT_NE(name, std::string::npos);
  classes.replace(name, 6, "sphere");
  write_safetensors(folder / "renamed.safetensors", renamed.tensors, renamed.metadata);
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
  const Result none = run({"eval", "runs/a/model.safetensors", "three.txt", "data.val=s/val"});
  EXPECT_EQ(none.code, 6);
  EXPECT_THAT(none.err, HasSubstr("three.txt: there is no such file"));
}

}  // namespace
}  // namespace gossamer::apps
