// The C API in several processes: a worker is killed and started again; and its threads leave
// signals to the host.
#include "capi/processes.h"

#include <atomic>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capi/bitmap.h"
#include "gossamer/apps/capi/gossamer.h"
#include "support/free_port.h"

namespace gossamer {
namespace {

// Names of the other threads of this process that a signal for the process may interrupt.
std::string threads_that_take_signals() {
  std::string names;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream status(task.path() / "status");
    std::string name;
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Name:")) name = line.substr(6);
      if (!line.starts_with("SigBlk:")) continue;
      const std::uint64_t blocked = std::stoull(line.substr(8), nullptr, 16);
      for (const int signal : {SIGINT, SIGTERM, SIGALRM, SIGUSR1, SIGCHLD, SIGPIPE})
        if (!(blocked >> (signal - 1) & 1)) names += name + " takes " + strsignal(signal) + "; ";
      // its own mistakes go to the host's handler
      if (blocked >> (SIGSEGV - 1) & 1) names += name + " blocks SIGSEGV; ";
    }
  }
  return names;
}

int threads_now() {
  int count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

// A worker of three, in a process of its own. What it returns is its exit status.
struct Worker {
  int rank, port;
  int out;  // a pipe: a byte in the middle of training, at last x
  bool restarted;

  std::atomic<bool> returned{false};

  int run() {
    gsm_group* group = nullptr;
    if (!join_three(rank, port, restarted, &group)) return kError;
    gsm_gossip_options options{};
    options.struct_size = sizeof options;
    options.user = this;
    options.on_fault = [](const char* what, int32_t peer, void* user) {
      if (peer == 2 && !std::strcmp(what, "joined")) static_cast<Worker*>(user)->returned = true;
    };
    float x[2] = {100, 100};
    if (rank < 2 || !restarted) x[0] = x[1] = static_cast<float>(rank);
    gsm_gossip* gossip = nullptr;
    if (!ok(gsm_gossip_new(group, x, 2, "a2cid2", "ring", &options, &gossip))) return kError;
    // It goes on from where another one is, which has walked towards 50.
    if (restarted && !(x[0] > 10 && x[0] < 51)) return kStart;
    const char middle = 'm';
    for (int left = 400, step = 0; left > 0; ++step) {
      const float update[2] = {.1f * (x[0] - 50), .1f * (x[1] - 50)};
      if (!ok(gsm_gossip_step(gossip, update))) return kError;
      usleep(200);
      if (step == 200) {
        if (write(out, &middle, 1) != 1) return kError;
        if (rank == 2 && !restarted)
          for (;;) pause();  // until it is killed
      }
      if (restarted || returned) --left;
    }
    if (threads_now() < 3 || !threads_that_take_signals().empty()) {
      fprintf(stderr, "%d threads: %s\n", threads_now(), threads_that_take_signals().c_str());
      return kSignals;
    }
    if (!ok(gsm_gossip_finish(gossip))) return kError;
    if (write(out, x, sizeof x) != sizeof x) return kError;
    return ok(gsm_gossip_free(gossip)) && ok(gsm_group_free(group)) ? kWell : kError;
  }
};

Process start(int rank, int port, bool restarted) {
  return start_process([=](int out) {
    Worker worker{rank, port, out, restarted};
    return worker.run();
  });
}

TEST(Processes, AKilledWorkerIsStartedAgainAndAllEndWithOneMean) {
  const int port = gossamer::testing::free_port();
  Process workers[3];
  for (int rank = 0; rank < 3; ++rank) workers[rank] = start(rank, port, false);
  char middle = 0;
  for (const Process& p : workers) ASSERT_EQ(read(p.in, &middle, 1), 1);
  ASSERT_EQ(kill(workers[2].id, SIGKILL), 0);
  ASSERT_EQ(waitpid(workers[2].id, nullptr, 0), workers[2].id);
  close(workers[2].in);
  workers[2] = start(2, port, true);
  float x[3][2] = {};
  for (int rank = 0; rank < 3; ++rank) {
    const Process& p = workers[rank];
    if (rank == 2) {
      EXPECT_EQ(read(p.in, &middle, 1), 1);
    }
    EXPECT_EQ(read(p.in, x[rank], sizeof x[rank]), static_cast<ssize_t>(sizeof x[rank]));
    int status = 0;
    ASSERT_EQ(waitpid(p.id, &status, 0), p.id);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), kWell) << "worker " << rank;
    close(p.in);
    EXPECT_EQ(x[rank][0], x[0][0]);
    EXPECT_EQ(x[rank][1], x[0][1]);
  }
  EXPECT_NEAR(x[0][0], 50, 5);
}

// Exits in the moment in which it has the result, without a word to the others, who may still wait
// for each other then.
int train_and_exit(int rank, int port, const char* method, int out) {
  static std::atomic<bool> fault = false;
  gsm_group* group = nullptr;
  if (!join_three(rank, port, false, &group)) return kError;
  gsm_gossip_options options{};
  options.struct_size = sizeof options;
  options.on_fault = [](const char* what, int32_t peer, void*) {
    fprintf(stderr, "%s: worker %d\n", what, static_cast<int>(peer));
    fault = true;
  };
  float x[2] = {static_cast<float>(rank), 1}, update[2] = {};
  gsm_gossip* gossip = nullptr;
  if (!ok(gsm_gossip_new(group, x, 2, method, "ring", &options, &gossip))) return kError;
  for (int step = 0; step < 5; ++step) {
    for (int i = 0; i < 2; ++i) update[i] = .1F * (x[i] - static_cast<float>(rank));
    if (!ok(gsm_gossip_step(gossip, update))) return kError;
  }
  if (!ok(gsm_gossip_finish(gossip)) || fault) return kError;
  return ::write(out, x, sizeof x) == sizeof x ? kWell : kError;
}

TEST(Processes, AWorkerThatExitsWhenItHasFinishedCounts) {
  for (int round = 0; round < 6; ++round)
    for (const char* method : {"a2cid2", "allreduce", "dpsgd"}) {
      const int port = gossamer::testing::free_port();
      Process workers[3];
      for (int rank = 0; rank < 3; ++rank)
        workers[rank] =
            start_process([=](int out) { return train_and_exit(rank, port, method, out); });
      float x[3][2] = {};
      for (int rank = 0; rank < 3; ++rank) {
        const Process& p = workers[rank];
        EXPECT_EQ(read(p.in, x[rank], sizeof x[rank]), static_cast<ssize_t>(sizeof x[rank]));
        int status = 0;
        ASSERT_EQ(waitpid(p.id, &status, 0), p.id);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kWell)
            << method << ", worker " << rank;
        close(p.in);
        EXPECT_EQ(x[rank][0], x[0][0]) << method << ", worker " << rank;
        EXPECT_EQ(x[rank][1], x[0][1]) << method << ", worker " << rank;
      }
    }
}

// Threads for kernels and for batches.
TEST(Processes, SignalsAreTheHosts) {
  const pid_t id = fork();
  if (id == 0) {
    alarm(120);
    const auto must = [](gsm_status status) {
      if (status != GSM_OK) _exit(kError);
    };
    const std::string folder =
        std::filesystem::temp_directory_path() / ("gossamer-signals-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder + "/one");
    std::ofstream(folder + "/one/a.bmp", std::ios::binary) << bitmap();
    gsm_trainer* trainer = nullptr;
    must(gsm_set_threads(3));
    must(gsm_trainer_new("resnet8-cifar", 2, nullptr, &trainer));
    std::vector<std::uint8_t> pixels(8 * 32 * 32 * 3);
    const std::int32_t labels[8] = {};
    float loss = 0;
    must(gsm_trainer_gradient(trainer, pixels.data(), labels, 8, 32, 32, &loss));
    const char* paths[] = {folder.c_str()};
    gsm_dataset* set = nullptr;
    if (gsm_dataset_open(paths, 1, &set) != GSM_OK) {
      fprintf(stderr, "%s\n", gsm_last_error());
      _exit(kError);
    }
    gsm_loader_options options{};
    options.struct_size = sizeof options;
    options.batch = 1;
    options.threads = 2;
    gsm_loader* loader = nullptr;
    must(gsm_loader_new(set, &options, &loader));
    std::filesystem::remove_all(folder);
    fprintf(stderr, "%s", threads_that_take_signals().c_str());
    _exit(threads_now() < 5 || !threads_that_take_signals().empty() ? kSignals : kWell);
  }
  int status = 0;
  ASSERT_EQ(waitpid(id, &status, 0), id);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kWell);
}

// What has threads is an error there, not a call that never returns.
TEST(Processes, AForkedChildGoesOnWithWhatHasNoThreads) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer allows no threads in the child";
#endif
  const auto folder =
      std::filesystem::temp_directory_path() / ("gossamer-fork-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder / "one");
  std::ofstream(folder / "one/a.bmp", std::ios::binary) << bitmap();
  gsm_trainer* trainer = nullptr;
  ASSERT_EQ(gsm_trainer_new("resnet8-cifar", 2, nullptr, &trainer), GSM_OK);
  ASSERT_EQ(gsm_trainer_save(trainer, (folder / "m").c_str(), nullptr), GSM_OK);
  gsm_model* model = nullptr;
  ASSERT_EQ(gsm_model_open((folder / "m").c_str(), &model), GSM_OK);
  const std::vector<std::uint8_t> pixels(4 * 32 * 32 * 3, 77);
  float logits[8];
  ASSERT_EQ(gsm_model_forward_u8(model, pixels.data(), 4, 32, 32, logits), GSM_OK);
  const std::string path = folder.string();
  const char* paths[] = {path.c_str()};
  gsm_dataset* set = nullptr;
  ASSERT_EQ(gsm_dataset_open(paths, 1, &set), GSM_OK) << gsm_last_error();
  gsm_loader_options options{};
  options.struct_size = sizeof options;
  options.batch = 1;
  gsm_loader* loader = nullptr;
  ASSERT_EQ(gsm_loader_new(set, &options, &loader), GSM_OK) << gsm_last_error();
  gsm_group* group = nullptr;
  ASSERT_EQ(gsm_group_local(1, &group), GSM_OK);
  float x[1] = {1};
  gsm_gossip* gossip = nullptr;
  ASSERT_EQ(gsm_gossip_new(group, x, 1, "a2cid2", "ring", nullptr, &gossip), GSM_OK);
  const pid_t id = fork();
  if (id == 0) {
    alarm(120);
    float same[8];
    std::uint8_t image[32 * 32 * 3];
    std::int32_t label = 0, rank = 0;
    std::int64_t n = 0;
    if (gsm_model_forward_u8(model, pixels.data(), 4, 32, 32, same) != GSM_OK) _exit(kError);
    if (std::memcmp(same, logits, sizeof same) != 0) _exit(kStart);
    for (const gsm_status status :
         {gsm_loader_next(loader, image, &label, &n), gsm_loader_free(loader),
          gsm_gossip_step(gossip, x), gsm_gossip_finish(gossip), gsm_gossip_free(gossip),
          gsm_group_rank(group, &rank, &rank), gsm_group_free(group)})
      if (status != GSM_ERROR_CONFIG || !std::strstr(gsm_last_error(), "before a fork"))
        _exit(kSignals);
    if (gsm_dataset_free(set) != GSM_OK || gsm_loader_new(set, &options, &loader) == GSM_OK)
      _exit(kError);
    _exit(gsm_trainer_free(trainer) == GSM_OK && gsm_model_free(model) == GSM_OK ? kWell : kError);
  }
  int status = 0;
  ASSERT_EQ(waitpid(id, &status, 0), id);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), kWell);
  // The parent's go on.
  EXPECT_EQ(gsm_gossip_step(gossip, x), GSM_OK);
  for (const gsm_status freed :
       {gsm_gossip_free(gossip), gsm_group_free(group), gsm_loader_free(loader),
        gsm_dataset_free(set), gsm_model_free(model), gsm_trainer_free(trainer)})
    EXPECT_EQ(freed, GSM_OK);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gossamer
