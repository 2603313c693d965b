// How a process that a launcher has started becomes a worker of a Group. The launcher's variables
// are read: those of `gossamer train --workers`, torchrun, srun, mpirun (Open MPI) and hydra.
// Without any, the process is a group of one.
// Threads: any, but none may change the environment meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/dist/transport.h"

namespace gossamer::dist {

struct LaunchInfo {
  // size: how many workers begin together. rank: below it, or the place of one that joined later
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
  // For how many workers there are places, those that join later included; 0: for `size`.
  int places = 0;
  int all_places() const { return places > size ? places : size; }
  std::string host = "127.0.0.1";  // where worker 0 listens
  int port = 0;
  // Shared secret of the job: GOSSAMER_TOKEN, or the first word of the file GOSSAMER_TOKEN_FILE.
  // Empty: see with_token().
  std::string token;
  std::string job;         // what the launcher gives: the same for all workers, and no secret
  std::string token_file;  // by with_token(): the secret of this user, of which `token` was made
  bool open = false;       // by with_token(): there is no secret
  // of our launcher: this worker's key pair, and the launcher's word for it (grant.h); a secret
  std::string grant;
  // whose variables were used: "gossamer", "torchrun", "slurm", "openmpi", "hydra"; "alone": none
  std::string source = "alone";
  // all workers run on this machine: nobody listens on anything but the loopback
  bool local = true;
  // otherwise: a name or address of this machine ("eth0", "10.0.0.2"); empty: see bind_address()
  std::string interface;
  // a TCP socket that listens already and is to be this worker's door (worker 0: at host:port);
  // join() takes it over and closes it in the end. -1: join() opens one
  int listener = -1;
  // started again while the others went on, or joins them: takes part in a job that is running
  bool rejoin = false;
  // rejoin: host:port of the doors of workers that may be asked, beside worker 0's
  std::vector<std::string> seeds;
  // by rank, where the launcher says so (else empty): for messages
  std::vector<std::string> hosts;
};
// Reads GOSSAMER_*, RANK/WORLD_SIZE/…, SLURM_*, OMPI_COMM_WORLD_*, PMI_*, in this order.
// ConfigError on half-set or senseless values.
LaunchInfo launch_info();
// Of a process that nobody has started as a worker, and that is to join a job (enter()): token and
// interface alone. ConfigError.
LaunchInfo outside_info();
// The place with a token. One that was given stays; it must hold 128 bits. Without one: on one
// machine it is made of `job` (where others may join: of worker 0's address, which these know) and
// a secret of this user (token.h); elsewhere ConfigError says how
// to make one and carry it to all workers. open: without one, the workers do without a secret, on
// one machine or several: whoever knows `job` and reaches a port can join. join() calls it.
LaunchInfo with_token(LaunchInfo, bool open);
// Whether workers of this place encrypt, as JoinOptions::tls says. ConfigError: it says nothing
// that is known.
bool encrypts(const LaunchInfo&, const std::string& tls);
// A name of the job with this token, the same on all workers, which does not give the token away.
std::string run_number(const LaunchInfo&);
// The numeric address of this machine on which this worker listens, whose doors the others are told
// of: the loopback when `local`; the address of `interface`; else the address from which packets to
// worker 0's host leave. ConfigError lists the interfaces where there is none of this name, and the
// addresses where one must be named (worker 0, whose own name means the loopback, as Debian sets it
// up, on a machine with several networks).
std::string bind_address(const LaunchInfo&);
// "10.0.0.1:29500", "[fd00::1]:29500".
std::string host_and_port(const std::string& host, int port);
// "2", or "2 (gpu07)" where the hosts are known.
std::string worker_name(const LaunchInfo&, int rank);
// The first host of a Slurm node list: "gpu[07-09,12],login" -> "gpu07".
std::string first_host(const std::string& nodelist);

struct JoinOptions {
  // until all workers have met; after 10 s those missing are named through on_wait
  double connect_timeout_s = 60;
  double heartbeat_s = 0.25, dead_after_s = 2.0;
  double collective_timeout_s = 30;
  // Workers of one machine exchange by reading each other's memory, where the machine allows it
  // (memory_edge.h); false: over TCP, as between machines.
  bool read_memory = true;
  // How workers encrypt what they say to each other, TLS 1.3 (tls.h): on; off; auto: on unless all
  // run on this machine. All workers say the same.
  std::string tls = "auto";
  // with_token(): a job for which nobody gave a token does without a secret
  bool open = false;
  // What enter() is told by this worker, of at most kLongestAbout bytes: what a program must know
  // that wants to join.
  std::string about;
  // DistError after being cut off from all others for so long (but not if all others have ended)
  double alone_after_s = 60;
  std::function<void(const std::string&)> on_wait;
  // A client without the token, or with garbage, was turned away (at most once a second), or a
  // worker that does not fit was refused while all meet: a sentence for the log. From the link's
  // thread.
  std::function<void(const std::string&)> on_refused;
};
// Errors are DistErrors that name the missing or refused worker. A worker that was frozen or cut
// off for dead_after_s is given up, gives the others up, and comes back by itself: Event{dead},
// then Event{joined}, on both sides. After alone_after_s without anybody, or when another process
// was started in its place, it learns from a DistError out of ControlLink::next() and the
// collectives that it is out.
std::unique_ptr<Group> join(const LaunchInfo&, const JoinOptions& = {});

constexpr std::size_t kLongestAbout = 60'000;
// A job that a process may join, as one of its workers told it.
struct Entry {
  // for join(), with a place that was free then. If another process takes it first, join() is a
  // PlaceTaken.
  LaunchInfo place;
  std::string about;  // JoinOptions::about of that worker
};
struct PlaceTaken : DistError {
  using DistError::DistError;
};
// Asks for a place, until one of those at `seeds` has answered. with: token, interface and how it
// is encrypted, as of the workers; rank and size are not looked at. DistError: none has answered
// within connect_timeout_s, or no place is free; ConfigError: no seed is host:port.
Entry enter(const LaunchInfo& with, const std::vector<std::string>& seeds, const JoinOptions& = {});

}  // namespace gossamer::dist
