// `gossamer compare`: what an experiment says, its figures, and runs that are made once.
#include <map>
#include <sstream>

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/apps/compare/experiment.h"
#include "gossamer/apps/report/run_record.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kExperiment = R"(about = "Two methods"
command = "simulate quadratic"
workers = 4
seeds = 3
measure = "stationary_loss"
better = "less"
also = ["exchanges"]
baseline = "plain"
learning_rates = [0.02, 0.1]
[common]
time = 40
dims = 4
noise = 0.5
[data.alike]
heterogeneity = 0
[data.unlike]
heterogeneity = 1
[graphs.ring]
graph = "ring"
[methods.plain]
method = "dpsgd"
[methods.mean]
method = "allreduce"
)";

TEST(Experiment, IsReadFromItsFile) {
  const Experiment e = parse_experiment(kExperiment, "some/two.toml");
  EXPECT_EQ(e.name, "two");
  EXPECT_THAT(e.command, ElementsAre("simulate", "quadratic"));
  EXPECT_EQ(e.seeds, 3);
  EXPECT_FALSE(e.more_is_better);
  ASSERT_EQ(e.methods.size(), 2u);
  EXPECT_EQ(e.methods[0].name, "plain");  // as in the file
  const ComparedRun run{.data = 1, .graph = 0, .method = 0, .learning_rate = .02, .seed = 2};
  EXPECT_EQ(name_of(e, run), "unlike-ring-plain-0.02-2");
  EXPECT_THAT(arguments_of(e, run),
              ElementsAre("simulate", "quadratic", "--dims=4", "--noise=0.5", "--time=40",
                          "--heterogeneity=1", "--graph=ring", "--method=dpsgd",
                          "--learning-rate=0.02", "--seed=2", "--workers=4", "--seeds=1"));
}

TEST(Experiment, OfTrainingHasKeysAndWhatIsMoreSpecialWins) {
  const Experiment e = parse_experiment(R"(command = "train"
workers = 2
measure = "top1"
better = "more"
baseline = "a"
[common]
"train.method" = "dpsgd"
data.sizes = [16, 24]
[methods.a]
[methods.b]
train.method = "a2cid2"
train.equal_weight = true
)",
                                        "t.toml");
  EXPECT_TRUE(e.trains() && e.more_is_better);
  EXPECT_EQ(name_of(e, {.method = 1, .seed = 4}), "b-4");
  EXPECT_THAT(arguments_of(e, {.method = 1, .seed = 4}),
              ElementsAre("train", kPatient, "data.sizes=16,24", "train.method=a2cid2",
                          "train.equal_weight=true", "train.seed=4", "--workers=2"));
}

TEST(Experiment, SaysWhatIsWrongAndWhere) {
  const auto says = [](const std::string& from, const std::string& to, const std::string& what) {
    std::string text = kExperiment;
    text.replace(text.find(from), from.size(), to);
    try {
      parse_experiment(text, "two.toml");
      ADD_FAILURE() << to << " was accepted";
    } catch (const ConfigError& e) {
      EXPECT_THAT(e.what(), HasSubstr(what));
    }
  };
  says("seeds = 3", "seed = 3", "two.toml:4:8: unknown key \"seed\"; known are about, command");
  says("seeds = 3", "seeds = 0", "two.toml:4:9: seeds wants a whole number from 1");
  says("simulate quadratic", "simulate timeline", "command must be");
  says("\"less\"", "\"small\"", "better must be");
  says("baseline = \"plain\"", "baseline = \"other\"", "baseline must be one of plain, mean");
  says("[0.02, 0.1]", "[0.1, 0.02]", "must ascend");
  says("[0.02, 0.1]", "[0, 0.1]", "above 0");
  says("[methods.mean]", "[methods.\"../x\"]", "a name of letters");
  says("workers = 4\n", "", "workers is missing");
}

TEST(Experiment, IntervalsAreStudentsAndDifferencesAreOfTheSameSeed) {
  const Interval i = interval_of({1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(i.mean, 2.5);
  EXPECT_NEAR(i.half, 3.1824 * std::sqrt(5. / 3 / 4), 1e-12);
  EXPECT_TRUE(std::isnan(interval_of({1}).half));
  // the tail of the table and its series meet: t(40) = 2.0211
  std::vector<double> many(41, 0.);
  many[0] = 41;
  EXPECT_NEAR(interval_of(many).half, 2.0211, 1e-3);
  EXPECT_EQ(best_of({3, NAN, 1, 2}, false), 2u);
  EXPECT_EQ(best_of({3, NAN, 1, 2}, true), 0u);
  EXPECT_EQ(best_of({NAN, INFINITY}, false), std::nullopt);

  const Experiment e = parse_experiment(kExperiment, "two.toml");
  std::vector<ComparedRow> rows{{.method = 1, .values = {11, 22, 33}},
                                {.method = 0, .values = {10, 20, 30}}};
  compare_rows(e, rows);
  EXPECT_DOUBLE_EQ(rows[0].against.mean, 2);
  EXPECT_NEAR(rows[0].against.half, 4.3027 / std::sqrt(3.), 1e-12);
  EXPECT_TRUE(std::isnan(rows[1].against.mean));
}

class Compare : public ProgramTest {};

TEST_F(Compare, MakesATableAndAPageAndRunsNothingTwice) {
  write_text(folder / "two.toml", kExperiment);
  const Result first = run({"compare", "two.toml", "--jobs", "2"});
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("8 runs, 8 of them new"));    // the ladder
  EXPECT_THAT(first.err, HasSubstr("12 runs, 12 of them new"));  // the seeds
  EXPECT_THAT(first.out, HasSubstr("against plain"));
  EXPECT_THAT(first.out, HasSubstr("±"));
  EXPECT_THAT(read_text(folder / "runs/compare/two/comparison.html"),
              AllOf(HasSubstr("Two methods"), HasSubstr("loss, alike, ring")));
  const Json all = Json::parse(read_text(folder / "runs/compare/two/comparison.json"));
  EXPECT_EQ(all["command"], "simulate quadratic");
  EXPECT_EQ(all["common"]["time"], "40");
  EXPECT_EQ(all["methods"]["mean"]["method"], "allreduce");
  EXPECT_THAT(read_text(folder / "runs/compare/two/comparison.html"),
              AllOf(HasSubstr("time = 40"), HasSubstr("methods.mean")));
  ASSERT_EQ(all["rows"].size(), 4u);
  EXPECT_EQ(all["rows"][0]["method"], "plain");
  for (const Json& row : all["rows"]) {
    ASSERT_EQ(row["values"].size(), 3u);
    EXPECT_GT(row["half"].get<double>(), 0);
    EXPECT_GT(row["exchanges"].get<double>(), 0);
    EXPECT_EQ(row["difference"].is_null(), row["method"] == "plain");
  }
  const Result again = run({"compare", "two.toml", "--json"});
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.err, "");
  EXPECT_EQ(Json::parse(again.out), all);

  // a run that is lost is made again, the others are not
  fs::remove(folder / "runs/compare/two/alike-ring-mean-0.1-3.json");
  const Result lost = run({"compare", "two.toml", "--json"});
  EXPECT_EQ(lost.code, 0);
  EXPECT_THAT(lost.err, HasSubstr("8 runs, 1 of them new"));
  EXPECT_EQ(Json::parse(lost.out), all);
}

TEST_F(Compare, RefusesAFolderOfOtherRunsAndNamesARunThatFails) {
  write_text(folder / "two.toml", kExperiment);
  ASSERT_EQ(run({"compare", "two.toml"}).code, 0);
  std::string text = kExperiment;
  text.replace(text.find("noise = 0.5"), 11, "noise = 0.6");
  write_text(folder / "two.toml", text);
  const Result other = run({"compare", "two.toml"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("--noise=0.5"));
  EXPECT_THAT(other.err, HasSubstr("Give another folder, with --out"));

  text.replace(text.find("method = \"dpsgd\""), 16, "method = \"nothing\"");
  write_text(folder / "two.toml", text);
  const Result failed = run({"compare", "two.toml", "--out", "o"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.err, HasSubstr("alike-ring-plain-0.02-3 has ended with code 2; the end of "));
  EXPECT_THAT(failed.err, HasSubstr("is unknown")) << "what that run said";
  EXPECT_THAT(read_text(folder / "o/alike-ring-plain-0.02-3.log"), HasSubstr("is unknown"));
}

TEST_F(Compare, TrainsEachRunInAFolder) {
  write_text(folder / "t.toml", R"(command = "train"
workers = 2
seeds = 2
measure = "top1"
better = "more"
also = ["bytes_sent", "local_top1"]
baseline = "plain"
[common]
"data.train" = "s/train"
"data.val" = "s/val"
"eval.every" = 0.5
"train.epochs" = 1
"train.batch" = 8
"train.device" = "cpu"
"train.threads" = 1
[methods.plain]
"train.method" = "dpsgd"
[methods.coded]
"train.method" = "dpsgd"
"dist.payload" = "int8"
)");
  const Result r = run({"compare", "t.toml", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json all = Json::parse(r.out);
  ASSERT_EQ(all["rows"].size(), 2u);
  const double plain = all["rows"][0]["bytes_sent"], coded = all["rows"][1]["bytes_sent"];
  EXPECT_LT(coded, .3 * plain);
  EXPECT_TRUE(fs::exists(folder / "runs/compare/t/coded-1/summary.json"));
  // the mean over runs of the mean over workers, each at its last evaluation
  double sum = 0;
  int workers = 0;
  for (const char* name : {"plain-0", "plain-1"}) {
    std::istringstream log(read_text(folder / "runs/compare/t" / name / "log.jsonl"));
    std::map<int, double> last;
    for (std::string line; std::getline(log, line);)
      if (const Json row = Json::parse(line);
          row["event"] == "eval" && row["of"] == "own model on its share")
        last[row["rank"].get<int>()] = row["top1"].get<double>();
    for (const auto& [rank, top1] : last) sum += top1, ++workers;
  }
  // an axis that is left out is no column
  const std::string page = read_text(folder / "runs/compare/t/comparison.html");
  EXPECT_THAT(page, HasSubstr("method</th>"));
  EXPECT_THAT(page, Not(HasSubstr("graph</th>")));
  EXPECT_EQ(workers, 4);
  EXPECT_NEAR(all["rows"][0]["local_top1"].get<double>(), sum / 4, 1e-9);
  EXPECT_EQ(run({"compare", "t.toml"}).err, "");

  // A run that has lost a worker is none, and made again.
  const fs::path summary = folder / "runs/compare/t/plain-1/summary.json";
  std::string lost = read_text(summary);
  const std::string both = "\"workers_at_end\": 2";
  lost.replace(lost.find(both), both.size(), "\"workers_at_end\": 1");
  write_text(summary, lost);
  const Result again = run({"compare", "t.toml"});
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.err, HasSubstr("4 runs, 1 of them new"));
  EXPECT_THAT(read_text(summary), HasSubstr(both));
  EXPECT_EQ(read_text(folder / "runs/compare/t/plain-1.lost/summary.json"), lost);

  // A run that fails stops no other one.
  std::string text = read_text(folder / "t.toml");
  write_text(folder / "t.toml", text + "\"data.val\" = \"nowhere\"\n");
  const Result failed = run({"compare", "t.toml", "--out", "f"});
  EXPECT_EQ(failed.code, 1);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("coded-0  failed; see "),
                                HasSubstr("2 of 4 runs have failed, and the same command makes"),
                                HasSubstr(" has ended with code 3; the end of ")));
  for (const char* name : {"plain-0", "plain-1"})
    EXPECT_TRUE(fs::exists(folder / "f" / name / "summary.json"));

  text.replace(text.find("train.batch"), 11, "train.btach");
  write_text(folder / "t.toml", text);
  const Result wrong = run({"compare", "t.toml", "--out", "o"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean \"train.batch\""));
  EXPECT_FALSE(fs::exists(folder / "o"));
}

TEST_F(Compare, OfLocalModelsSaysWhenNoneWasEvaluated) {
  const std::string text = R"(command = "train"
workers = 2
seeds = 1
measure = "local_top1"
better = "more"
baseline = "plain"
[common]
"data.train" = "s/train"
"data.val" = "s/val"
"train.epochs" = 1
"train.batch" = 8
"train.device" = "cpu"
"train.threads" = 1
"eval.every" = 0
[methods.plain]
"train.method" = "dpsgd"
)";
  write_text(folder / "t.toml", text);
  const Result none = run({"compare", "t.toml"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("set eval.every"));
}

TEST(Experiments, OfTheseFoldersCanBeRead) {
  int found = 0;
  for (const auto& each : fs::directory_iterator(GOSSAMER_SOURCE_DIR "/apps/compare"))
    if (each.path().extension() == ".toml") {
      EXPECT_FALSE(read_experiment(each.path().string()).about.empty());
      ++found;
    }
  EXPECT_GE(found, 6);
}

}  // namespace
}  // namespace gossamer::apps
