// From a launcher's environment to a Group: our own --workers, torchrun, srun, mpirun (Open MPI), hydra. Alone: a group of one.
#pragma once

#include <memory>
#include <string>

#include "gossamer/dist/transport.h"

namespace gossamer::dist {

struct LaunchInfo {
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::string host = "127.0.0.1";      // where worker 0 listens
  int port = 0;
  std::string token;                   // shared secret of the job; empty: derived from what the launcher gives
  std::string source = "alone";        // which launcher's variables were used: "gossamer", "torchrun", "slurm", "openmpi", "hydra"
};
// Reads GOSSAMER_*, RANK/WORLD_SIZE/…, SLURM_*, OMPI_COMM_WORLD_*, PMI_*, in this order. ConfigError on half-set or senseless values.
LaunchInfo launch_info();
// The first host of a Slurm node list: "gpu[07-09,12],login" -> "gpu07".
std::string first_host(const std::string& nodelist);

struct JoinOptions {
  double connect_timeout_s = 60;       // until all workers have met; after 10 s those missing are named through on_wait
  double heartbeat_s = 0.25, dead_after_s = 2.0;
  double collective_timeout_s = 30;
  std::function<void(const std::string&)> on_wait;
};
// Errors are DistErrors that name the missing or refused worker. A worker that the others gave up (frozen for dead_after_s) learns it from
// a DistError out of ControlLink::next() and the collectives.
std::unique_ptr<Group> join(const LaunchInfo&, const JoinOptions& = {});

}  // namespace gossamer::dist
