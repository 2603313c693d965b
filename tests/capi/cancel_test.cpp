// Calls that last are ended by another thread, and what they worked with is as the header says.
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <mutex>
#include <sstream>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "capi/bitmap.h"
#include "capi/calls.h"
#include "gossamer/apps/capi/gossamer.h"
#include "support/temp_folder.h"

namespace gossamer {
namespace {

class CCancel : public InTempFolder {
 protected:
  void SetUp() override {
    InTempFolder::SetUp();
    MUST(gsm_cancel_new(&cancel_));
  }
  void TearDown() override {
    EXPECT_EQ(gsm_cancel_use(nullptr), GSM_OK);
    EXPECT_EQ(gsm_cancel_free(cancel_), GSM_OK);
    InTempFolder::TearDown();
  }
  // Frees a handle that a cancelled call may still hold.
  template <class F>
  static void free_when_it_is_left(F free) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(5);
    gsm_status status = GSM_ERROR_BUSY;
    while ((status = free()) == GSM_ERROR_BUSY && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(status, GSM_OK) << gsm_last_error();
  }
  static gsm_trainer* new_trainer(double ema = 0) {
    gsm_trainer_options o{};
    o.struct_size = sizeof o;
    o.seed = 3;
    o.ema = ema;
    gsm_trainer* trainer = nullptr;
    EXPECT_EQ(gsm_trainer_new("resnet8-cifar", 2, &o, &trainer), GSM_OK) << gsm_last_error();
    return trainer;
  }
  gsm_status gradient(gsm_trainer* trainer, float* loss) {
    const std::vector<uint8_t> pixels(2 * 192, 90);
    const int32_t labels[] = {0, 1};
    return gsm_trainer_gradient(trainer, pixels.data(), labels, 2, 8, 8, loss);
  }

  gsm_cancel* cancel_ = nullptr;
};

sockaddr_in local(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = local(0);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size), 0);
  ::close(socket);
  return ntohs(address.sin_port);
}

// As the kernel says: a call at the port would wake who listens.
bool somebody_listens(int port) {
  std::ostringstream wanted;
  wanted << ':' << std::uppercase << std::hex << std::setfill('0') << std::setw(4) << port
         << " 00000000:0000 0A";
  return contents("/proc/net/tcp").find(wanted.str()) != std::string::npos;
}

TEST_F(CCancel, AJoinThatWaitsForOthersEnds) {
  std::atomic<bool> ended = false;
  const int port = free_port();
  std::thread joins([&] {
    EXPECT_EQ(gsm_cancel_use(cancel_), GSM_OK);
    gsm_join_options o{};
    o.struct_size = sizeof o;
    o.size = 2;
    o.host = "127.0.0.1";
    o.port = port;
    o.token = "00112233445566778899aabbccddeeff";
    gsm_group* group = nullptr;
    // Its deadline would make it an error of workers.
    EXPECT_EQ(gsm_group_join_with(&o, &group), GSM_CANCELLED) << gsm_last_error();
    EXPECT_EQ(group, nullptr);
    ended = true;
  });
  while (!somebody_listens(port) && !ended)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(ended);
  EXPECT_EQ(gsm_cancel_set(cancel_, 1), GSM_OK);
  joins.join();
  // Taken back at once: its place is given up all the same, so that another try may take it.
  EXPECT_EQ(gsm_cancel_set(cancel_, 0), GSM_OK);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (somebody_listens(port) && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(somebody_listens(port));
}

TEST_F(CCancel, AFinishThatWaitsForAnotherWorkerEnds) {
  gsm_group* groups[2];
  MUST(gsm_group_local(2, groups));
  float x[2] = {0, 4};
  gsm_gossip* gossips[2] = {};
  const auto make = [&](int rank) {
    EXPECT_EQ(gsm_gossip_new(groups[rank], &x[rank], 1, "a2cid2", "ring", nullptr, &gossips[rank]),
              GSM_OK)
        << gsm_last_error();
  };
  std::thread other(make, 1);
  make(0);
  other.join();
  EXPECT_EQ(x[0], 2);  // the mean
  std::thread finishes([&] {
    EXPECT_EQ(gsm_cancel_use(cancel_), GSM_OK);
    gsm_status status = GSM_ERROR_BUSY;  // while the other thread asks
    while (status == GSM_ERROR_BUSY) status = gsm_gossip_finish(gossips[0]);
    EXPECT_EQ(status, GSM_CANCELLED) << gsm_last_error();
  });
  // Until it waits: while a call works with a handle, others are told so.
  gsm_gossip_stats_t stats{};
  stats.struct_size = sizeof stats;
  while (gsm_gossip_stats(gossips[0], &stats) != GSM_ERROR_BUSY)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  MUST(gsm_cancel_set(cancel_, 1));
  finishes.join();
  EXPECT_EQ(gsm_gossip_finish(gossips[0]), GSM_ERROR_BUSY);
  EXPECT_THAT(gsm_last_error(), testing::HasSubstr("a cancelled call that still waits"));
  EXPECT_EQ(gsm_shutdown(), GSM_ERROR_BUSY);
  // What was left goes on by itself: the other worker meets it.
  MUST(gsm_gossip_finish(gossips[1]));
  for (int i = 0; i < 2; ++i) {
    free_when_it_is_left([&] { return gsm_gossip_free(gossips[i]); });
    free_when_it_is_left([&] { return gsm_group_free(groups[i]); });
  }
}

TEST_F(CCancel, AStepWithATokenIsTheSameStep) {
  gsm_group* group = nullptr;
  MUST(gsm_group_local(1, &group));
  float x[3] = {1, 2, 3};
  const float update[3] = {.5F, .5F, .5F};
  MUST(gsm_cancel_use(cancel_));
  gsm_gossip* gossip = nullptr;
  MUST(gsm_gossip_new(group, x, 3, "a2cid2", "ring", nullptr, &gossip));
  MUST(gsm_gossip_step(gossip, update));
  EXPECT_EQ(x[2], 2.5F);
  const float wrong[3] = {1, NAN, 1};
  EXPECT_EQ(gsm_gossip_step(gossip, wrong), GSM_ERROR_ARGUMENT);
  MUST(gsm_cancel_set(cancel_, 1));
  EXPECT_EQ(gsm_gossip_step(gossip, update), GSM_CANCELLED);
  EXPECT_EQ(x[2], 2.5F);
  MUST(gsm_cancel_set(cancel_, 0));
  MUST(gsm_gossip_step(gossip, update));
  EXPECT_EQ(x[2], 2);
  MUST(gsm_gossip_finish(gossip));
  MUST(gsm_gossip_free(gossip));
  MUST(gsm_group_free(group));
}

TEST_F(CCancel, AComputationThatGoesOnEnds) {
  gsm_trainer* trainer = new_trainer();
  std::mutex mutex;
  std::condition_variable changed;
  bool computes = false;
  std::thread trains([&] {
    EXPECT_EQ(gsm_cancel_use(cancel_), GSM_OK);
    gsm_status status = GSM_OK;
    while (status == GSM_OK) {
      float loss = 0;
      status = gradient(trainer, &loss);
      const std::scoped_lock lock(mutex);
      computes = true;
      changed.notify_all();
    }
    EXPECT_EQ(status, GSM_CANCELLED) << gsm_last_error();
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return computes; });
  }
  MUST(gsm_cancel_set(cancel_, 1));
  trains.join();
  EXPECT_EQ(gsm_trainer_step(trainer, .1), GSM_ERROR_CONFIG);  // the gradient is gone
  gsm_trainer* fresh = new_trainer();
  float loss = 0, same = 0;
  MUST(gradient(trainer, &loss));
  MUST(gradient(fresh, &same));
  EXPECT_EQ(loss, same);
  MUST(gsm_trainer_free(trainer));
  MUST(gsm_trainer_free(fresh));
}

TEST_F(CCancel, AnEvaluationOfTheAverageLeavesTheModelInItsPlace) {
  gsm_trainer* trainer = new_trainer(.5);
  float loss = 0;
  for (int i = 0; i < 2; ++i) {
    MUST(gradient(trainer, &loss));
    MUST(gsm_trainer_step(trainer, .1));
  }
  int64_t bias = 0, right = 0;
  MUST(gsm_trainer_parameter_find(trainer, "fc.bias", &bias));
  float before[2], after[2];
  MUST(gsm_trainer_parameter_read(trainer, bias, GSM_VALUE, before, 2));
  MUST(gsm_cancel_use(cancel_));
  MUST(gsm_cancel_set(cancel_, 1));
  const std::vector<uint8_t> pixels(192, 90);
  const int32_t label = 0;
  EXPECT_EQ(gsm_trainer_evaluate_average(trainer, pixels.data(), &label, 1, 8, 8, &right, &loss),
            GSM_CANCELLED);
  MUST(gsm_cancel_use(nullptr));
  MUST(gsm_trainer_parameter_read(trainer, bias, GSM_VALUE, after, 2));
  EXPECT_EQ(before[0], after[0]);
  EXPECT_EQ(before[1], after[1]);
  MUST(gsm_trainer_free(trainer));
}

TEST_F(CCancel, ALoaderLosesNoPicture) {
  std::filesystem::create_directory(file("a"));
  for (int i = 0; i < 5; ++i)
    std::ofstream(file("a/" + std::to_string(i) + ".bmp"), std::ios::binary) << bitmap();
  const std::string folder = file("").string();
  const char* paths[] = {folder.c_str()};
  gsm_dataset* set = nullptr;
  MUST(gsm_dataset_open(paths, 1, &set));
  gsm_loader_options o{};
  o.struct_size = sizeof o;
  o.batch = 2;
  o.in_order = 1;
  gsm_loader* loader = nullptr;
  MUST(gsm_loader_new(set, &o, &loader));
  std::vector<uint8_t> images(2 * 32 * 32 * 3);
  int32_t labels[2];
  int64_t n = 0, all = 0;
  MUST(gsm_cancel_use(cancel_));
  do {
    MUST(gsm_cancel_set(cancel_, 1));
    EXPECT_EQ(gsm_loader_next(loader, images.data(), labels, &n), GSM_CANCELLED);
    MUST(gsm_cancel_set(cancel_, 0));
    MUST(gsm_loader_next(loader, images.data(), labels, &n));
    all += n;
  } while (n > 0);
  EXPECT_EQ(all, 5);
  MUST(gsm_loader_free(loader));
  MUST(gsm_dataset_free(set));
}

TEST_F(CCancel, AGenerationEndsAndIsNotGoneOnWith) {
  gsm_trainer_options o{};
  o.struct_size = sizeof o;
  o.model_options = "layers=1 width=32 heads=2 positions=16";
  gsm_trainer* trainer = nullptr;
  MUST(gsm_trainer_new("gpt2", 8, &o, &trainer));
  const std::string path = file("m.safetensors").string();
  MUST(gsm_trainer_save(trainer, path.c_str(), nullptr));
  MUST(gsm_trainer_free(trainer));
  gsm_language* language = nullptr;
  MUST(gsm_language_open(path.c_str(), nullptr, &language));
  const int32_t ids[] = {1, 2};
  gsm_generation* generation = nullptr;
  MUST(gsm_generation_new(language, ids, 2, nullptr, &generation));
  int32_t id = 0, done = 0;
  MUST(gsm_generation_next(generation, &id, &done));
  MUST(gsm_cancel_use(cancel_));
  MUST(gsm_cancel_set(cancel_, 1));
  EXPECT_EQ(gsm_generation_next(generation, &id, &done), GSM_CANCELLED);
  double loss = 0, perplexity = 0;
  EXPECT_EQ(gsm_language_perplexity(language, ids, 2, 0, &loss, &perplexity), GSM_CANCELLED);
  MUST(gsm_cancel_set(cancel_, 0));
  EXPECT_EQ(gsm_generation_next(generation, &id, &done), GSM_ERROR_CONFIG);
  MUST(gsm_generation_free(generation));
  MUST(gsm_language_free(language));
}

TEST(CShutdown, FreesAllHandlesAndTheLibraryGoesOn) {
  gsm_trainer* trainer = nullptr;
  gsm_group* group = nullptr;
  MUST(gsm_trainer_new("resnet8-cifar", 2, nullptr, &trainer));
  MUST(gsm_group_local(1, &group));
  // What another test has cancelled may still be ending.
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (gsm_shutdown() == GSM_ERROR_BUSY && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_STREQ(gsm_last_error(), "");
  EXPECT_EQ(gsm_trainer_free(trainer), GSM_ERROR_HANDLE);
  EXPECT_EQ(gsm_group_free(group), GSM_ERROR_HANDLE);
  MUST(gsm_trainer_new("resnet8-cifar", 2, nullptr, &trainer));
  MUST(gsm_trainer_free(trainer));
}

TEST(CCancelMisuse, IsTold) {
  EXPECT_EQ(gsm_cancel_new(nullptr), GSM_ERROR_ARGUMENT);
  gsm_cancel* cancel = nullptr;
  MUST(gsm_cancel_new(&cancel));
  gsm_cancel* const freed = cancel;
  MUST(gsm_cancel_free(cancel));
  EXPECT_EQ(gsm_cancel_use(freed), GSM_ERROR_HANDLE);
  EXPECT_EQ(gsm_cancel_set(freed, 1), GSM_ERROR_HANDLE);
}

}  // namespace
}  // namespace gossamer
