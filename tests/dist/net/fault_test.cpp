// Real processes that die, freeze and come back. No time is asserted but upper limits far above the
// expected; measured ones are printed.
#include <csignal>
#include <cstdio>
#include <thread>

#include "dist/net/harness.h"
#include "dist/over.h"

namespace gossamer::dist::testing {
namespace {

using Say = std::function<void(const std::string&)>;

JoinOptions process_options() {
  JoinOptions o = quick();
  o.dead_after_s = 2.0;
  o.collective_timeout_s = 20;
  return o;
}

// Says "ready", waits up to 20 s for a death, reports it and goes on with the others.
void watch(const LaunchInfo& info, const Say& say) {
  const auto g = process_group(info, process_options());
  say("ready");
  const double until = now_s() + 20;
  while (now_s() < until) {
    const Event e = g->control().next(Seconds(0.2));
    if (e.kind != Event::Kind::dead) continue;
    std::ostringstream text;
    text.precision(12);
    text << "dead " << e.peer << " at " << now_s() << " " << e.why;
    say(text.str());
    std::vector<int> living = g->alive();
    g->rebuild(living, 1);
    std::vector<double> sum{1.0, static_cast<double>(g->rank())};
    g->collectives().all_reduce_sum(std::span<double>(sum));
    say("sum " + std::to_string(static_cast<int>(sum[0])) + " " +
        std::to_string(static_cast<int>(sum[1])));
    g->collectives().barrier();
    return;
  }
}
const RegisterRole r1("watch", watch);

// In an endless exchange with the neighbour 0-1, 2-3 (large, so that a death finds it in the
// middle); ends when one fails.
void exchange_for_ever(const LaunchInfo& info, const Say& say, bool read_memory) {
  JoinOptions options = process_options();
  options.read_memory = read_memory;
  const auto g = process_group(info, options);
  const int peer = info.rank ^ 1;
  std::vector<float> send(4000000, static_cast<float>(info.rank)), receive(4000000);
  say("ready");
  for (std::uint64_t session = 1; session < 100000; ++session) {
    g->payload().exchange(peer, session, over(send), over(receive), {}, Seconds(60));
    for (;;) {
      const Event e = g->control().next(Seconds(20));
      if (e.kind == Event::Kind::none) throw DistError("the exchange hangs");
      if (e.kind != Event::Kind::exchanged) continue;
      if (e.ok) break;
      std::ostringstream text;
      text.precision(12);
      text << "failed at " << now_s() << " " << e.why;
      say(text.str());
      return;
    }
  }
}
const RegisterRole r2("exchange",
                      [](auto& info, auto& say) { exchange_for_ever(info, say, true); });
const RegisterRole r4("exchange-tcp",
                      [](auto& info, auto& say) { exchange_for_ever(info, say, false); });

void reduce_for_ever(const LaunchInfo& info, const Say& say) {
  const auto g = process_group(info, process_options());
  std::vector<float> values(2000000, 1);
  say("ready");
  for (;;) {
    try {
      g->collectives().all_reduce_sum(over(values));
      std::fill(values.begin(), values.end(), 1.f);
    } catch (const DistError& e) {
      std::ostringstream text;
      text.precision(12);
      text << "failed at " << now_s() << " " << e.what();
      say(text.str());
      g->rebuild(g->alive(), 1);
      std::fill(values.begin(), values.end(), 1.f);
      g->collectives().all_reduce_sum(over(values));
      say("sum " + std::to_string(static_cast<int>(values[0])) + " " +
          std::to_string(static_cast<int>(values.back())));
      g->collectives().barrier();
      return;
    }
  }
}
const RegisterRole r3("reduce", reduce_for_ever);

std::vector<std::unique_ptr<Worker>> start(const std::string& role, int n) {
  const int port = free_port();
  std::vector<std::unique_ptr<Worker>> workers;
  for (int r = 0; r < n; ++r) workers.push_back(std::make_unique<Worker>(role, place(r, n, port)));
  for (auto& w : workers) EXPECT_EQ(w->line(), "ready");
  return workers;
}

double time_in(const std::string& line) {
  const auto at = line.find(" at ");
  return at == std::string::npos ? 1e30 : std::atof(line.c_str() + at + 4);
}

TEST(Faults, AKilledWorkerIsNoticedByAllAndTheOthersGoOn) {
  auto workers = start("watch", 4);
  const double killed = now_s();
  workers[2]->signal(SIGKILL);
  for (int r : {0, 1, 3}) {
    const std::string line = workers[static_cast<std::size_t>(r)]->line();
    EXPECT_EQ(line.rfind("dead 2 at ", 0), 0u) << line;
    std::printf("    worker %d noticed after %.1f ms: %s\n", r, 1000 * (time_in(line) - killed),
                line.c_str());
    EXPECT_LT(time_in(line) - killed, 5.0);
    EXPECT_EQ(workers[static_cast<std::size_t>(r)]->line(), "sum 3 4");
    EXPECT_EQ(workers[static_cast<std::size_t>(r)]->line(), "done");
    EXPECT_EQ(workers[static_cast<std::size_t>(r)]->wait(), 0);
  }
}

TEST(Faults, AFrozenWorkerIsGivenUpAndTheOthersGoOn) {
  auto workers = start("watch", 4);
  const double frozen = now_s();
  workers[1]->signal(SIGSTOP);
  for (int r : {0, 2, 3}) {
    const std::string line = workers[static_cast<std::size_t>(r)]->line();
    EXPECT_EQ(line.rfind("dead 1 at ", 0), 0u) << line;
    EXPECT_NE(line.find("no heartbeat for"), std::string::npos) << line;
    std::printf("    worker %d gave it up after %.2f s: %s\n", r, time_in(line) - frozen,
                line.c_str());
    EXPECT_LT(time_in(line) - frozen, 10.0);
    EXPECT_EQ(workers[static_cast<std::size_t>(r)]->line(), "sum 3 5");
    EXPECT_EQ(workers[static_cast<std::size_t>(r)]->line(), "done");
  }
}

TEST(Faults, AStopOfTheWholeJobKillsNobody) {
  auto workers = start("watch", 3);
  for (auto& w : workers) w->signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(3500));
  for (auto& w : workers) w->signal(SIGCONT);
  EXPECT_EQ(workers[0]->line(2), "");  // nobody reports a death
  EXPECT_EQ(workers[2]->line(0.01), "");
}

TEST(Faults, ADeathInTheMiddleOfAnExchangeEndsIt) {
  for (int trial = 0; trial < 6; ++trial) {
    auto workers = start(trial < 3 ? "exchange" : "exchange-tcp", 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(300 + 37 * trial));
    const double killed = now_s();
    workers[1]->signal(SIGKILL);
    const std::string line = workers[0]->line();
    EXPECT_EQ(line.rfind("failed at ", 0), 0u) << line;
    EXPECT_LT(time_in(line) - killed, 10.0);  // otherwise its time-out of 60 s
    std::printf("    after %.1f ms: %s\n", 1000 * (time_in(line) - killed), line.c_str());
    EXPECT_EQ(workers[3]->line(0.3), "");  // the other pair goes on
  }
}

TEST(Faults, ADeathInTheMiddleOfAnAllReduceEndsIt) {
  for (int trial = 0; trial < 2; ++trial) {
    auto workers = start("reduce", 4);
    std::this_thread::sleep_for(std::chrono::milliseconds(400 + 53 * trial));
    const double killed = now_s();
    workers[3]->signal(SIGKILL);
    for (int r : {0, 1, 2}) {
      const std::string line = workers[static_cast<std::size_t>(r)]->line();
      EXPECT_EQ(line.rfind("failed at ", 0), 0u) << line;
      EXPECT_NE(line.find("worker 3 is gone"), std::string::npos) << line;
      EXPECT_LT(time_in(line) - killed, 10.0);
      std::printf("    worker %d after %.1f ms: %s\n", r, 1000 * (time_in(line) - killed),
                  line.c_str());
      EXPECT_EQ(workers[static_cast<std::size_t>(r)]->line(), "sum 3 3");
      EXPECT_EQ(workers[static_cast<std::size_t>(r)]->line(), "done");
    }
  }
}

}  // namespace
}  // namespace gossamer::dist::testing
