// Which launcher's variables are understood, and what is said about half-set ones.
#include "gossamer/dist/net/launch.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

const char* const kAll[] = {"GOSSAMER_RANK",
                            "GOSSAMER_WORLD",
                            "GOSSAMER_LOCAL_RANK",
                            "GOSSAMER_LOCAL_WORLD",
                            "GOSSAMER_RENDEZVOUS",
                            "GOSSAMER_TOKEN",
                            "GOSSAMER_TOKEN_FILE",
                            "GOSSAMER_INTERFACE",
                            "GOSSAMER_LISTENER",
                            "GOSSAMER_REJOIN",
                            "GOSSAMER_SEEDS",
                            "GOSSAMER_HOSTS",
                            "GOSSAMER_GRANT",
                            "RANK",
                            "WORLD_SIZE",
                            "LOCAL_RANK",
                            "LOCAL_WORLD_SIZE",
                            "MASTER_ADDR",
                            "MASTER_PORT",
                            "TORCHELASTIC_RUN_ID",
                            "TORCHELASTIC_USE_AGENT_STORE",
                            "SLURM_PROCID",
                            "SLURM_NTASKS",
                            "SLURM_LOCALID",
                            "SLURM_STEP_ID",
                            "SLURM_STEPID",
                            "SLURM_STEP_NODELIST",
                            "SLURM_STEP_NUM_TASKS",
                            "SLURM_STEP_NUM_NODES",
                            "SLURM_NODEID",
                            "SLURM_STEP_TASKS_PER_NODE",
                            "SLURM_JOB_ID",
                            "SLURM_JOB_NODELIST",
                            "SLURM_NODELIST",
                            "ENVIRONMENT",
                            "OMPI_COMM_WORLD_RANK",
                            "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_LOCAL_SIZE",
                            "PMIX_NAMESPACE",
                            "OMPI_MCA_ess_base_jobid",
                            "PMI_RANK",
                            "PMI_SIZE",
                            "MPI_LOCALRANKID",
                            "MPI_LOCALNRANKS"};

const std::string kToken = "00112233445566778899aabbccddeeff";

LaunchInfo with(const std::map<std::string, std::string>& environment) {
  for (const char* name : kAll) unsetenv(name);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  struct Clear {
    ~Clear() {
      for (const char* name : kAll) unsetenv(name);
    }
  } clear;
  return launch_info();
}

std::string refusal(const std::map<std::string, std::string>& environment) {
  try {
    (void)with(environment);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Launch, NothingSetIsAlone) {
  const LaunchInfo i = with({});
  EXPECT_EQ(i.rank, 0);
  EXPECT_EQ(i.size, 1);
  EXPECT_EQ(i.source, "alone");
}

TEST(Launch, OwnVariablesComeFirst) {
  const LaunchInfo i = with({{"GOSSAMER_RANK", "2"},
                             {"GOSSAMER_WORLD", "4"},
                             {"GOSSAMER_RENDEZVOUS", "10.0.0.1:2950"},
                             {"GOSSAMER_TOKEN", kToken},
                             {"RANK", "9"},
                             {"WORLD_SIZE", "99"},
                             {"MASTER_ADDR", "x"},
                             {"MASTER_PORT", "1"}});
  EXPECT_EQ(i.source, "gossamer");
  EXPECT_EQ(i.rank, 2);
  EXPECT_EQ(i.size, 4);
  EXPECT_EQ(i.host, "10.0.0.1");
  EXPECT_EQ(i.port, 2950);
  EXPECT_EQ(i.token, kToken);
  EXPECT_EQ(
      with({{"GOSSAMER_RANK", "0"}, {"GOSSAMER_WORLD", "2"}, {"GOSSAMER_RENDEZVOUS", "[::1]:80"}})
          .host,
      "::1");
}

TEST(Launch, Torchrun) {
  std::map<std::string, std::string> e = {{"RANK", "5"},
                                          {"WORLD_SIZE", "8"},
                                          {"LOCAL_RANK", "1"},
                                          {"LOCAL_WORLD_SIZE", "4"},
                                          {"MASTER_ADDR", "node7"},
                                          {"MASTER_PORT", "29500"}};
  LaunchInfo i = with(e);
  EXPECT_EQ(i.source, "torchrun");
  EXPECT_EQ(i.local_rank, 1);
  EXPECT_EQ(i.local_size, 4);
  EXPECT_EQ(i.host, "node7");
  EXPECT_EQ(i.port, 29500);
  e["TORCHELASTIC_USE_AGENT_STORE"] = "True";  // its agent listens on that port
  EXPECT_EQ(with(e).port, 29501);
}

TEST(Launch, SlurmStepsAgreeOnHostAndPort) {
  std::map<std::string, std::string> e = {{"SLURM_PROCID", "3"},
                                          {"SLURM_NTASKS", "4"},
                                          {"SLURM_LOCALID", "1"},
                                          {"SLURM_JOB_ID", "4242"},
                                          {"SLURM_STEP_ID", "0"},
                                          {"SLURM_STEP_NODELIST", "gpu[07-09,12]"},
                                          {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}};
  const LaunchInfo i = with(e);
  EXPECT_EQ(i.source, "slurm");
  EXPECT_EQ(i.rank, 3);
  EXPECT_EQ(i.size, 4);
  EXPECT_EQ(i.local_rank, 1);
  EXPECT_EQ(i.local_size, 2);
  EXPECT_EQ(i.host, "gpu07");
  EXPECT_GE(i.port, 15000);
  EXPECT_LT(i.port, 30000);
  e["SLURM_PROCID"] = "0";
  const LaunchInfo other = with(e);
  EXPECT_EQ(other.port, i.port);
  EXPECT_EQ(other.job, i.job);
  e["SLURM_JOB_ID"] = "4243";
  EXPECT_NE(with(e).port, i.port);
}

TEST(Launch, ABatchScriptWithoutSrunIsAlone) {
  EXPECT_EQ(with({{"ENVIRONMENT", "BATCH"},
                  {"SLURM_PROCID", "0"},
                  {"SLURM_NTASKS", "4"},
                  {"SLURM_JOB_ID", "1"}})
                .source,
            "alone");
  EXPECT_EQ(with({{"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}}).source, "alone");
}

TEST(Launch, OpenMpiAndHydraOnOneHostNeedNothingMore) {
  std::map<std::string, std::string> e = {{"OMPI_COMM_WORLD_RANK", "1"},
                                          {"OMPI_COMM_WORLD_SIZE", "4"},
                                          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                                          {"PMIX_NAMESPACE", "prterun-7"}};
  LaunchInfo i = with(e);
  EXPECT_EQ(i.source, "openmpi");
  EXPECT_EQ(i.host, "127.0.0.1");
  EXPECT_GT(i.port, 0);
  e["OMPI_COMM_WORLD_LOCAL_SIZE"] = "2";  // two hosts
  EXPECT_NE(refusal(e).find("GOSSAMER_RENDEZVOUS"), std::string::npos);
  e["GOSSAMER_RENDEZVOUS"] = "head:1234";
  EXPECT_EQ(with(e).port, 1234);
  i = with(
      {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(i.source, "hydra");
  EXPECT_GT(i.port, 0);
}

TEST(Launch, HalfSetOrSenselessValuesAreNamed) {
  EXPECT_NE(refusal({{"GOSSAMER_RANK", "0"}}).find("GOSSAMER_WORLD is not"), std::string::npos);
  EXPECT_NE(refusal({{"WORLD_SIZE", "2"}}).find("RANK is not"), std::string::npos);
  EXPECT_NE(refusal({{"GOSSAMER_RANK", "0"}, {"GOSSAMER_WORLD", "2"}}).find("GOSSAMER_RENDEZVOUS"),
            std::string::npos);
  EXPECT_NE(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).find("MASTER_ADDR"), std::string::npos);
  EXPECT_NE(
      refusal({{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}})
          .find("ranks go from 0 to 3"),
      std::string::npos);
  EXPECT_NE(refusal({{"RANK", "1x"}, {"WORLD_SIZE", "4"}}).find("RANK=1x is not a number"),
            std::string::npos);
  EXPECT_NE(refusal({{"GOSSAMER_RANK", "0"}, {"GOSSAMER_WORLD", "0"}}).find("must be 1 to"),
            std::string::npos);
  for (const char* bad : {"nohost", ":5", "h:", "h:99999", "h:0", "h:1x"}) {
    EXPECT_NE(
        refusal({{"GOSSAMER_RANK", "0"}, {"GOSSAMER_WORLD", "2"}, {"GOSSAMER_RENDEZVOUS", bad}}),
        "accepted")
        << bad;
  }
}

// ---- on one machine, or not

TEST(Launch, WhoKnowsThatAllAreHereTalksOverTheLoopback) {
  const LaunchInfo torchrun = with({{"RANK", "1"},
                                    {"WORLD_SIZE", "2"},
                                    {"LOCAL_RANK", "1"},
                                    {"LOCAL_WORLD_SIZE", "2"},
                                    {"MASTER_ADDR", "login7"},
                                    {"MASTER_PORT", "29500"}});
  EXPECT_TRUE(torchrun.local);
  EXPECT_EQ(torchrun.host, "127.0.0.1");
  EXPECT_EQ(bind_address(torchrun), "127.0.0.1");
  const LaunchInfo slurm = with({{"SLURM_PROCID", "1"},
                                 {"SLURM_NTASKS", "4"},
                                 {"SLURM_LOCALID", "1"},
                                 {"SLURM_JOB_ID", "7"},
                                 {"SLURM_STEP_ID", "0"},
                                 {"SLURM_STEP_NODELIST", "gpu07"},
                                 {"SLURM_STEP_TASKS_PER_NODE", "4"}});
  EXPECT_TRUE(slurm.local);
  EXPECT_EQ(slurm.host, "127.0.0.1");
  EXPECT_EQ(slurm.local_size, 4);
  // Workers that somebody started by hand: the address of worker 0 says it.
  for (const auto& [host, local] : {std::pair("127.0.0.1", true), {"node7", false}}) {
    const LaunchInfo by_hand =
        with({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", host}, {"MASTER_PORT", "29500"}});
    EXPECT_EQ(by_hand.local, local) << host;
    if (local) EXPECT_EQ(bind_address(by_hand), host);
  }
  // Who doesn't know believes what GOSSAMER_RENDEZVOUS says.
  EXPECT_TRUE(with({{"GOSSAMER_RANK", "0"},
                    {"GOSSAMER_WORLD", "2"},
                    {"GOSSAMER_RENDEZVOUS", "localhost:1000"}})
                  .local);
  EXPECT_FALSE(with({{"GOSSAMER_RANK", "0"},
                     {"GOSSAMER_WORLD", "2"},
                     {"GOSSAMER_RENDEZVOUS", "10.0.0.1:1000"}})
                   .local);
  EXPECT_FALSE(with({{"OMPI_COMM_WORLD_RANK", "1"},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                     {"GOSSAMER_RENDEZVOUS", "10.0.0.1:1000"}})
                   .local);
}

TEST(Launch, SlurmCountsTheTasksOfEachNode) {
  std::map<std::string, std::string> e = {{"SLURM_PROCID", "5"},
                                          {"SLURM_NTASKS", "8"},
                                          {"SLURM_LOCALID", "0"},
                                          {"SLURM_JOB_ID", "7"},
                                          {"SLURM_STEP_ID", "0"},
                                          {"SLURM_STEP_NODELIST", "n[1-4]"},
                                          {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1,3"}};
  const std::map<std::string, int> sizes = {{"0", 2}, {"2", 2}, {"3", 1}, {"4", 3}};
  for (const auto& [node, size] : sizes) {
    e["SLURM_NODEID"] = node;
    EXPECT_EQ(with(e).local_size, size) << node;
    EXPECT_FALSE(with(e).local);
  }
}

TEST(Launch, AnAddressToListenOnIsFoundOrTheInterfacesAreNamed) {
  LaunchInfo i;
  i.local = false;
  i.interface = "lo";
  EXPECT_EQ(bind_address(i), "127.0.0.1");
  i.interface = "127.0.0.1";
  EXPECT_EQ(bind_address(i), "127.0.0.1");
  i.interface = "nothing7";
  try {
    (void)bind_address(i);
    ADD_FAILURE() << "accepted";
  } catch (const ConfigError& e) {
    EXPECT_NE(std::string(e.what()).find("network interface nothing7: "), std::string::npos)
        << e.what();
    EXPECT_NE(std::string(e.what()).find("lo 127.0.0.1"), std::string::npos) << e.what();
  }
  i.interface = "";
  i.host = "::1";
  i.local = true;
  EXPECT_EQ(bind_address(i), "::1");
}

// Whoever listens on all networks is reached from networks that nobody had in mind.
TEST(Launch, OfSeveralNetworksOneMustBeNamed) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make networks";
  const pid_t child = fork();
  if (child == 0) {
    const auto run = [](const std::string& command) {
      return std::system((command + " > /dev/null 2>&1").c_str()) == 0;
    };
    bool made = unshare(CLONE_NEWNET) == 0 && run("ip link set lo up") &&
                run("ip link add name va type veth peer name vb");
    for (const char* i : {"va", "vb"})
      made = made && run(std::string("ip link set dev ") + i + " up");
    made = made && run("ip addr add 10.9.0.1/24 dev va") && run("ip addr add 10.9.1.1/24 dev vb");
    if (!made) _exit(77);
    LaunchInfo i;
    i.local = false;
    i.host = "localhost";
    try {
      (void)bind_address(i);
      _exit(1);
    } catch (const ConfigError& e) {
      const std::string text = e.what();
      for (const char* part : {"several networks", "10.9.0.1", "10.9.1.1", "GOSSAMER_INTERFACE"})
        if (text.find(part) == std::string::npos) _exit(2);
    }
    i.interface = "vb";
    if (bind_address(i) != "10.9.1.1") _exit(3);
    i.interface = "0.0.0.0";
    _exit(bind_address(i) == "0.0.0.0" ? 0 : 4);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "this machine makes no networks of its own (ip, veth)";
  EXPECT_EQ(status, 0);
}

// ---- the job's secret

class TokenFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "gossamer-token-XXXXXX").string();
    const int fd = mkstemp(pattern.data());
    ASSERT_GE(fd, 0);
    close(fd);
    path = pattern;
  }
  void TearDown() override { std::filesystem::remove(path); }
  void write(const std::string& text, int mode) {
    std::ofstream(path) << text;
    std::filesystem::permissions(path, static_cast<std::filesystem::perms>(mode));
  }
  std::map<std::string, std::string> environment() const {
    return {{"GOSSAMER_RANK", "0"},
            {"GOSSAMER_WORLD", "2"},
            {"GOSSAMER_RENDEZVOUS", "10.0.0.1:1000"},
            {"GOSSAMER_TOKEN_FILE", path}};
  }
  std::string path;
};

TEST_F(TokenFile, IsReadWithoutItsLineEnd) {
  write(kToken + "\n", 0600);
  const LaunchInfo i = with(environment());
  EXPECT_EQ(i.token, kToken);
}

TEST_F(TokenFile, IsRefusedWhenOthersMayReadIt) {
  for (const int mode : {0644, 0640, 0604, 0620}) {
    write(kToken + "\n", mode);
    const std::string text = refusal(environment());
    EXPECT_NE(text.find("chmod 600"), std::string::npos) << text;
    EXPECT_EQ(text.find(kToken), std::string::npos);
  }
}

TEST_F(TokenFile, MustBeThereAndNotEmpty) {
  write("", 0600);
  EXPECT_NE(refusal(environment()).find("is empty"), std::string::npos);
  std::filesystem::remove(path);
  EXPECT_NE(refusal(environment()).find("No such file"), std::string::npos);
  std::filesystem::create_directory(path);
  EXPECT_NE(refusal(environment()).find("no file"), std::string::npos);
}

TEST_F(TokenFile, MustHoldASecret) {
  write("swordfish\n", 0600);
  EXPECT_NE(refusal(environment()).find("wanted: 128 random bits"), std::string::npos);
  EXPECT_NE(refusal({{"GOSSAMER_RANK", "0"},
                     {"GOSSAMER_WORLD", "2"},
                     {"GOSSAMER_RENDEZVOUS", "h:1"},
                     {"GOSSAMER_TOKEN", "swordfish"}})
                .find("GOSSAMER_TOKEN holds at most"),
            std::string::npos);
}

// ---- what our own launcher adds

TEST(Launch, AListeningSocketIsTakenOverAndAnythingElseIsRefused) {
  std::map<std::string, std::string> e = {
      {"GOSSAMER_RANK", "0"}, {"GOSSAMER_WORLD", "2"}, {"GOSSAMER_RENDEZVOUS", "127.0.0.1:1000"}};
  EXPECT_EQ(with(e).listener, -1);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  e["GOSSAMER_LISTENER"] = std::to_string(fd);
  EXPECT_NE(refusal(e).find("not a listening socket"), std::string::npos);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  EXPECT_EQ(with(e).listener, fd);
  close(fd);
  EXPECT_NE(refusal(e).find("not a listening socket"), std::string::npos);
}

TEST(Launch, RejoiningWorkersKnowWhomToAsk) {
  const LaunchInfo i = with({{"GOSSAMER_RANK", "1"},
                             {"GOSSAMER_WORLD", "3"},
                             {"GOSSAMER_RENDEZVOUS", "127.0.0.1:1000"},
                             {"GOSSAMER_REJOIN", "1"},
                             {"GOSSAMER_SEEDS", "127.0.0.1:1001,127.0.0.1:1002"},
                             {"GOSSAMER_HOSTS", "a,a,b"}});
  EXPECT_TRUE(i.rejoin);
  EXPECT_EQ(i.seeds, (std::vector<std::string>{"127.0.0.1:1001", "127.0.0.1:1002"}));
  EXPECT_EQ(worker_name(i, 2), "2 (b)");
  EXPECT_EQ(worker_name(LaunchInfo{}, 2), "2");
  EXPECT_NE(refusal({{"GOSSAMER_RANK", "1"},
                     {"GOSSAMER_WORLD", "3"},
                     {"GOSSAMER_RENDEZVOUS", "h:1"},
                     {"GOSSAMER_SEEDS", "nohost"}})
                .find("GOSSAMER_SEEDS"),
            std::string::npos);
}

TEST(Launch, FirstHostOfANodeList) {
  EXPECT_EQ(first_host("node1"), "node1");
  EXPECT_EQ(first_host("node1,node2"), "node1");
  EXPECT_EQ(first_host("n[1-3]"), "n1");
  EXPECT_EQ(first_host("gpu[07-09,12],login"), "gpu07");
  EXPECT_EQ(first_host("n[3,5].cluster"), "n3.cluster");
  EXPECT_EQ(first_host("rack[1-2]node[04-05]"), "rack1node04");
  EXPECT_THROW(first_host("n[1-3"), ConfigError);
  EXPECT_THROW(first_host(""), ConfigError);
}

}  // namespace
}  // namespace gossamer::dist
