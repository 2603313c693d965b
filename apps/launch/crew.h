// The workers of one run on one machine: this one (CrewHere), or one behind ssh (CrewThere, which
// talks to `gossamer agent`, which has a CrewHere). None of its processes outlives it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/apps/launch/hosts.h"
#include "gossamer/apps/launch/process.h"

namespace gossamer::apps {

struct CrewEvent {
  // opened: the doors of all ranks listen. started: a process runs. ready: it has met the others.
  // ended: it is gone. output: a line it wrote. lost: nothing more is heard of this crew; `ended`
  // of each of its workers follows.
  enum class Kind { opened, started, ready, ended, output, lost } kind{};
  int rank = -1;
  // started: process id; ended: status as waitpid gives it; output: 1 stdout, 2 stderr
  int value = 0;
  std::string text;  // output: the line; lost: why
};

// What a worker's process is given.
struct WorkerStart {
  int rank = 0;
  std::vector<std::string> arguments;  // of gossamer
  std::map<std::string, std::string> environment;
};

class Crew {
 public:
  explicit Crew(Host host) : host_(std::move(host)) {}
  virtual ~Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Asks for a listening socket for each rank, so that nobody can take a worker's port before it
  // starts. only_here: the whole run is on this host. peer: a host of other workers; the network to
  // it is used.
  virtual void open(const std::vector<int>& ranks, bool only_here, const std::string& peer) = 0;
  // A worker's second start takes a new door: see doors().
  virtual void start(const WorkerStart&) = 0;
  virtual void signal(int number) = 0;  // to all its workers
  // all its workers are to end now; the destructor waits for that
  virtual void leave() {}
  virtual void pump(std::vector<CrewEvent>& events) = 0;  // what has happened; never waits
  virtual void descriptors(std::vector<int>& readable, std::vector<int>& writable) const = 0;

  const Host& host() const { return host_; }
  // host:port of each rank's next or present process
  const std::map<int, std::string>& doors() const { return doors_; }
  // the address they are on; empty: all
  const std::string& interface() const { return interface_; }

 protected:
  Host host_;
  std::map<int, std::string> doors_;
  std::string interface_;
};

// capture: what workers write comes as events; otherwise they write where we do. DistError when a
// process can't be started.
std::unique_ptr<Crew> crew_here(Host, bool capture);
// ssh: a command with its options; empty: OpenSSH's, which asks for nothing. The other machine has
// this program under the same path.
std::unique_ptr<Crew> crew_there(Host, const std::string& ssh);

}  // namespace gossamer::apps
