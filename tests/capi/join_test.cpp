// How workers of programs in C find each other, and what is refused on the way.
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capi/calls.h"
#include "gossamer/apps/capi/gossamer.h"
#include "support/free_port.h"
#include "support/temp_folder.h"

namespace gossamer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

#define REFUSED(call, status, ...)                                \
  do {                                                            \
    ASSERT_EQ(call, status) << gsm_last_error();                  \
    EXPECT_THAT(gsm_last_error(), ::testing::AllOf(__VA_ARGS__)); \
  } while (false)

using CJoin = InTempFolder;

gsm_join_options one_of_two(int rank, int port) {
  gsm_join_options options{};
  options.struct_size = sizeof options;
  options.rank = rank;
  options.size = 2;
  options.host = "127.0.0.1";
  options.port = port;
  options.token = "00112233445566778899aabbccddeeff";
  options.join_timeout_s = 20;
  return options;
}

TEST_F(CJoin, ATokenThatIsNoneIsRefused) {
  gsm_group* group = nullptr;
  auto options = one_of_two(0, gossamer::testing::free_port());
  options.token = "swordfish";
  REFUSED(gsm_group_join_with(&options, &group), GSM_ERROR_CONFIG,
          AllOf(HasSubstr("the token holds at most 42 bits"), HasSubstr("openssl rand -hex 16")));
  REFUSED(gsm_group_join(0, 2, "127.0.0.1", options.port, "swordfish", &group), GSM_ERROR_CONFIG,
          HasSubstr("the token holds at most 42 bits"));
  const std::string path = file("token");
  std::ofstream(path) << "00112233445566778899aabbccddeeff\n";
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  options.token_file = path.c_str();
  REFUSED(gsm_group_join_with(&options, &group), GSM_ERROR_ARGUMENT,
          HasSubstr("token and token_file are both given"));
  options.token = nullptr;
  REFUSED(gsm_group_join_with(&options, &group), GSM_ERROR_CONFIG,
          AllOf(HasSubstr("token_file=" + path + " has mode 0644"), HasSubstr("chmod 600")));
  options.token_file = nullptr;
  options.host = "10.255.255.1";
  REFUSED(gsm_group_join_with(&options, &group), GSM_ERROR_CONFIG,
          AllOf(HasSubstr("no secret that keeps strangers out"), HasSubstr("open=true")));
}

// The file holds the secret of both; without one, a secret of this user does for the loopback.
TEST_F(CJoin, WorkersMeetByATokenFileByTheUsersSecretAndOpenly) {
  const std::string path = file("token");
  std::ofstream(path) << "00112233445566778899aabbccddeeff\n";
  std::filesystem::permissions(path, std::filesystem::perms(0600));
  for (const char* by : {"file", "user", "open"}) {
    const int port = gossamer::testing::free_port();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        auto options = one_of_two(rank, port);
        options.token = nullptr;
        options.token_file = *by == 'f' ? path.c_str() : nullptr;
        options.open = *by == 'o';
        gsm_group* group = nullptr;
        EXPECT_EQ(gsm_group_join_with(&options, &group), GSM_OK) << by << gsm_last_error();
        EXPECT_EQ(gsm_group_free(group), GSM_OK);
      });
    for (std::thread& thread : threads) thread.join();
  }
}

// They sum over links that are encrypted; "off" is not "on", and anything else is refused.
TEST_F(CJoin, WorkersEncryptWhereTheyAreAskedTo) {
  for (const char* both : {"on", "off"}) {
    const int port = gossamer::testing::free_port();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([=] {
        auto options = one_of_two(rank, port);
        options.tls = both;
        gsm_group* group = nullptr;
        MUST(gsm_group_join_with(&options, &group));
        float x[] = {1.f + static_cast<float>(rank)};
        gsm_gossip* gossip = nullptr;
        EXPECT_EQ(gsm_gossip_new(group, x, 1, "allreduce", "complete", nullptr, &gossip), GSM_OK)
            << gsm_last_error();
        EXPECT_EQ(x[0], 1.5f);
        EXPECT_EQ(gsm_gossip_free(gossip), GSM_OK);
        EXPECT_EQ(gsm_group_free(group), GSM_OK);
      });
    for (std::thread& thread : threads) thread.join();
  }
  gsm_group* group = nullptr;
  auto options = one_of_two(0, gossamer::testing::free_port());
  options.tls = "maybe";
  REFUSED(gsm_group_join_with(&options, &group), GSM_ERROR_CONFIG,
          AllOf(HasSubstr("maybe"), HasSubstr("auto")));
}

// One that speaks TLS and one that does not never meet: nothing is negotiated.
TEST_F(CJoin, OneThatEncryptsAndOneThatDoesNotDoNotMeet) {
  const int port = gossamer::testing::free_port();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([=] {
      auto options = one_of_two(rank, port);
      options.tls = rank == 0 ? "on" : "off";
      options.join_timeout_s = 2;
      gsm_group* group = nullptr;
      EXPECT_EQ(gsm_group_join_with(&options, &group), GSM_ERROR_WORKERS);
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CJoin, AHostOrANetworkThatIsNoneIsNamed) {
  gsm_group* group = nullptr;
  for (const char* host : {"[::1]", "127.0.0.1 "}) {
    auto options = one_of_two(1, gossamer::testing::free_port());
    options.host = host;
    options.join_timeout_s = 1;
    REFUSED(gsm_group_join_with(&options, &group), GSM_ERROR_WORKERS,
            HasSubstr('"' + std::string(host) + "\", does not resolve ("),
            Not(HasSubstr("GOSSAMER_")));
  }
  auto options = one_of_two(1, gossamer::testing::free_port());
  options.host = "10.255.255.1";
  options.network = "eth9x";
  options.join_timeout_s = 1;
  REFUSED(gsm_group_join_with(&options, &group), GSM_ERROR_CONFIG,
          HasSubstr("network interface eth9x: "), Not(HasSubstr("GOSSAMER_")));
}

TEST_F(CJoin, AnotherNumberOfWorkersEndsTheWaitOfAll) {
  const int port = gossamer::testing::free_port();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([=] {
      auto options = one_of_two(rank, port);
      options.size += rank;
      options.join_timeout_s = 3600;
      gsm_group* group = nullptr;
      REFUSED(gsm_group_join_with(&options, &group), GSM_ERROR_WORKERS,
              HasSubstr("worker 1 was started for 3 workers, worker 0 for 2"));
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CJoin, AWorkerThatIsStartedAgainLearnsWhyNobodyTakesIt) {
  const int port = gossamer::testing::free_port();
  gsm_group *group = nullptr, *groups[2] = {};
  auto options = one_of_two(0, port);
  options.restarted = 1;
  REFUSED(gsm_group_join_with(&options, &group), GSM_ERROR_ARGUMENT,
          HasSubstr("worker 0 can't be the one that is started again"));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([=, &groups] {
      const auto own = one_of_two(rank, port);
      EXPECT_EQ(gsm_group_join_with(&own, &groups[rank]), GSM_OK) << gsm_last_error();
    });
  for (std::thread& thread : threads) thread.join();
  options.rank = 1;
  options.token = "ffeeddccbbaa99887766554433221100";
  options.join_timeout_s = 1;
  REFUSED(gsm_group_join_with(&options, &group), GSM_ERROR_WORKERS,
          HasSubstr("do they live, and have they the same token?"));
  for (gsm_group* each : groups) MUST(gsm_group_free(each));
}

}  // namespace
}  // namespace gossamer
