// Real processes that join a training, leave it and are killed, in random order; and many that
// begin at once.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "dist/net/harness.h"
#include "dist/workers.h"
#include "gossamer/core/random.h"
#include "gossamer/dist/graph/graph.h"

namespace gossamer::dist::testing {
namespace {

using Say = std::function<void(const std::string&)>;
constexpr int kPlaces = 8, kFounders = 3;
volatile std::sig_atomic_t asked_to_leave = 0;

// A process that waits long for a core is not dead.
JoinOptions patient() {
  JoinOptions options = quick();
  options.dead_after_s = 30;
  return options;
}

std::unique_ptr<Group> group_of(LaunchInfo info) {
  if (!info.rejoin) {
    info.places = kPlaces;
    return process_group(info, patient());
  }
  LaunchInfo with;
  with.token = kToken;
  for (;;) try {
      return join(enter(with, {"127.0.0.1:" + std::to_string(info.port)}, patient()).place,
                  patient());
    } catch (const PlaceTaken&) {  // two came at once
    }
}

// " (3 sees 0 1 4)": whom its connections reach, for messages.
std::string seen_by(const Group& group) {
  std::string text = " (" + std::to_string(group.rank()) + " sees";
  for (const int r : group.alive())
    if (r != group.rank()) text += " " + std::to_string(r);
  return text + ")";
}

// Trains until it is asked to leave by SIGTERM. Says how many train together, whenever that
// changes.
void comes_and_goes(const char* name, const LaunchInfo& info, const Say& say) {
  std::signal(SIGTERM, [](int) { asked_to_leave = 1; });
  const auto group = group_of(info);
  Quadratic q(group->rank(), 40);
  MethodOptions options;
  options.rejoin = info.rejoin;
  options.seed = 5;
  if (std::string(name) == "diloco") options.settings.set("period", i64{4});
  const auto method =
      make_method(name, q.params, q.sgd, *group, make_graph("ring", group->size()), options);
  for (int alive = 0; !asked_to_leave;) {
    q.gradient(.01f);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    method->step(.05);
    if (const int now = method->stats().alive; now != alive)
      say("alive " + std::to_string(alive = now) + seen_by(*group));
  }
  say("left");
}
const RegisterRole r1("comes-and-goes-a2cid2", [](const LaunchInfo& info, const Say& say) {
  comes_and_goes("a2cid2", info, say);
});
const RegisterRole r2("comes-and-goes-diloco", [](const LaunchInfo& info, const Say& say) {
  comes_and_goes("diloco", info, say);
});

struct Member {
  std::unique_ptr<Worker> process;
  bool joined = false;
  // Whether it says that so many train together, at last. What it said before is read as well.
  bool counts(int alive, double seconds = 60) {
    const std::string wanted = "alive " + std::to_string(alive) + " ";
    for (const double end = now_s() + seconds; !said.starts_with(wanted) && now_s() < end;)
      if (const std::string line = process->line(seconds / 60); !line.empty() && line != "done")
        said = line;
    return said.starts_with(wanted);
  }
  std::string said;
};

class ComeAndGo : public ::testing::TestWithParam<const char*> {};

// GOSSAMER_STRESS_PROCESSES: so many events. Now and then one dies while another comes.
TEST_P(ComeAndGo, ProcessesInRandomOrderAndAllCountTheSame) {
  const std::string role = std::string("comes-and-goes-") + GetParam();
  const char* given = std::getenv("GOSSAMER_STRESS_PROCESSES");
  const int events = given ? std::atoi(given) : 30;
  const int port = free_port();
  std::deque<Member> members;
  for (int r = 0; r < kFounders; ++r)
    members.push_back({std::make_unique<Worker>(role, place(r, kFounders, port)), false, ""});
  for (Member& m : members) ASSERT_TRUE(m.counts(kFounders)) << m.said;
  LaunchInfo comer = place(0, 1, port);
  comer.rejoin = true;
  Rng random(given ? 5 : 3);
  int joins = 0, deaths = 0, leaves = 0;
  for (int event = 0; event < events; ++event) {
    const auto count = static_cast<std::uint32_t>(members.size());
    // the places of those that began stay theirs
    const auto joined = std::ranges::count(members, true, &Member::joined);
    const bool comes = count < 3 || (joined < kPlaces - kFounders && random.below(2) == 0);
    if (comes) {
      members.push_back({std::make_unique<Worker>(role, comer), true, ""});
      ++joins;
    }
    const bool at_once = comes && count > 2 && random.below(3) == 0;
    if (at_once) std::this_thread::sleep_for(std::chrono::milliseconds(random.below(60)));
    if (!comes || at_once) {  // any but worker 0, whose address those that come know
      const auto goes = members.begin() + 1 + random.below(count - 1);
      if (at_once || random.below(2) == 0) {
        goes->process->signal(SIGKILL);
        ++deaths;
      } else {
        goes->process->signal(SIGTERM);
        EXPECT_EQ(goes->process->wait(), 0);
        ++leaves;
      }
      members.erase(goes);
    }
    const int alive = static_cast<int>(members.size());
    bool all = true;
    for (Member& m : members) all = m.counts(alive, all ? 60 : 1) && all;
    std::string said;
    for (const Member& m : members) said += "\n" + m.said;
    ASSERT_TRUE(all) << "event " << event
                     << (comes ? at_once ? ", one comes and one dies" : ", one comes"
                               : ", one goes")
                     << ": " << alive << " live, they say:" << said;
  }
  std::printf("%d joins, %d deaths, %d leaves\n", joins, deaths, leaves);
  EXPECT_GT(joins, 0);
  EXPECT_GT(deaths + leaves, 0);
}

INSTANTIATE_TEST_SUITE_P(Methods, ComeAndGo, ::testing::Values("a2cid2", "diloco"));

void meets_encrypted(const LaunchInfo& info, const Say& say) {
  JoinOptions options = quick();
  options.connect_timeout_s = 120;
  options.collective_timeout_s = 120;
  options.tls = "on";
  const auto group = process_group(info, options);
  say("met " + std::to_string(group->alive().size()));
  std::this_thread::sleep_for(std::chrono::seconds(120));  // until it is killed
}
const RegisterRole r3("meets-encrypted", meets_encrypted);

// The time is printed, not asserted: 2,016 connections, each with its handshake.
TEST(ManyProcesses, SixtyFourMeetOverTls) {
  const int port = free_port();
  const double began = now_s();
  std::deque<Worker> workers;
  for (int r = 0; r < 64; ++r) workers.emplace_back("meets-encrypted", place(r, 64, port));
  for (Worker& w : workers) EXPECT_EQ(w.line(240), "met 64");
  std::printf("64 processes met over TLS in %.2f s\n", now_s() - began);
}

}  // namespace
}  // namespace gossamer::dist::testing
