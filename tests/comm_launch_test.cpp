// Which launcher's variables are understood, and what is said about half-set ones.
#include <cstdlib>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "gossamer/core/error.h"
#include "gossamer/dist/launch.h"

namespace gossamer::dist {
namespace {

const char* const kAll[] = {"GOSSAMER_RANK",
                            "GOSSAMER_WORLD",
                            "GOSSAMER_LOCAL_RANK",
                            "GOSSAMER_LOCAL_WORLD",
                            "GOSSAMER_RENDEZVOUS",
                            "GOSSAMER_TOKEN",
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
                             {"GOSSAMER_TOKEN", "abc"},
                             {"RANK", "9"},
                             {"WORLD_SIZE", "99"},
                             {"MASTER_ADDR", "x"},
                             {"MASTER_PORT", "1"}});
  EXPECT_EQ(i.source, "gossamer");
  EXPECT_EQ(i.rank, 2);
  EXPECT_EQ(i.size, 4);
  EXPECT_EQ(i.host, "10.0.0.1");
  EXPECT_EQ(i.port, 2950);
  EXPECT_EQ(i.token, "abc");
  EXPECT_EQ(with({{"GOSSAMER_RANK", "0"}, {"GOSSAMER_WORLD", "2"}, {"GOSSAMER_RENDEZVOUS", "[::1]:80"}}).host, "::1");
}

TEST(Launch, Torchrun) {
  std::map<std::string, std::string> e = {
      {"RANK", "5"},           {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}, {"MASTER_ADDR", "node7"},
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
  EXPECT_EQ(other.token, i.token);
  e["SLURM_JOB_ID"] = "4243";
  EXPECT_NE(with(e).port, i.port);
}

TEST(Launch, ABatchScriptWithoutSrunIsAlone) {
  EXPECT_EQ(with({{"ENVIRONMENT", "BATCH"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}}).source,
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
  i = with({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}});
  EXPECT_EQ(i.source, "hydra");
  EXPECT_GT(i.port, 0);
}

TEST(Launch, HalfSetOrSenselessValuesAreNamed) {
  EXPECT_NE(refusal({{"GOSSAMER_RANK", "0"}}).find("GOSSAMER_WORLD is not"), std::string::npos);
  EXPECT_NE(refusal({{"WORLD_SIZE", "2"}}).find("RANK is not"), std::string::npos);
  EXPECT_NE(refusal({{"GOSSAMER_RANK", "0"}, {"GOSSAMER_WORLD", "2"}}).find("GOSSAMER_RENDEZVOUS"), std::string::npos);
  EXPECT_NE(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}}).find("MASTER_ADDR"), std::string::npos);
  EXPECT_NE(
      refusal({{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}).find("ranks go from 0 to 3"),
      std::string::npos);
  EXPECT_NE(refusal({{"RANK", "1x"}, {"WORLD_SIZE", "4"}}).find("RANK=1x is not a number"), std::string::npos);
  EXPECT_NE(refusal({{"GOSSAMER_RANK", "0"}, {"GOSSAMER_WORLD", "0"}}).find("must be 1 to"), std::string::npos);
  for (const char* bad : {"nohost", ":5", "h:", "h:99999", "h:0", "h:1x"}) {
    EXPECT_NE(refusal({{"GOSSAMER_RANK", "0"}, {"GOSSAMER_WORLD", "2"}, {"GOSSAMER_RENDEZVOUS", bad}}), "accepted") << bad;
  }
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
