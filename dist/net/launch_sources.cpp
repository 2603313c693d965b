// What torchrun, Slurm, Open MPI, hydra and our own launcher tell a worker about its place.
#include "gossamer/dist/net/launch_sources.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include <unistd.h>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

// Both or none. False: none.
bool read_pair(const char* rank_name, const char* size_name, LaunchInfo& info) {
  const auto rank = number(rank_name), size = number(size_name);
  if (!rank && !size) return false;
  if (!rank || !size) {
    fail<ConfigError>(rank ? rank_name : size_name, " is set but ", rank ? size_name : rank_name,
                      " is not: set both, or none to run alone");
  }
  check<ConfigError>(*size >= 1 && *size <= kMaxWorkers, size_name, "=", *size, ": must be 1 to ",
                     kMaxWorkers, " workers");
  check<ConfigError>(*rank >= 0 && *rank < *size, rank_name, "=", *rank, " with ", size_name, "=",
                     *size, ": ranks go from 0 to ", *size - 1);
  info.rank = *rank;
  info.size = *size;
  return true;
}

// A launcher that says how many are here also says whether all are: then they talk over the
// loopback, whatever the host is called.
void read_local(const char* rank_name, const char* size_name, LaunchInfo& info) {
  const auto size = number(size_name);
  info.local_rank = number(rank_name).value_or(0);
  info.local_size = size.value_or(info.local_rank + 1);
  info.local = size && *size == info.size;
  check<ConfigError>(info.local_rank >= 0 && info.local_rank < info.local_size, rank_name, "=",
                     info.local_rank, " is not below ", info.local_size, " (", size_name, ")");
}

// The same for all workers of a job, outside the range from which the kernel hands out ports.
int port_from(const std::string& job) {
  unsigned h = 2166136261u;
  for (unsigned char c : job) h = (h ^ c) * 16777619u;
  return 15000 + static_cast<int>(h % 15000);
}

// Slurm's "2(x3),1" -> 2, 2, 2, 1: tasks of each node. Empty when it is something else.
std::vector<int> tasks_per_node(const std::string& text) {
  std::vector<int> tasks;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = std::min(text.find(',', i), text.size()), bracket = text.find("(x", i);
    const std::string one = text.substr(i, std::min(end, bracket) - i);
    const std::string times = bracket < end ? text.substr(bracket + 2, end - bracket - 3) : "1";
    if (one.empty() || times.empty() ||
        (one + times).find_first_not_of("0123456789") != std::string::npos ||
        (one + times).size() > 8)
      return {};
    tasks.insert(tasks.end(), static_cast<std::size_t>(std::min(std::stoi(times), kMaxWorkers)),
                 std::stoi(one));
    i = end + 1;
  }
  return tasks;
}

// mpirun and mpiexec say who is on this host, not where worker 0 is.
void read_mpi_host(const std::string& job, const std::string& launcher, LaunchInfo& info) {
  check<ConfigError>(
      info.local || variable("GOSSAMER_RENDEZVOUS"), launcher, " started ", info.size, " workers, ",
      info.local_size,
      " of them on this host: set GOSSAMER_RENDEZVOUS=host:port of worker 0 and pass it on");
  info.port = port_from(job);
  info.job = job;
}

// The nearest of our ancestors whose name starts with `name`: the same for all workers of a host,
// however they were wrapped. Else our parent.
pid_t ancestor(const std::string& name) {
  for (pid_t pid = getppid(); pid > 1;) {
    // "77 (hydra_pmi_proxy) S 76 …"
    std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
    std::string stat;
    std::getline(in, stat);
    const auto open = stat.find('('), close = stat.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close + 4 >= stat.size()) break;
    if (stat.compare(open + 1, name.size(), name) == 0) return pid;
    pid = std::atoi(stat.c_str() + close + 4);
  }
  return getppid();
}

}  // namespace

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void read_host_port(const std::string& name, const std::string& text, std::string& host,
                    int& port) {
  const auto colon = text.rfind(':');
  check<ConfigError>(colon != std::string::npos && colon > 0 && text.back() != ']', name, "=", text,
                     ": must be host:port, as 10.0.0.1:29500 or [fd00::1]:29500");
  host = text.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  port = integer(name, text.substr(colon + 1));
  check<ConfigError>(!host.empty() && port >= 1 && port <= 65535, name, "=", text,
                     ": must be host:port with a port from 1 to 65535");
}

bool read_gossamer(LaunchInfo& info) {
  if (!read_pair("GOSSAMER_RANK", "GOSSAMER_WORLD", info)) return false;
  info.source = "gossamer";
  info.local_rank = info.rank;
  info.local_size = info.size;
  if (variable("GOSSAMER_LOCAL_RANK"))
    read_local("GOSSAMER_LOCAL_RANK", "GOSSAMER_LOCAL_WORLD", info);
  check<ConfigError>(
      info.size == 1 || variable("GOSSAMER_RENDEZVOUS"), "GOSSAMER_WORLD=", info.size,
      " but GOSSAMER_RENDEZVOUS is not set: set it to host:port of worker 0 for all workers");
  info.job = "gossamer " + variable("GOSSAMER_RENDEZVOUS").value_or("");
  return true;
}

bool read_torchrun(LaunchInfo& info) {
  if (!read_pair("RANK", "WORLD_SIZE", info)) return false;
  info.source = "torchrun";
  read_local("LOCAL_RANK", "LOCAL_WORLD_SIZE", info);
  const auto host = variable("MASTER_ADDR");
  const auto port = number("MASTER_PORT");
  check<ConfigError>(host.has_value() == port.has_value(), "MASTER_ADDR and MASTER_PORT: set both");
  check<ConfigError>(info.size == 1 || host || variable("GOSSAMER_RENDEZVOUS"),
                     "RANK and WORLD_SIZE=", info.size,
                     " are set but MASTER_ADDR and MASTER_PORT are not");
  if (host) {
    check<ConfigError>(*port >= 1 && *port <= 65535, "MASTER_PORT=", *port, ": must be 1 to 65535");
    info.host = *host;
    info.port = *port;
    // torchrun's own agent listens on MASTER_PORT then.
    if (variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True")
      info.port += info.port < 65535 ? 1 : -1;
    // Somebody started the workers by hand: nobody else's machine can reach this address.
    if (!variable("LOCAL_WORLD_SIZE")) info.local = is_loopback(info.host);
  }
  info.job = "torchrun " + variable("TORCHELASTIC_RUN_ID").value_or("") + " " + info.host + ":" +
             std::to_string(info.port);
  return true;
}

bool read_slurm(LaunchInfo& info) {
  // A batch script and salloc's shell have some of these too; a step started by srun has
  // SLURM_STEP_*.
  const bool step =
      variable("SLURM_STEP_ID") || variable("SLURM_STEPID") || variable("SLURM_STEP_NODELIST");
  if (!variable("SLURM_PROCID")) return false;
  if (!step && variable("ENVIRONMENT").value_or("") == "BATCH") return false;
  read_pair("SLURM_PROCID",
            variable("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", info);
  info.source = "slurm";
  info.local_rank = number("SLURM_LOCALID").value_or(0);
  info.local_size = info.local_rank + 1;
  if (const auto tasks = tasks_per_node(variable("SLURM_STEP_TASKS_PER_NODE").value_or(""));
      !tasks.empty()) {
    const auto node = static_cast<std::size_t>(std::max(0, number("SLURM_NODEID").value_or(0)));
    info.local_size = std::max(info.local_size, tasks[std::min(node, tasks.size() - 1)]);
    info.local = tasks.size() == 1 && tasks[0] == info.size;
  } else {
    info.local = number("SLURM_STEP_NUM_NODES").value_or(0) == 1;
    if (info.local) info.local_size = info.size;
  }
  const std::string job =
      variable("SLURM_JOB_ID").value_or("0") + "." +
      variable("SLURM_STEP_ID").value_or(variable("SLURM_STEPID").value_or("0"));
  auto nodes = variable("SLURM_STEP_NODELIST");
  if (!nodes) nodes = variable("SLURM_JOB_NODELIST");
  if (!nodes) nodes = variable("SLURM_NODELIST");
  if (nodes)
    info.host = first_host(*nodes);
  else
    check<ConfigError>(info.size == 1 || info.local || variable("GOSSAMER_RENDEZVOUS"),
                       "SLURM_PROCID is set but SLURM_STEP_NODELIST is not: start with srun, or "
                       "set GOSSAMER_RENDEZVOUS");
  info.port = port_from("slurm " + job);
  info.job = "slurm " + job + " " + std::to_string(getuid());
  return true;
}

bool read_openmpi(LaunchInfo& info) {
  if (!read_pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", info)) return false;
  info.source = "openmpi";
  read_local("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", info);
  const auto job = variable("PMIX_NAMESPACE");
  read_mpi_host("openmpi " + (job ? *job : variable("OMPI_MCA_ess_base_jobid").value_or("")) + " " +
                    std::to_string(getuid()),
                "mpirun", info);
  return true;
}

bool read_hydra(LaunchInfo& info) {
  if (!read_pair("PMI_RANK", "PMI_SIZE", info)) return false;
  info.source = "hydra";
  read_local("MPI_LOCALRANKID", "MPI_LOCALNRANKS", info);
  // It names no job: the proxy that it has on this host stands for it.
  read_mpi_host("hydra " + std::to_string(ancestor("hydra_")) + " " + std::to_string(getuid()),
                "mpiexec", info);
  return true;
}

}  // namespace gossamer::dist
