// A network of one's own in three processes, of which one is killed and started again.
#include <atomic>
#include <csignal>
#include <cstring>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "capi/calls.h"
#include "capi/processes.h"
#include "gossamer/apps/capi/gossamer.h"
#include "support/free_port.h"

namespace gossamer {
namespace {

constexpr std::size_t kNumbers = 2 * 8 + 8 + 8 + 1;

// Learns x0 x1 from points of its own. It writes a byte in the middle, and at last the network.
struct Worker {
  int rank, port, out;
  bool restarted;
  std::atomic<bool> returned{false};

  int run() {
    gsm_gossip_options options{};
    options.struct_size = sizeof options;
    options.user = this;
    options.on_fault = [](const char* what, int32_t peer, void* user) {
      if (peer == 2 && !std::strcmp(what, "joined")) static_cast<Worker*>(user)->returned = true;
    };
    gsm_group* group = nullptr;
    gsm_module* net = nullptr;
    gsm_params* params = nullptr;
    gsm_optimizer* sgd = nullptr;
    gsm_method* training = nullptr;
    if (!join_three(rank, port, restarted, &group) ||
        !ok(gsm_module_new("linear in=2 out=8; tanh; linear in=8 out=1", 5, &net)) ||
        !ok(gsm_params_new(&params)) || !ok(gsm_params_add_module(params, "net", net)) ||
        !ok(gsm_optimizer_new(params, "sgd", "momentum=0", &sgd)) ||
        !ok(gsm_method_new_for(sgd, group, "a2cid2", "ring", &options, &training)))
      return kError;
    const char middle = 'm';
    for (int left = 400, step = 0; left > 0; ++step) {
      const Scope scope;
      const auto seed = static_cast<uint64_t>(3 * step + rank);
      gsm_tensor* const x = normal({8, 2}, seed);
      gsm_tensor* const y = op(gsm_mul, op(gsm_slice, x, 1, int64_t{0}, int64_t{1}),
                               op(gsm_slice, x, 1, int64_t{1}, int64_t{2}));
      gsm_tensor* const loss = op(gsm_mse, op(gsm_module_forward, net, x, 1), y);
      if (!ok(gsm_params_zero_grad(params)) || !ok(gsm_backward(loss)) ||
          !ok(gsm_method_step(training, .05)))
        return kError;
      usleep(200);
      if (step == 200) {
        if (write_bytes(&middle, 1) != kWell) return kError;
        if (rank == 2 && !restarted)
          for (;;) pause();  // until it is killed
      }
      if (restarted || returned) --left;
    }
    if (!ok(gsm_method_finish(training))) return kError;
    float numbers[kNumbers];
    std::size_t at = 0;
    for (int64_t i = 0; i < 4; ++i)
      for (const float v : read(op(gsm_params_tensor, params, i))) numbers[at++] = v;
    if (write_bytes(numbers, sizeof numbers) != kWell) return kError;
    // The others hear that it leaves: who exits without that is one that died.
    return ok(gsm_method_free(training)) && ok(gsm_optimizer_free(sgd)) &&
                   ok(gsm_params_free(params)) && ok(gsm_module_free(net)) &&
                   ok(gsm_group_free(group))
               ? kWell
               : kError;
  }
  int write_bytes(const void* bytes, std::size_t size) const {
    return ::write(out, bytes, size) == static_cast<ssize_t>(size) ? kWell : kError;
  }
};

Process start(int rank, int port, bool restarted) {
  return start_process([=](int out) {
    Worker worker{rank, port, out, restarted};
    return worker.run();
  });
}

TEST(OwnProcesses, AKilledWorkerIsStartedAgainAndAllEndWithOneNetwork) {
  const int port = gossamer::testing::free_port();
  Process workers[3];
  for (int rank = 0; rank < 3; ++rank) workers[rank] = start(rank, port, false);
  char middle = 0;
  for (const Process& p : workers) ASSERT_EQ(::read(p.in, &middle, 1), 1);
  ASSERT_EQ(kill(workers[2].id, SIGKILL), 0);
  ASSERT_EQ(waitpid(workers[2].id, nullptr, 0), workers[2].id);
  close(workers[2].in);
  workers[2] = start(2, port, true);
  float numbers[3][kNumbers] = {};
  for (int rank = 0; rank < 3; ++rank) {
    const Process& p = workers[rank];
    if (rank == 2) {
      EXPECT_EQ(::read(p.in, &middle, 1), 1);
    }
    EXPECT_EQ(::read(p.in, numbers[rank], sizeof numbers[rank]),
              static_cast<ssize_t>(sizeof numbers[rank]));
    int status = 0;
    ASSERT_EQ(waitpid(p.id, &status, 0), p.id);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), kWell) << "worker " << rank;
    close(p.in);
    EXPECT_EQ(std::memcmp(numbers[rank], numbers[0], sizeof numbers[0]), 0) << "worker " << rank;
  }
}

}  // namespace
}  // namespace gossamer
