// Traces: the file is JSON that trace viewers read, nothing is recorded when off, rings keep the
// newest events.
#include "gossamer/core/trace.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "gossamer/core/error.h"

namespace gossamer {
namespace {

namespace fs = std::filesystem;

struct TraceFile : testing::Test {
  fs::path path =
      fs::path(testing::TempDir()) / ("gossamer_trace_" + std::to_string(::getpid()) + ".json");
  ~TraceFile() override { fs::remove(path); }
  nlohmann::json written() {
    trace::write(path);
    std::ifstream file(path);
    return nlohmann::json::parse(file).at("traceEvents");
  }
  static std::vector<nlohmann::json> named(const nlohmann::json& events, const std::string& name) {
    std::vector<nlohmann::json> out;
    for (const auto& e : events)
      if (e.at("name") == name) out.push_back(e);
    return out;
  }
};

TEST_F(TraceFile, HoldsSlicesCountersFlowsAndNames) {
  trace::start(3, "rank 3");
  EXPECT_TRUE(trace::enabled());
  trace::name_thread("main");
  {
    const trace::Scope outer("step", 17);
    const trace::Scope inner("forward");
    trace::counter("loss", 2.5);
    trace::flow("exchange", 99, true);
  }
  std::thread([] {
    trace::name_thread("comm");
    trace::flow("exchange", 99, false);
  }).join();
  const auto events = written();
  EXPECT_FALSE(trace::enabled());
  const auto step = named(events, "step").at(0), forward = named(events, "forward").at(0);
  EXPECT_EQ(step.at("ph"), "X");
  EXPECT_EQ(step.at("pid"), 3);
  EXPECT_EQ(step.at("args").at("n"), 17);
  EXPECT_GE(forward.at("ts").get<double>(), step.at("ts").get<double>());
  EXPECT_LE(forward.at("ts").get<double>() + forward.at("dur").get<double>(),
            step.at("ts").get<double>() + step.at("dur").get<double>() + 1);
  EXPECT_EQ(named(events, "loss").at(0).at("args").at("value"), 2.5);
  const auto flows = named(events, "exchange");
  ASSERT_EQ(flows.size(), 2u);
  EXPECT_EQ(flows[0].at("id"), flows[1].at("id"));
  EXPECT_NE(flows[0].at("tid"), flows[1].at("tid"));
  EXPECT_EQ(named(events, "process_name").at(0).at("args").at("name"), "rank 3");
  EXPECT_GE(named(events, "thread_name").size(), 2u);
}

TEST_F(TraceFile, HoldsNothingThatHappenedWhileOff) {
  { const trace::Scope scope("before"); }
  trace::start(0, "p");
  { const trace::Scope scope("during"); }
  const auto events = written();
  { const trace::Scope scope("after"); }
  EXPECT_EQ(named(events, "before").size(), 0u);
  EXPECT_EQ(named(events, "during").size(), 1u);
  trace::start(0, "p");
  const auto again = written();
  EXPECT_EQ(named(again, "after").size(), 0u);
  EXPECT_EQ(named(again, "during").size(), 0u) << "a second trace starts empty";
}

TEST_F(TraceFile, KeepsTheNewestEventsOfAFullRing) {
  trace::start(0, "p", 10);
  for (int i = 0; i < 25; ++i) trace::complete("tick", 1000.0 * i, 1000.0 * i + 1, i);
  const auto ticks = named(written(), "tick");
  ASSERT_EQ(ticks.size(), 10u);
  std::vector<int> kept;
  for (const auto& t : ticks) kept.push_back(t.at("args").at("n"));
  std::sort(kept.begin(), kept.end());
  EXPECT_EQ(kept.front(), 15);
  EXPECT_EQ(kept.back(), 24);
}

TEST_F(TraceFile, RecordsOnlyWhatHappensBetweenStartAndStop) {
  trace::start(0, "p");
  { const trace::Scope scope("inside"); }
  trace::stop();
  EXPECT_FALSE(trace::enabled());
  { const trace::Scope scope("outside"); }
  const auto events = written();
  EXPECT_EQ(named(events, "inside").size(), 1u);
  EXPECT_EQ(named(events, "outside").size(), 0u);
}

TEST_F(TraceFile, SlicesThatOverlapHaveLanesOfTheirOwn) {
  trace::start(0, "p");
  const int a = trace::lane("exchange with 1"), b = trace::lane("exchange with 2");
  EXPECT_NE(a, b);
  EXPECT_EQ(trace::lane("exchange with 1"), a);
  trace::complete("exchange", 1000, 3000, 1, a);
  trace::complete("exchange", 2000, 4000, 2, b);
  // begun while nothing was recorded: nobody knows when
  trace::complete("exchange", 0, 4000, 3, b);
  const auto events = written();
  const auto slices = named(events, "exchange");
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_NE(slices[0].at("tid"), slices[1].at("tid"));
  std::vector<std::string> names;
  for (const auto& m : named(events, "thread_name")) names.push_back(m.at("args").at("name"));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"exchange with 1", "exchange with 2"}));
}

TEST_F(TraceFile, SlicesStillNestWhenTheyAreReadBack) {
  trace::start(0, "p");
  for (int i = 0; i < 200; ++i) {
    const trace::Scope outer("outer");
    // begins and ends within a fraction of a microsecond of the other
    const trace::Scope inner("inner");
  }
  const auto events = written();
  const auto outer = named(events, "outer"), inner = named(events, "inner");
  ASSERT_EQ(outer.size(), inner.size());
  for (std::size_t i = 0; i < outer.size(); ++i) {
    const double begin = outer[i].at("ts"), in = inner[i].at("ts");
    EXPECT_LE(begin, in);
    EXPECT_GE(begin + outer[i].at("dur").get<double>(), in + inner[i].at("dur").get<double>());
  }
}

TEST_F(TraceFile, CarriesAHeaderAndOneEventALine) {
  trace::start(0, "p");
  { const trace::Scope scope("work"); }
  trace::write(path, "{\"rank\": 5}");
  std::ifstream file(path);
  std::string first;
  std::getline(file, first);
  EXPECT_EQ(nlohmann::json::parse(first + "]}").at("otherData").at("rank"), 5);
  int work = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with(",")) line.pop_back();
    const auto event = nlohmann::json::parse(line, nullptr, false);
    work += event.is_object() && event.at("name") == "work" ? 1 : 0;
  }
  EXPECT_EQ(work, 1);
}

TEST(TraceClock, NeverStepsBackAndBelongsToTheMonotonicClockPlusItsEpoch) {
  const double epoch = trace::epoch_us();
  double last = trace::now_us();
  for (int i = 0; i < 1000; ++i) {
    const double now = trace::now_us();
    EXPECT_GE(now, last);
    last = now;
  }
  EXPECT_EQ(trace::epoch_us(), epoch);
  const double monotonic =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
  EXPECT_NEAR(monotonic + epoch, trace::now_us(), 1e6);
  EXPECT_EQ(epoch, std::floor(epoch)) << "adding it must not round";
}

TEST_F(TraceFile, StaysJsonWhateverTheProcessIsCalledAndTheCounterHolds) {
  trace::start(0, "rank \"0\"\\\n");
  trace::counter("loss", std::numeric_limits<double>::quiet_NaN());
  const auto events = written();
  EXPECT_EQ(named(events, "process_name").at(0).at("args").at("name"), "rank \"0\"\\\n");
}

TEST_F(TraceFile, RecordsFromManyThreadsAtOnce) {
  trace::start(0, "p");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) const trace::Scope scope("work", i);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(named(written(), "work").size(), 800u);
}

TEST_F(TraceFile, ThatCannotBeWrittenIsAnErrorWithItsPath) {
  trace::start(0, "p");
  try {
    trace::write("/nonexistent-folder/trace.json");
    FAIL();
  } catch (const IoError& e) {
    EXPECT_NE(std::string(e.what()).find("/nonexistent-folder"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace gossamer
