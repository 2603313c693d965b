// A process that joins a group which has begun, by the C API.
#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <sys/wait.h>

#include "capi/calls.h"
#include "capi/processes.h"
#include "gossamer/apps/capi/gossamer.h"
#include "support/free_port.h"

namespace gossamer {
namespace {

constexpr const char* kToken = "00112233445566778899aabbccddeeff";
constexpr int kFounders = 2;

// Two that begin, or one that comes later (rank 2 here; what it is there it is told).
struct Worker {
  const char* method;
  int rank, port, out;
  std::atomic<bool> somebody_came{false};

  bool join(gsm_group** group) const {
    gsm_join_options options{};
    options.struct_size = sizeof options;
    options.token = kToken;
    options.dead_after_s = 60;  // not for want of a core
    const std::string founder = "127.0.0.1:" + std::to_string(port);
    if (rank < kFounders) {
      options.rank = rank;
      options.size = kFounders;
      options.host = "127.0.0.1";
      options.port = port;
      options.places = kFounders + 1;
    } else {
      options.join = founder.c_str();
    }
    int32_t own = -1, size = 0;
    return ok(gsm_group_join_with(&options, group)) && ok(gsm_group_rank(*group, &own, &size)) &&
           own == rank && size == kFounders;
  }

  int run() {
    gsm_group* group = nullptr;
    if (!join(&group)) return kError;
    gsm_gossip_options options{};
    options.struct_size = sizeof options;
    options.settings = std::strcmp(method, "diloco") ? nullptr : "period=8";
    options.user = this;
    options.on_fault = [](const char* what, int32_t peer, void* user) {
      if (peer == kFounders && !std::strcmp(what, "joined"))
        static_cast<Worker*>(user)->somebody_came = true;
    };
    float x[2] = {100, 100};
    if (rank < kFounders) x[0] = x[1] = static_cast<float>(rank);
    gsm_gossip* gossip = nullptr;
    if (!ok(gsm_gossip_new(group, x, 2, method, "ring", &options, &gossip))) return kError;
    // It goes on from where another one is, which has walked towards 50.
    if (rank >= kFounders && !(x[0] > 10 && x[0] < 55)) {
      fprintf(stderr, "it begins at %g\n", static_cast<double>(x[0]));
      return kStart;
    }
    const char middle = 'm';
    for (int left = 400, step = 0; left > 0; ++step) {
      const float update[2] = {.1f * (x[0] - 50), .1f * (x[1] - 50)};
      if (!ok(gsm_gossip_step(gossip, update))) return kError;
      usleep(200);
      if (step == 200 && ::write(out, &middle, 1) != 1) return kError;
      if (rank >= kFounders || somebody_came) --left;
    }
    if (!ok(gsm_gossip_finish(gossip)) || ::write(out, x, sizeof x) != sizeof x) return kError;
    return ok(gsm_gossip_free(gossip)) && ok(gsm_group_free(group)) ? kWell : kError;
  }
};

class CJoining : public ::testing::TestWithParam<const char*> {};

TEST_P(CJoining, AWorkerThatJoinsTakesPart) {
  const int port = gossamer::testing::free_port();
  Process workers[kFounders + 1];
  const auto start = [&](int rank) {
    workers[rank] = start_process([=](int out) {
      Worker worker{GetParam(), rank, port, out};
      return worker.run();
    });
    char middle = 0;
    if (rank >= kFounders) {
      EXPECT_EQ(::read(workers[rank].in, &middle, 1), 1);
    }
  };
  for (int rank = 0; rank < kFounders; ++rank) start(rank);
  char middle = 0;
  for (int rank = 0; rank < kFounders; ++rank)
    ASSERT_EQ(::read(workers[rank].in, &middle, 1), 1) << "worker " << rank;
  start(kFounders);
  for (const Process& p : workers) {
    float x[2] = {};
    EXPECT_EQ(::read(p.in, x, sizeof x), static_cast<ssize_t>(sizeof x));
    int status = 0;
    ASSERT_EQ(waitpid(p.id, &status, 0), p.id);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), kWell);
    close(p.in);
    EXPECT_NEAR(x[0], 50, 5);
    EXPECT_NEAR(x[1], 50, 5);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, CJoining, ::testing::Values("a2cid2", "diloco"),
                         [](const auto& test) { return std::string(test.param); });

TEST(CJoiningRefused, SaysWhy) {
  gsm_group* group = nullptr;
  gsm_join_options options{};
  options.struct_size = sizeof options;
  options.token = kToken;
  options.join = "nowhere";
  EXPECT_EQ(gsm_group_join_with(&options, &group), GSM_ERROR_CONFIG);
  EXPECT_THAT(gsm_last_error(), ::testing::HasSubstr("nowhere"));
  // A group without places for others.
  const int port = gossamer::testing::free_port();
  const std::string founder = "127.0.0.1:" + std::to_string(port);
  gsm_group* groups[2] = {};
  std::thread threads[2];
  for (int rank = 0; rank < 2; ++rank)
    threads[rank] = std::thread([&, rank] {
      EXPECT_EQ(gsm_group_join(rank, 2, "127.0.0.1", port, kToken, &groups[rank]), GSM_OK);
    });
  for (std::thread& t : threads) t.join();
  options.join = founder.c_str();
  options.join_timeout_s = 20;
  EXPECT_EQ(gsm_group_join_with(&options, &group), GSM_ERROR_WORKERS);
  EXPECT_THAT(gsm_last_error(), ::testing::HasSubstr("no places for workers that join later"));
  for (gsm_group* each : groups) EXPECT_EQ(gsm_group_free(each), GSM_OK);
  options.join = nullptr;
  options.host = "127.0.0.1";
  options.port = port;
  options.size = 3;
  options.places = 2;
  EXPECT_EQ(gsm_group_join_with(&options, &group), GSM_ERROR_ARGUMENT);
  EXPECT_THAT(gsm_last_error(), ::testing::HasSubstr("places 2 for 3 workers"));
}

}  // namespace
}  // namespace gossamer
