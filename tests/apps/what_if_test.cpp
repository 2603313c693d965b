// `gossamer what-if`: what it reads from a trace, and how its prediction depends on what is asked.
// That it comes true is measured, not tested: tests/bench/RESULTS-DIST.md.
#include <algorithm>
#include <map>

#include <gmock/gmock.h>

#include "apps/program.h"

namespace gossamer::apps {
namespace {

using ::testing::HasSubstr;

class WhatIf : public ProgramTest {
 protected:
  // A run of two workers on one machine: steps of .1 s, of which `waits` in exchanges; transfers
  // of 10 ms.
  void write_run(double waits, const std::string& method = "a2cid2") {
    Json events = Json::array();
    for (const int pid : {0, 1})
      for (int k = 0; k < 100; ++k) {
        events.push_back(
            {{"ph", "X"}, {"pid", pid}, {"name", "step"}, {"ts", 1e5 * k}, {"dur", 9e4}});
        events.push_back({{"ph", "X"},
                          {"pid", pid},
                          {"name", "wait exchange"},
                          {"ts", 1e5 * k + 10},
                          {"dur", 1e6 * waits}});
        events.push_back(
            {{"ph", "X"}, {"pid", pid}, {"name", "transfer"}, {"ts", 1e5 * k}, {"dur", 1e4}});
      }
    const Json workers = {{{"rank", 0}, {"machine", "m"}}, {{"rank", 1}, {"machine", "m"}}};
    write_text(folder / "r/trace.json",
               Json({{"traceEvents", events}, {"otherData", {{"workers", workers}}}}).dump());
    write_text(folder / "r/summary.json", Json({{"batch", 32},
                                                {"accumulate", 1},
                                                {"parameters", 1000000},
                                                {"rate", 1},
                                                {"workers", 2},
                                                {"method", method},
                                                {"graph", "ring"}})
                                              .dump());
    write_text(folder / "r/log.jsonl",
               Json({{"event", "launch"}, {"time", 1}, {"rank", 0}, {"cores", 2}}).dump() + "\n");
    write_text(folder / "r/config.toml", "[train]\nthreads = 1\n");
  }
  Json ask(std::vector<std::string> more) {
    more.insert(more.begin(), {"what-if", "r", "--json"});
    const Result r = run(more);
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out, nullptr, false);
  }
};

TEST_F(WhatIf, RepeatsTheRunThatWasMade) {
  write_run(0);
  const Json r = ask({});
  EXPECT_NEAR(r["made"]["images_per_s"].get<double>(), 640, 1e-6) << "two workers, 32 in .1 s";
  EXPECT_NEAR(r["images_per_s"].get<double>(), 640, 1e-6);
  EXPECT_NEAR(r["compute_s"].get<double>(), .1, 1e-9);
  EXPECT_NEAR(r["bandwidth"].get<double>(), 4e6 / 9.9e-3, 1e3);
}

TEST_F(WhatIf, ReadsTheTraceOfARunThatWasReallyMade) {
  ASSERT_EQ(run(tiny({"--workers", "2", "run.trace=true", "train.epochs=6"})).code, 0);
  const Result r = run({"what-if", "runs/t", "--workers", "4", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json found = Json::parse(r.out);
  EXPECT_GT(found["images_per_s"].get<double>(), 0);
  EXPECT_GT(found["compute_s"].get<double>(), 0);
  std::map<int, std::vector<double>> steps;  // when each began, microseconds
  const Json trace = Json::parse(read_text(folder / "runs/t/trace.json"));
  for (const Json& e : trace["traceEvents"])
    if (e["ph"] == "X" && e["name"] == "step") steps[e["pid"]].push_back(e["ts"]);
  ASSERT_EQ(steps.size(), 2u);
  double images_per_s = 0;
  for (auto& [rank, began] : steps) {
    std::ranges::sort(began);
    images_per_s +=
        8e6 * static_cast<double>(began.size() - 4) / (began.back() - began[3]);  // not the first 3
  }
  EXPECT_NEAR(found["made"]["images_per_s"].get<double>() / images_per_s, 1, 1e-6);
}

TEST_F(WhatIf, WorkersShareTheCoresOfAMachine) {
  write_run(0);
  EXPECT_NEAR(ask({"--workers", "8"})["images_per_s"].get<double>(), 640, 15) << "two cores";
  EXPECT_NEAR(ask({"--workers", "8", "--machines", "4"})["images_per_s"].get<double>(), 2560, 50);
  EXPECT_NEAR(ask({"--workers", "8", "--machines", "8"})["images_per_s"].get<double>(), 2560, 50);
}

TEST_F(WhatIf, ASlowWorkerHoldsUpAllOfAllReduceOnly) {
  write_run(0);
  const std::vector<std::string> slow{"--workers", "8", "--machines", "4", "--slow", "3:x2"};
  std::vector<std::string> all = slow;
  all.insert(all.end(), {"--method", "allreduce"});
  EXPECT_NEAR(ask(slow)["images_per_s"].get<double>(), 2560 * 7.5 / 8, 60);
  const Json held = ask(all);
  all[5] = "3:0.5";
  EXPECT_EQ(ask(all), held) << "half the speed is twice as long";
  EXPECT_LT(held["images_per_s"].get<double>(), 1300);
  EXPECT_GT(held["waiting"].get<double>(), .4);
  std::vector<std::string> thin = all;
  thin.insert(thin.end(), {"--bandwidth", "100M"});
  EXPECT_LT(ask(thin)["images_per_s"].get<double>(), .5 * held["images_per_s"].get<double>());
}

TEST_F(WhatIf, TimeThatWasExposedIsNotComputation) {
  write_run(.02, "dpsgd");
  const Json r = ask({});
  EXPECT_NEAR(r["compute_s"].get<double>(), .08, 1e-9);
  EXPECT_NEAR(r["made"]["exposed"].get<double>(), .2, 1e-9);
}

TEST_F(WhatIf, SaysWhatItNeeds) {
  write_run(0);
  for (const auto& [arguments, said] :
       {std::pair{std::vector<std::string>{"--slow", "2:x2"}, "with a worker from 0 to 1"},
        {{"--slow", "1:0"}, "wanted is WORKER:xTIMES"},
        {{"--slow", "1:1e-310"}, "wanted is WORKER:xTIMES"},
        {{"--slow", "1:xnan"}, "wanted is WORKER:xTIMES"},
        {{"--bandwidth", "fast"}, "wanted are bits a second such as 10G"},
        {{"--graph", "rung"}, "rung"}}) {
    std::vector<std::string> all{"what-if", "r"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Result r = run(all);
    EXPECT_EQ(r.code, 2) << said;
    EXPECT_THAT(r.err, HasSubstr(said));
  }
  write_text(folder / "r/trace.json", "[1, 2]");
  const Result no_trace = run({"what-if", "r"});
  EXPECT_EQ(no_trace.code, 3);
  EXPECT_THAT(no_trace.err, HasSubstr("is no trace"));
  fs::remove(folder / "r/trace.json");
  EXPECT_THAT(run({"what-if", "r"}).err, HasSubstr("train with run.trace=true"));
}

}  // namespace
}  // namespace gossamer::apps
