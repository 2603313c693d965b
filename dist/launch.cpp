// Reads the variables of whoever started us. Nothing else in the libraries looks at the environment.
#include "gossamer/dist/launch.h"

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/dist/process_group.h"

namespace gossamer::dist {
namespace {

constexpr int kMaxWorkers = 512;  // each holds a connection to every other

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

int integer(const std::string& what, const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) fail<ConfigError>(what, "=", text, " is not a number");
  return value;
}

std::optional<int> number(const char* name) {
  const auto text = variable(name);
  return text ? std::optional<int>(integer(name, *text)) : std::nullopt;
}

// Both or none. False: none.
bool read_pair(const char* rank_name, const char* size_name, LaunchInfo& info) {
  const auto rank = number(rank_name), size = number(size_name);
  if (!rank && !size) return false;
  if (!rank || !size) {
    fail<ConfigError>(rank ? rank_name : size_name, " is set but ", rank ? size_name : rank_name,
                      " is not: set both, or none to run alone");
  }
  check<ConfigError>(*size >= 1 && *size <= kMaxWorkers, size_name, "=", *size, ": must be 1 to ", kMaxWorkers, " workers");
  check<ConfigError>(*rank >= 0 && *rank < *size, rank_name, "=", *rank, " with ", size_name, "=", *size, ": ranks go from 0 to ",
                     *size - 1);
  info.rank = *rank;
  info.size = *size;
  return true;
}

void read_local(const char* rank_name, const char* size_name, LaunchInfo& info) {
  info.local_rank = number(rank_name).value_or(0);
  info.local_size = number(size_name).value_or(info.local_rank + 1);
  check<ConfigError>(info.local_rank >= 0 && info.local_rank < info.local_size, rank_name, "=", info.local_rank, " is not below ",
                     info.local_size, " (", size_name, ")");
}

void read_host_port(const std::string& name, const std::string& text, LaunchInfo& info) {
  const auto colon = text.rfind(':');
  check<ConfigError>(colon != std::string::npos && colon > 0, name, "=", text, ": must be host:port, e.g. 10.0.0.1:29500");
  info.host = text.substr(0, colon);
  if (info.host.front() == '[' && info.host.back() == ']') info.host = info.host.substr(1, info.host.size() - 2);
  info.port = integer(name, text.substr(colon + 1));
  check<ConfigError>(info.port >= 1 && info.port <= 65535, name, "=", text, ": the port must be 1 to 65535");
}

// The same for all workers of a job, outside the range from which the kernel hands out ports.
int port_from(const std::string& job) {
  unsigned h = 2166136261u;
  for (unsigned char c : job) h = (h ^ c) * 16777619u;
  return 15000 + static_cast<int>(h % 15000);
}

bool read_gossamer(LaunchInfo& info) {
  if (!read_pair("GOSSAMER_RANK", "GOSSAMER_WORLD", info)) return false;
  info.source = "gossamer";
  info.local_rank = info.rank;
  info.local_size = info.size;
  if (variable("GOSSAMER_LOCAL_RANK")) read_local("GOSSAMER_LOCAL_RANK", "GOSSAMER_LOCAL_WORLD", info);
  check<ConfigError>(info.size == 1 || variable("GOSSAMER_RENDEZVOUS"), "GOSSAMER_WORLD=", info.size,
                     " but GOSSAMER_RENDEZVOUS is not set: set it to host:port of worker 0 for all workers");
  info.token = "gossamer " + variable("GOSSAMER_RENDEZVOUS").value_or("");
  return true;
}

bool read_torchrun(LaunchInfo& info) {
  if (!read_pair("RANK", "WORLD_SIZE", info)) return false;
  info.source = "torchrun";
  read_local("LOCAL_RANK", "LOCAL_WORLD_SIZE", info);
  const auto host = variable("MASTER_ADDR");
  const auto port = number("MASTER_PORT");
  check<ConfigError>(host.has_value() == port.has_value(), "MASTER_ADDR and MASTER_PORT: set both");
  check<ConfigError>(info.size == 1 || host || variable("GOSSAMER_RENDEZVOUS"), "RANK and WORLD_SIZE=", info.size,
                     " are set but MASTER_ADDR and MASTER_PORT are not");
  if (host) {
    check<ConfigError>(*port >= 1 && *port <= 65535, "MASTER_PORT=", *port, ": must be 1 to 65535");
    info.host = *host;
    info.port = *port;
    // torchrun's own agent listens on MASTER_PORT then.
    if (variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True") info.port += info.port < 65535 ? 1 : -1;
  }
  info.token = "torchrun " + variable("TORCHELASTIC_RUN_ID").value_or("") + " " + info.host + ":" + std::to_string(info.port);
  return true;
}

bool read_slurm(LaunchInfo& info) {
  // A batch script and salloc's shell have some of these too; a step started by srun has SLURM_STEP_*.
  const bool step = variable("SLURM_STEP_ID") || variable("SLURM_STEPID") || variable("SLURM_STEP_NODELIST");
  if (!variable("SLURM_PROCID")) return false;
  if (!step && variable("ENVIRONMENT").value_or("") == "BATCH") return false;
  read_pair("SLURM_PROCID", variable("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", info);
  info.source = "slurm";
  info.local_rank = number("SLURM_LOCALID").value_or(0);
  info.local_size = info.local_rank + 1;
  if (const auto tasks = variable("SLURM_STEP_TASKS_PER_NODE");
      tasks && std::isdigit(static_cast<unsigned char>(tasks->front()))) {
    info.local_size = std::max(info.local_size, std::atoi(tasks->c_str()));  // "4(x2)": of the first kind of node
  }
  const std::string job =
      variable("SLURM_JOB_ID").value_or("0") + "." + variable("SLURM_STEP_ID").value_or(variable("SLURM_STEPID").value_or("0"));
  auto nodes = variable("SLURM_STEP_NODELIST");
  if (!nodes) nodes = variable("SLURM_JOB_NODELIST");
  if (!nodes) nodes = variable("SLURM_NODELIST");
  if (nodes)
    info.host = first_host(*nodes);
  else
    check<ConfigError>(info.size == 1 || variable("GOSSAMER_RENDEZVOUS"),
                       "SLURM_PROCID is set but SLURM_STEP_NODELIST is not: start with srun, or set GOSSAMER_RENDEZVOUS");
  info.port = port_from("slurm " + job);
  info.token = "slurm " + job + " " + std::to_string(getuid());
  return true;
}

// mpirun and mpiexec say who is on this host, not where worker 0 is.
void read_mpi_host(const std::string& job, const std::string& launcher, LaunchInfo& info) {
  check<ConfigError>(info.local_size == info.size || variable("GOSSAMER_RENDEZVOUS"), launcher, " started ", info.size,
                     " workers, ", info.local_size,
                     " of them on this host: set GOSSAMER_RENDEZVOUS=host:port of worker 0 and pass it on");
  info.port = port_from(job);
  info.token = job;
}

bool read_openmpi(LaunchInfo& info) {
  if (!read_pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", info)) return false;
  info.source = "openmpi";
  read_local("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", info);
  const auto job = variable("PMIX_NAMESPACE");
  read_mpi_host("openmpi " + (job ? *job : variable("OMPI_MCA_ess_base_jobid").value_or("")) + " " + std::to_string(getuid()),
                "mpirun", info);
  return true;
}

bool read_hydra(LaunchInfo& info) {
  if (!read_pair("PMI_RANK", "PMI_SIZE", info)) return false;
  info.source = "hydra";
  read_local("MPI_LOCALRANKID", "MPI_LOCALNRANKS", info);
  read_mpi_host("hydra " + std::to_string(getppid()) + " " + std::to_string(getuid()), "mpiexec",
                info);  // all have the proxy as parent
  return true;
}

}  // namespace

std::string first_host(const std::string& nodelist) {
  std::string host;
  for (std::size_t i = 0; i < nodelist.size() && nodelist[i] != ','; ++i) {
    if (nodelist[i] != '[') {
      host += nodelist[i];
      continue;
    }
    const auto end = nodelist.find(']', i);
    check<ConfigError>(end != std::string::npos, "node list \"", nodelist, "\": a bracket is not closed");
    for (++i; i < end && nodelist[i] != '-' && nodelist[i] != ','; ++i) host += nodelist[i];
    i = end;
  }
  check<ConfigError>(!host.empty(), "node list \"", nodelist, "\" names no host");
  return host;
}

LaunchInfo launch_info() {
  LaunchInfo info;
  if (!read_gossamer(info) && !read_torchrun(info) && !read_slurm(info) && !read_openmpi(info) && !read_hydra(info)) return info;
  if (const auto where = variable("GOSSAMER_RENDEZVOUS")) read_host_port("GOSSAMER_RENDEZVOUS", *where, info);
  if (const auto token = variable("GOSSAMER_TOKEN")) info.token = *token;
  return info;
}

std::unique_ptr<Group> join(const LaunchInfo& info, const JoinOptions& options) {
  check<ConfigError>(info.size >= 1 && info.size <= kMaxWorkers, "a group of ", info.size, " workers: must be 1 to ",
                     kMaxWorkers);
  check<ConfigError>(info.rank >= 0 && info.rank < info.size, "rank ", info.rank, " in a group of ", info.size);
  check<ConfigError>(options.heartbeat_s > 0 && options.dead_after_s >= 2 * options.heartbeat_s, "dead_after_s (",
                     options.dead_after_s, ") must be at least twice heartbeat_s (", options.heartbeat_s, ")");
  if (info.size == 1) return solo_group();
  check<ConfigError>(info.port >= 1 && info.port <= 65535, "the rendezvous port is ", info.port, ": must be 1 to 65535");
  return process_group(info, options);
}

}  // namespace gossamer::dist
