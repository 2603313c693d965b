// The report of a run: what is read from its folder, the pictures, the page, and the command.
#include "gossamer/apps/report/report.h"

#include <cmath>

#include <gmock/gmock.h>

#include "apps/program.h"
#include "gossamer/apps/report/csv.h"
#include "gossamer/apps/report/launch_facts.h"
#include "gossamer/apps/report/pictures.h"
#include "gossamer/apps/report/run_folder.h"
#include "gossamer/apps/shell_word.h"
#include "gossamer/apps/train/file_of_run.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

class Report : public ProgramTest {
 protected:
  // The folder of a run that has left these lines.
  fs::path leave(const std::string& name, const std::vector<Json>& lines,
                 const std::string& config = "[run]\n") {
    std::string log;
    for (const Json& line : lines) log += line.dump() + "\n";
    write_text(folder / name / "log.jsonl", log);
    write_text(folder / name / "config.toml", config);
    return folder / name;
  }
  static Json started(double time, int rank, double samples = 0) {
    return {{"event", "start"}, {"time", time}, {"rank", rank}, {"samples", samples}};
  }
  static Json step(double time, int rank, double samples) {
    return {{"event", "step"},          {"time", time},       {"rank", rank},
            {"samples", samples},       {"data_wait_s", 1.0}, {"epoch", samples / 100},
            {"loss", 2 / (1 + samples)}};
  }
  static Json fault(double time, int rank, int peer) {
    return {{"event", "fault"}, {"time", time}, {"rank", rank}, {"peer", peer}, {"what", "dead"}};
  }
};

TEST_F(Report, ItSaysWhoMetWhomHowLateAndHowFarApart) {
  std::vector<Json> lines{started(100, 0), started(100, 1)};
  for (int i = 1; i <= 5; ++i)
    for (int rank = 0; rank < 2; ++rank) {
      Json row = step(100 + i, rank, 10 * i);
      row["target"] = .25;
      row["consensus_distance"] = .3;
      lines.push_back(row);
      lines.push_back({{"event", "exchange"},
                       {"time", 100.5 + i},
                       {"rank", rank},
                       {"exchanges", 3},
                       {"staleness", .5},
                       {"distance", 1.5},
                       {"peers", {{std::to_string(1 - rank), 3}}}});
    }
  // run.log_exchanges: one line for each
  lines.push_back({{"event", "exchange"}, {"time", 106}, {"rank", 0}, {"peer", 1}, {"ok", false}});
  const RunRecord run =
      read_run(leave("r", lines, "[train]\nmethod = \"consensus-control\"    # how\n"));
  ASSERT_EQ(run.exchanges.at(0).size(), 6u);
  EXPECT_EQ(run.exchanges.at(1)[0].with.at(0), 3);
  EXPECT_EQ(run.exchanges.at(0).back().failed, 1);
  EXPECT_EQ(run.steps.at(0)[0].target, .25);
  write_page(run, folder, folder / "page.html");
  const std::string page = read_text(folder / "page.html");
  for (const char* said : {"<h2>Exchanges</h2>", "staleness in own gradients", "who met whom",
                           "0 – 1: 3.0 exchanges", "</b> target"})
    EXPECT_THAT(page, HasSubstr(said));
}

// --- what a run has left

TEST_F(Report, ADeathEndsTheLineOfTheDeadWorkerOnly) {
  std::vector<Json> lines{started(100, 0), started(100, 1), started(100, 2)};
  for (int i = 1; i <= 4; ++i)
    for (int rank = 0; rank < 3; ++rank) lines.push_back(step(100 + i, rank, 10 * i));
  lines.push_back(fault(105, 0, 1));
  lines.push_back(fault(105.5, 2, 1));
  for (int i = 6; i <= 20; ++i)
    for (const int rank : {0, 2}) lines.push_back(step(100 + i, rank, 10 * i));
  Json back = started(110, 1);
  back["rejoined"] = true;
  lines.push_back(back);
  lines.push_back({{"event", "joined"}, {"time", 110.5}, {"rank", 0}, {"peer", 1}, {"what", "x"}});
  lines.push_back(step(119, 1, 200));
  const RunRecord run = read_run(leave("deaths", lines));
  EXPECT_THAT(run.alive.at(0), ElementsAre(Pair(0.0, 20.0)));
  EXPECT_THAT(run.alive.at(1), ElementsAre(Pair(0.0, 5.0), Pair(10.0, 20.0)));
  EXPECT_THAT(run.alive.at(2), ElementsAre(Pair(0.0, 20.0)));
  EXPECT_TRUE(std::isnan(run.steps.at(1).back().data_wait)) << "a new process counts from 0";
  ASSERT_EQ(run.marks.size(), 2u) << "two workers saw one death";
  EXPECT_EQ(run.marks[0].worker, 1);
  EXPECT_THAT(run.marks[0].by, ElementsAre(0, 2));
  EXPECT_FALSE(run.finished);
  EXPECT_THAT(run.outcome, HasSubstr("no end was written"));
}

TEST_F(Report, AFalseAlarmDoesNotKillAWorkerThatGoesOn) {
  std::vector<Json> lines{started(100, 0), started(100, 1), fault(102, 0, 1)};
  for (int i = 3; i <= 9; ++i)
    for (const int rank : {0, 1}) lines.push_back(step(100 + i, rank, 10 * i));
  const RunRecord run = read_run(leave("alarm", lines));
  EXPECT_THAT(run.alive.at(1), ElementsAre(Pair(0.0, 9.0)));
}

TEST_F(Report, AResumedRunGoesOnWhereItHadStopped) {
  const Json stopped{
      {"event", "interrupted"}, {"time", 105}, {"rank", 0}, {"signal", SIGTERM}, {"samples", 50}};
  std::vector<Json> lines{started(100, 0)};
  for (int i = 1; i <= 5; ++i) lines.push_back(step(100 + i, 0, 10 * i));
  lines.push_back(stopped);
  EXPECT_EQ(read_run(leave("legs", lines)).outcome, "stopped by SIGTERM after 50 images");
  // an hour later, from a checkpoint at 30 images
  lines.push_back({{"event", "launch"}, {"time", 3699}, {"rank", 0}, {"command", "again"}});
  lines.push_back(started(3700, 0, 30));
  for (int i = 4; i <= 6; ++i) lines.push_back(step(3700 + i - 3, 0, 10 * i));
  lines.push_back({{"event", "failed"}, {"time", 3704}, {"rank", 0}, {"what", "the loss is nan"}});
  const RunRecord run = read_run(leave("legs", lines));
  std::vector<double> images;
  for (const StepRow& row : run.steps.at(0)) images.push_back(row.images);
  EXPECT_THAT(images, ElementsAre(10, 20, 30, 40, 50, 60));
  EXPECT_DOUBLE_EQ(run.steps.at(0).back().time, 6)
      << "neither the hour between the legs counts, nor what was done twice";
  EXPECT_DOUBLE_EQ(run.seconds, 7);
  EXPECT_EQ(run.outcome, "failed: the loss is nan");
  EXPECT_EQ(run.launch["command"], "again");
  EXPECT_DOUBLE_EQ(run.steps.at(0).back().images_per_s, 10);
  EXPECT_THAT(run.alive.at(0), ElementsAre(Pair(0.0, 3.0), Pair(3.0, 7.0)));
}

TEST_F(Report, OfALegThatWasDiscardedNothingIsLeft) {
  std::vector<Json> lines{started(100, 0), started(100, 1)};
  const auto both = [&](double time, double samples) {
    for (const int rank : {0, 1}) lines.push_back(step(time, rank, samples));
  };
  both(101, 10), both(102, 20);
  lines.push_back(fault(103, 0, 1));
  lines.push_back(step(104, 0, 30));
  // from a checkpoint at 10 images, of which worker 1 was one
  lines.push_back(started(200, 0, 10)), lines.push_back(started(200, 1, 10));
  both(201, 20), both(202, 30);
  lines.push_back({{"event", "summary"}, {"time", 203}, {"rank", 0}});
  const fs::path at = leave("discarded", lines);
  const RunRecord run = read_run(at);
  EXPECT_TRUE(run.marks.empty());
  EXPECT_EQ(run.steps.at(0).size(), 3u);
  write_page(run, at, at / "report.html");
  EXPECT_THAT(read_text(at / "report.html"), HasSubstr("2 workers, 4 s"));
}

TEST_F(Report, LinesCutShortByACrashArePassedOver) {
  const fs::path at = leave("cut", {started(100, 0), step(101, 0, 10), step(102, 0, 20)});
  std::string log = read_text(at / "log.jsonl");
  write_text(at / "log.jsonl", "[1]\n{\"event\":7}\n" + log + log.substr(0, 30));
  EXPECT_EQ(read_run(at).steps.at(0).size(), 2u);
}

// A log of a long run goes on in a new file; what reads it finds all parts.
TEST_F(Report, ALogInSeveralFilesIsOneLog) {
  const fs::path at = leave("long", {{{"event", "launch"}, {"time", 1.}, {"command", "first"}},
                                     started(100, 0),
                                     step(101, 0, 10)});
  RunFolder worker(at);
  worker.open();
  worker.begin_new_log(1 << 20);
  EXPECT_FALSE(fs::exists(at / "log-1.jsonl")) << "it is not large";
  const auto size = fs::file_size(at / "log.jsonl");
  worker.begin_new_log(10);
  EXPECT_EQ(fs::file_size(at / "log-1.jsonl"), size);
  for (int part = 2; part < 12; ++part) {
    std::ofstream(at / "log.jsonl", std::ios::app) << step(100 + part, 0, 10 * part).dump() << "\n";
    worker.begin_new_log(10);
  }
  write_text(at / "log-x.jsonl", step(200, 0, 1000).dump());
  EXPECT_THAT(log_files(at), ::testing::SizeIs(12));
  EXPECT_EQ(log_files(at)[10].filename(), "log-11.jsonl") << "by number";
  const RunRecord run = read_run(at);
  ASSERT_EQ(run.steps.at(0).size(), 11u);
  EXPECT_EQ(run.steps.at(0).back().images, 110);
  EXPECT_THAT(last_launch(at), HasSubstr("first"));
  fs::remove(at / "log-3.jsonl");
  EXPECT_EQ(read_run(at).steps.at(0).size(), 10u);
  EXPECT_TRUE(is_file_of_run(at / "log-2.jsonl"));
}

TEST_F(Report, AFolderWithoutALogIsNoRun) {
  try {
    read_run(folder / "s");
    FAIL();
  } catch (const IoError& e) {
    EXPECT_THAT(e.what(), HasSubstr((folder / "s").string()));
    EXPECT_THAT(e.what(), HasSubstr("log.jsonl"));
  }
}

TEST_F(Report, EvaluationsOfTheWorkersAreTakenTogetherOneOfEach) {
  const auto eval = [](int rank, double epoch, double top1) {
    return Json{{"event", "eval"}, {"time", 100 + epoch}, {"rank", rank}, {"samples", 100 * epoch},
                {"epoch", epoch},  {"top1", top1},        {"top5", 1.0},  {"loss", 1.0}};
  };
  Json last = eval(0, 2, 0.9);
  last["of"] = "averaged model";
  const RunRecord run =
      read_run(leave("evals", {started(100, 0), eval(0, 1.1, 0.2), eval(1, 0.9, 0.4),
                               eval(0, 2, 0.5), eval(1, 1.9, 0.7), last}));
  const std::vector<EvalRow> means = workers_evaluations(run.evals);
  ASSERT_EQ(means.size(), 2u);
  EXPECT_DOUBLE_EQ(means[0].epoch, 1);
  EXPECT_DOUBLE_EQ(means[0].top1, 30);
  EXPECT_DOUBLE_EQ(means[1].top1, 60) << "without that of the averaged model";
  const RunRecord alone = read_run(
      leave("alone", {started(100, 0), eval(0, 0.27, 0.1), eval(0, 0.53, 0.3), eval(0, 0.8, 0.2)}));
  const std::vector<EvalRow> each = workers_evaluations(alone.evals);
  ASSERT_EQ(each.size(), 3u) << "several in an epoch stay what they are";
  EXPECT_DOUBLE_EQ(each[1].top1, 30);
}

TEST_F(Report, TheTableHoldsEveryStepAndEvaluationInTheirOrder) {
  Json last{{"event", "eval"}, {"time", 103}, {"rank", 0},   {"of", "averaged model"},
            {"samples", 20},   {"top1", 0.5}, {"top5", 1.0}, {"loss", 0.25}};
  const RunRecord run = read_run(leave("table", {started(100, 0), started(100, 1), step(101, 0, 10),
                                                 step(102, 1, 10), step(102.5, 0, 20), last}));
  write_csv(run, folder / "t.csv");
  std::istringstream in(read_text(folder / "t.csv"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  ASSERT_EQ(lines.size(), 5u);
  for (const std::string& line : lines)
    EXPECT_EQ(std::ranges::count(line, ','), std::ranges::count(lines[0], ',')) << line;
  EXPECT_THAT(lines[1], StartsWith("step,0,1,10,0.1,0.181818182,,,"));
  EXPECT_THAT(lines[2], StartsWith("step,1,2,10,"));
  EXPECT_THAT(lines[3], StartsWith("step,0,2.5,20,0.2,")) << "10 images in 1.5 s:";
  EXPECT_THAT(lines[3], HasSubstr(",6.66666667,"));
  EXPECT_EQ(lines[4], "eval,mean,3,20,0.2,0.25,,,,,,50,100");
}

TEST_F(Report, ItsColumnsAndChartsAreThoseOfTheTask) {
  const auto of = [&](const std::string& task) {
    const Json last{
        {"event", "eval"},    {"time", 103}, {"rank", 0},           {"of", "averaged model"},
        {"samples", 20},      {"loss", 0.5}, {"top1", 0.5},         {"top5", 0.75},
        {"perplexity", 1.65}, {"bleu", 33},  {"bits_per_byte", 0.7}};
    Json own = last;
    own["of"] = "model", own["time"] = 101.5, own["samples"] = 10;
    return read_run(leave(task, {started(100, 0), step(101, 0, 10), own, step(102, 0, 20), last},
                          "task = \"" + task + "\"\n[run]\n"));
  };
  const auto table = [&](const std::string& task) {
    write_csv(of(task), folder / "t.csv");
    return read_text(folder / "t.csv");
  };
  EXPECT_THAT(table("language"), AllOf(StartsWith("event,of,time_s,tokens,epoch,"),
                                       HasSubstr(",consensus_distance,perplexity,bits_per_byte\n"),
                                       HasSubstr("eval,mean,3,20,0.2,0.5,,,,,,1.65,0.7\n")));
  EXPECT_THAT(table("translation"), AllOf(HasSubstr(",consensus_distance,bleu,perplexity\n"),
                                          HasSubstr("eval,mean,3,20,0.2,0.5,,,,,,33,1.65\n")));
  const auto compared = [&](const std::string& task) {
    write_comparison({of(task), of(task)}, folder / "page.html");
    return read_text(folder / "page.html");
  };
  // The only worker's model is the mean: one curve for both.
  write_page(of("pictures"), folder, folder / "page.html");
  EXPECT_THAT(read_text(folder / "page.html"),
              AllOf(HasSubstr("top-1"), Not(HasSubstr("(mean model)")), Not(HasSubstr("(final)"))));
  EXPECT_THAT(compared("pictures"),
              AllOf(HasSubstr("top-1 %"), Not(HasSubstr("BLEU")), Not(HasSubstr("perplexity"))));
  EXPECT_THAT(compared("language"), AllOf(HasSubstr("bits per byte"), Not(HasSubstr("BLEU")),
                                          Not(HasSubstr("top-1")), Not(HasSubstr("images"))));
  EXPECT_THAT(compared("translation"), AllOf(HasSubstr("BLEU"), Not(HasSubstr("top-1"))));
}

// --- the pictures

TEST(ReportPictures, TicksAreRound) {
  EXPECT_THAT(round_ticks(0, 97, 5), ElementsAre(0, 20, 40, 60, 80));
  const std::vector<double> small = round_ticks(0.13, 0.87, 4);
  ASSERT_EQ(small.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(small[i], 0.2 * (static_cast<double>(i) + 1), 1e-12);
  EXPECT_THAT(round_ticks(-1, 1, 2), ElementsAre(-1, 0, 1));
  EXPECT_TRUE(round_ticks(1, 1, 5).empty());
  // The epoch of a step and that of an evaluation after it, rounded in two ways.
  EXPECT_TRUE(round_ticks(0.02844444444444444, 0.028444444444444446, 5).empty());
  EXPECT_TRUE(round_ticks(0, INFINITY, 5).empty());
}

TEST(ReportPictures, AChartEndsEachCurveWithItsLastValueAndLeavesOutWhatIsNoNumber) {
  const std::string svg = chart(
      {"a < b", "epochs"}, {{.name = "x & y", .points = {{0, 1}, {1, NAN}, {2, 7.25}}, .colour = 1},
                            {.name = "far", .points = {{0, 3}, {2, 4}}, .faint = true}});
  for (const char* wanted : {"a &lt; b", "x &amp; y", ">7.25<", "epochs"})
    EXPECT_THAT(svg, HasSubstr(wanted));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("</b> far"))) << "a faint curve has no entry in the legend";
  EXPECT_EQ(chart({"one point", ""}, {{.name = "p", .points = {{1, 1}}}}), "");
  const std::string logarithmic =
      chart({"l", "", true}, {{.name = "p", .points = {{0, 0}, {1, 0.01}, {2, 100}}}});
  for (const char* wanted : {">0.01<", ">1<", ">100<"}) EXPECT_THAT(logarithmic, HasSubstr(wanted));
  EXPECT_THAT(logarithmic, Not(HasSubstr("inf")));
}

TEST(ReportPictures, TheNoiseOfAFlatCurveDoesNotFillThePicture) {
  const std::string svg =
      chart({"t", ""}, {{.name = "p", .points = {{0, 1}, {1, 1.001}, {2, 0.999}}}});
  EXPECT_THAT(svg, HasSubstr(">0.95<"));
  EXPECT_THAT(svg, HasSubstr(">1.05<"));
}

TEST(ReportPictures, ACurveOfOnePointIsADot) {
  const std::string svg = chart({"t", ""}, {{.name = "two", .points = {{0, 1}, {2, 3}}},
                                            {.name = "one", .points = {{1, 2}}}});
  EXPECT_THAT(svg, HasSubstr("<circle"));
  EXPECT_THAT(svg, HasSubstr(">●</b> one"));
  EXPECT_THAT(svg, HasSubstr(">—</b> two"));
}

TEST(ReportPictures, AGraphEndsBelowItsLowestText) {
  const auto height = [](int workers) {
    std::vector<DrawnEdge> ring;
    for (int w = 0; w < workers; ++w) ring.push_back({w, (w + 1) % workers, 1, 1, ""});
    const std::string svg = graph_picture(workers, ring);
    const std::string before = "viewBox=\"0 0 340 ";
    return std::stod(svg.substr(svg.find(before) + before.size()));
  };
  EXPECT_EQ(height(4), 278);
  EXPECT_NEAR(height(3), 218, 4) << "two of the three are half a radius below the middle";
}

TEST(ReportPictures, NumbersAreShort) {
  const std::string svg = chart({"n", ""}, {{.name = "p", .points = {{0, 1000}, {1, 1480}}},
                                            {.name = "q", .points = {{0, 0}, {1, 1.52e-6}}}});
  for (const char* wanted : {">1480<", ">1000<", ">1.5e-6<"}) EXPECT_THAT(svg, HasSubstr(wanted));
}

TEST(ReportPictures, TheMeanOfCurvesIsThatOfTheirPoints) {
  const Points mean = mean_of({{{0, 1}, {120, 5}}, {{0, 3}, {120, 7}}});
  EXPECT_THAT(mean, ElementsAre(Pair(0.0, 2.0), Pair(120.0, 6.0)));
  // measured at other places: 10 x and 10 x + 4
  const Points a{{0, 0}, {60, 600}, {120, 1200}}, b{{30, 304}, {90, 904}, {118, 1184}};
  for (const auto& [x, y] : mean_of({a, b})) EXPECT_NEAR(y, x < 10 ? 10 * x : 10 * x + 2, 12) << x;
  // the second has died
  EXPECT_THAT(mean_of({{{0, 1}, {50, 1}, {100, 1}}, {{0, 3}, {50, 3}}}),
              ElementsAre(Pair(0.0, 2.0), Pair(50.0, 2.0), Pair(100.0, 1.0)));
}

TEST(ReportPictures, WhatIsAlwaysZeroBeginsAtZero) {
  const std::string svg = chart({"n", ""}, {{.name = "p", .points = {{0, 0}, {1, 0}}}});
  EXPECT_THAT(svg, Not(HasSubstr(">-0.5<")));
}

TEST(ReportPictures, AShortRunIsTimedInSeconds) {
  EXPECT_STREQ(time_unit(119).name, "seconds");
  EXPECT_STREQ(time_unit(121).name, "minutes");
  EXPECT_EQ(time_unit(3600).seconds, 60);
}

// --- the page

TEST_F(Report, TheReportDrawsEdgesFaultsAndReturns) {
  const fs::path at = folder / "runs/x";
  std::string log;
  for (int i = 1; i <= 20; ++i)
    log += Json{{"event", "step"},          {"time", 100.0 + i}, {"rank", i % 2},
                {"samples", 10 * i},        {"epoch", 0.1 * i},  {"loss", 2.0 / i},
                {"consensus_distance", 0.1}}
               .dump() +
           "\n";
  log += Json{{"event", "fault"}, {"time", 105}, {"rank", 0}, {"peer", 1}, {"what", "dead <u>"}}
             .dump() +
         "\n";
  log += Json{{"event", "joined"}, {"time", 110}, {"rank", 0}, {"peer", 1}, {"what", "joined"}}
             .dump() +
         "\n";
  log += Json{{"event", "refused"}, {"time", 111}, {"rank", 0}, {"what", "10.0.0.9: no token"}}
             .dump() +
         "\n";
  write_text(at / "log.jsonl", log);
  write_text(at / "config.toml", "[run]\n");
  const Json first{{"a", 0},
                   {"b", 1},
                   {"rate", 0.5},
                   {"wanted", 1.0},
                   {"exchanges_a", 5},
                   {"exchanges_b", 5},
                   {"failed", 1},
                   {"staleness_mean", 0.25},
                   {"staleness_max", 2},
                   {"distance_mean", 0.1},
                   {"seconds_mean", 0.002}};
  const Json second{{"a", 1},
                    {"b", 2},
                    {"rate", 1.0},
                    {"wanted", 1.0},
                    {"exchanges_a", 10},
                    {"exchanges_b", 10},
                    {"failed", 0},
                    {"staleness_mean", 0.0},
                    {"staleness_max", 0},
                    {"distance_mean", 0.1},
                    {"seconds_mean", 0.002}};
  const Json summary{{"top1", 0.5},
                     {"model", "m"},
                     {"method", "a2cid2"},
                     {"workers", 3},
                     {"edges", {first, second}}};
  write_text(at / "summary.json", summary.dump());
  write_report(read_run(at), at);
  const std::string page = read_text(at / "report.html");
  for (const char* wanted : {"training loss", "consensus distance", "Faults and returns", "joined",
                             "dead &lt;u&gt;", "no token", "0 – 1", "1 – 2"})
    EXPECT_THAT(page, HasSubstr(wanted));
  EXPECT_THAT(page, ::testing::Not(HasSubstr("<u>")));
  EXPECT_THAT(page, ::testing::Not(HasSubstr("<script")));
  EXPECT_THAT(page, ::testing::Not(HasSubstr("nan")));
}

TEST_F(Report, RunsAreComparedInTheKeysThatDiffer) {
  const auto run_with = [&](const char* name, const char* rate) {
    return read_run(leave(name, {started(100, 0), step(101, 0, 10), step(102, 0, 20)},
                          std::string("[train]\nmethod = \"a2cid2\"    # how\nrate = ") + rate +
                              "    # exchanges\n[run]\nname = \"" + name + "\"\n"));
  };
  write_comparison({run_with("one", "1"), run_with("two", "4")}, folder / "page.html");
  const std::string page = read_text(folder / "page.html");
  for (const char* wanted : {"training loss against time", "train.rate", "<code>4</code>", "one"})
    EXPECT_THAT(page, HasSubstr(wanted));
  EXPECT_THAT(page, Not(HasSubstr("train.method"))) << "it is the same";
  write_comparison({run_with("one", "1"), run_with("two", "1")}, folder / "page.html");
  EXPECT_THAT(read_text(folder / "page.html"), HasSubstr("They do not differ."));
}

TEST(LaunchFacts, AreQuotedForAShell) {
  EXPECT_EQ(shell_word("train.batch=8"), "train.batch=8");
  EXPECT_EQ(shell_word("a b"), "'a b'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

// --- the program

TEST_F(Report, AStoppedRunHasOne) {
  start(tiny({"train.epochs=500"}));
  ASSERT_EQ(workers_at_work(1).size(), 1u);
  kill(running, SIGTERM);
  ASSERT_EQ(wait().code, 143);
  const std::string page = read_text(folder / "runs/t/report.html");
  for (const char* wanted : {"stopped by SIGTERM after", "Command and machine", "train.epochs=500",
                             "learning rate", "images a second"})
    EXPECT_THAT(page, HasSubstr(wanted));
}

TEST_F(Report, AFailedRunHasOneAndItNamesTheError) {
  const Result r = run(tiny({"optim.learning_rate=1e30", "train.epochs=50", "--workers", "2"}));
  EXPECT_NE(r.code, 0);
  const std::string page = read_text(folder / "runs/t/report.html");
  EXPECT_THAT(page, HasSubstr("failed: "));
  EXPECT_THAT(page, HasSubstr("the loss is "));
  EXPECT_THAT(r.err, HasSubstr("report.html"));
}

TEST_F(Report, TheCommandWritesItForAnyRunAndComparesSeveral) {
  ASSERT_EQ(run(tiny({"run.report=false"})).code, 0);
  ASSERT_EQ(run(tiny({"run.report=false", "run.name=u", "train.batch=16"})).code, 0);
  EXPECT_FALSE(fs::exists(folder / "runs/t/report.html"));
  EXPECT_EQ(summary()["launch"]["train_images"], 96);
  EXPECT_THAT(summary()["launch"]["command"].get<std::string>(), HasSubstr("run.report=false"));
  Result r = run({"report", "runs/t"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("t: finished"));
  EXPECT_THAT(read_text(folder / "runs/t/log.csv"), HasSubstr("\neval,mean,"));
  EXPECT_THAT(read_text(folder / "runs/t/report.html"), HasSubstr("top-1 <b>"));
  r = run({"report", "runs/t", "runs/u", "--out", "both.html", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out)["page"], "both.html");
  EXPECT_THAT(read_text(folder / "both.html"), HasSubstr("train.batch"));
  EXPECT_EQ(run({"report", "s"}).code, 6);
}

}  // namespace
}  // namespace gossamer::apps
