// `gossamer paper`: every simulated page is computed, in less than a minute, and holds as
// apps/paper/README.md says.
#include "gossamer/apps/paper/paper.h"

#include <map>
#include <sstream>

#include <gmock/gmock.h>

#include "apps/browser.h"
#include "gossamer/apps/paper/local_training.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class PaperTest : public BrowserTest {
 protected:
  const std::string readme = read_text(GOSSAMER_SOURCE_DIR "/apps/paper/README.md");

  // The page of this name as the README counts it: "9 of 9".
  void check_page(const std::string& name) {
    const Result r = run({"paper", name, "--json"});
    ASSERT_EQ(r.code, 0) << r.err;
    const Json page = Json::parse(r.out);
    EXPECT_EQ(page["name"], name);
    EXPECT_FALSE(page["assumptions"].empty());
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    EXPECT_LT(page["seconds"].get<double>(), 60);
#endif
    int judged = 0, hold = 0, expected = 0;
    for (const Json& row : page["rows"]) {
      if (row["holds"].is_null()) continue;
      ++judged, hold += row["holds"].get<bool>(), expected += !row["expected"].is_null();
      EXPECT_NE(row["expected"].is_null(), row["published"].is_null()) << row["what"];
    }
    EXPECT_TRUE(expected == 0 || expected == judged);
    const std::size_t at = readme.find("\n| `" + name + "` |");
    ASSERT_NE(at, std::string::npos);
    EXPECT_THAT(readme.substr(at, readme.find('\n', at + 1) - at),
                HasSubstr((expected > 0 ? "| e " : "| ") + std::to_string(hold) + " of " +
                          std::to_string(judged) + " |"));
  }
};

TEST_F(PaperTest, ListsItsPages) {
  const Json list = Json::parse(run({"paper", "--json"}).out);
  ASSERT_EQ(list.size(), papers().size());
  for (const Json& each : list)
    EXPECT_THAT(readme, HasSubstr("\n| `" + each["name"].get<std::string>() + "` |"));
  EXPECT_EQ(run({"paper", "none"}).code, 2);
  EXPECT_THAT(run({"paper", "ring64", "--seeds", "2"}).err,
              HasSubstr("pages that train themselves"));
}

TEST_F(PaperTest, ThePowersOfTableOne) { check_page("slides-table1"); }
TEST_F(PaperTest, T11_TheRingOf64) { check_page("ring64"); }
TEST_F(PaperTest, T12_ThePublishedOrder) { check_page("published-order"); }

TEST_F(PaperTest, TheMinutesOfCifar) { check_page("cifar-minutes"); }
TEST_F(PaperTest, WhoWaitsOnImagenet) { check_page("imagenet-idle"); }
TEST_F(PaperTest, TheIterationsOfDecentDp) { check_page("aer-iteration"); }
TEST_F(PaperTest, OneSlowWorker) { check_page("straggler"); }

TEST_F(PaperTest, TheDistancesOfConsensusControl) { check_page("control-phases"); }

// The commands of the README, with fewer pictures.
TEST_F(PaperTest, TwoPagesReallyTrain) {
  std::istringstream lines(readme);
  std::map<std::string, Json> pages;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("    gossamer paper ") || line.find("--images") == line.npos) continue;
    std::vector<std::string> arguments;
    std::istringstream words(line.substr(13));
    for (std::string word, before; words >> word; before = word)
      arguments.push_back(before == "--images"  ? "512"
                          : before == "--seeds" ? "2"
                          : before == "--data"  ? "s"
                                                : word);
    arguments.push_back("--json");
    const Result r = run(arguments);
    ASSERT_EQ(r.code, 0) << line << "\n" << r.err;
    EXPECT_THAT(r.err, HasSubstr("seed 1, ")) << "told of each run";
    const Json page = Json::parse(r.out);
    pages[page["name"]] = page;
  }
  ASSERT_EQ(pages.size(), 2u);
  ASSERT_EQ(pages["accum-adam"]["rows"].size(), 9u);
  int trained = 0;
  for (auto& [name, page] : pages)
    for (const Json& row : page["rows"]) {
      EXPECT_TRUE(row["ours"].is_number()) << row;
      trained += row["what"].get<std::string>().starts_with("trained: ");
    }
  EXPECT_EQ(trained, 5) << "arms of control-phases";
  EXPECT_THAT(pages["control-phases"]["notes"].dump(), HasSubstr(" +- "));
}

// The command of the README in miniature.
TEST_F(PaperTest, TheAccuracyOfMethodsAndGraphsIsMadeByRunsThatGoOn) {
  const std::string recipe = GOSSAMER_SOURCE_DIR "/apps/configs/cifar10-resnet18-paper.toml",
                    in = "cifar-accuracy/";
  std::vector<std::string> command{"paper", "cifar-accuracy", recipe};
  for (const char* each :
       {"--workers=3", "--device=cpu", "--json", "--out=table", "data.train=s/train",
        "data.val=s/val", "model.name=resnet8-cifar", "train.batch=8", "train.epochs=1",
        "optim.warmup_epochs=0", "train.threads=1", "train.bn_batches=2", "run.log_every=1"})
    command.push_back(each);
  // it is stopped in the middle of the first run
  start(command);
  while (events("step", in + "allreduce-3").empty() && waitpid(running, nullptr, WNOHANG) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  kill(running, SIGINT);
  const Result stopped = wait();
  EXPECT_EQ(stopped.code, 130) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("7 runs of 3 workers, train.epochs=1"));
  EXPECT_THAT(stopped.err, HasSubstr("the same command goes on"));
  EXPECT_EQ(stopped.out, "");
  const Result first = run(command);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("run 7 of 7: a2cid2-complete-3 has ended after"));
  const Json page = Json::parse(first.out);
  int arms = 0;
  for (const Json& row : page["rows"])
    if (const std::string what = row["what"]; what.find(": top-1") != what.npos) {
      ++arms;
      EXPECT_GT(row["ours"].get<double>(), 0) << what;
    }
  EXPECT_EQ(arms, 7);
  EXPECT_THAT(read_text(folder / "table/cifar-accuracy.svg"), HasSubstr("a2cid2"));
  // what has ended is not made again, what is missing is
  EXPECT_TRUE(fs::exists(folder / "runs" / in / "a2cid2-ring-3/summary.json"));
  const auto log = [&](const char* run) { return folder / "runs" / in / run / "log.jsonl"; };
  const auto written = fs::last_write_time(log("a2cid2-ring-3"));
  fs::remove_all(log("adpsgd-complete-3").parent_path());
  // nor is a run that has lost a worker
  const fs::path summary = log("adpsgd-ring-3").parent_path() / "summary.json";
  std::string lost = read_text(summary);
  const std::string all = "\"workers_at_end\": 3";
  lost.replace(lost.find(all), all.size(), "\"workers_at_end\": 2");
  write_text(summary, lost);
  const Result again = run(command);
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("made already: 5; 2 left, about "));
  EXPECT_THAT(read_text(summary), HasSubstr(all));
  EXPECT_EQ(fs::last_write_time(log("a2cid2-ring-3")), written);
  EXPECT_TRUE(fs::exists(log("adpsgd-complete-3")));
  EXPECT_EQ(Json::parse(again.out)["rows"].size(), page["rows"].size());
  std::vector<std::string> text = command;
  std::erase(text, "--json");
  EXPECT_THAT(run(text).out, HasSubstr("This page judges no numbers; computed in"));
  // a table of different runs would compare nothing
  command.push_back("train.batch=4");
  EXPECT_THAT(run(command).err, HasSubstr("train.batch = 4: the run runs/cifar-accuracy/"));
  EXPECT_THAT(run({"paper", "ring64", "--device", "cuda"}).err, HasSubstr("cifar-accuracy"));
  EXPECT_THAT(run({"paper", "cifar-accuracy", "--workers", "1"}).err, HasSubstr("several workers"));
}

TEST_F(PaperTest, DifferencesAreTakenSeedBySeed) {
  const MeanAndError d = mean_difference({10, 20, 30}, {9, 19, 28});
  EXPECT_NEAR(d.mean, 4. / 3, 1e-12);
  EXPECT_NEAR(d.error, 1. / 3, 1e-12);
  EXPECT_EQ(with_error(d), "1.33 +- 0.33");
  EXPECT_EQ(with_error(mean_difference({2}, {1})), "1.00 (one run)");
}

TEST_F(PaperTest, WorkersAreTrainedAsThreadsOfOneProcess) {
  const LocalData data = read_local_data((folder / "s").string(), 96, 40);
  EXPECT_EQ(data.train.labels.numel(), 96);
  EXPECT_EQ(data.val.labels.numel(), 40);
  LocalTraining t;
  t.workers = 4;
  t.images = 4 * 8 * 12;
  t.method = "consensus-control";
  t.options.settings.set("control.fractions", std::vector<double>{0, 0, 0})
      .set("control.phases", std::vector<double>{.5, .75});
  const LocalOutcome out = train_locally(t, data);
  EXPECT_GT(out.train_loss, 0);
  EXPECT_LE(out.top1, 1);
  EXPECT_FALSE(out.distance.empty());
  t.options.rounds = "ring-of-none";
  EXPECT_THROW(train_locally(t, data), Error);
}

TEST_F(PaperTest, WritesAPageAPictureAndItsNumbers) {
  const Result r = run({"paper", "ring64", "--out", "paper", "--html", "page.html"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("4 of 4 numbers that we expect hold"));
  const std::string page = read_text(folder / "page.html");
  EXPECT_THAT(page, HasSubstr("<h2>Assumptions</h2>"));
  EXPECT_THAT(read_text(folder / "paper/ring64.svg"), HasSubstr("exactly exp(-0.0567 t)"));
  EXPECT_EQ(Json::parse(read_text(folder / "paper/ring64.json"))["name"], "ring64");
  if (const std::string why = no_browser(); !why.empty()) GTEST_SKIP() << why;
  look_at(folder / "page.html", "paper-ring64", false);
}

}  // namespace
}  // namespace gossamer::apps
