// The workers of one run on one host: LocalWorkers on this machine, RemoteWorkers behind ssh. The
// latter talk to `gossamer agent` there, which has LocalWorkers. Their processes end with them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/apps/launch/hosts.h"
#include "gossamer/apps/launch/process.h"

namespace gossamer::apps {

struct WorkerEvent {
  // opened: the listeners of all ranks are open. started: a process runs. ready: it has met the
  // other workers. ended: the process is gone. output: it wrote a line. lost: the host is out of
  // reach; an `ended` follows for each of its workers.
  enum class Kind { opened, started, ready, ended, output, lost } kind{};
  int rank = -1;
  // started: process id; ended: status as waitpid gives it; output: 1 stdout, 2 stderr
  int value = 0;
  std::string text;  // output: the line; lost: the reason
};

struct WorkerStart {
  int rank = 0;
  std::vector<std::string> arguments;  // of gossamer
  std::map<std::string, std::string> environment;
};

class HostWorkers {
 public:
  explicit HostWorkers(Host host) : host_(std::move(host)) {}
  virtual ~HostWorkers() = default;
  HostWorkers(const HostWorkers&) = delete;
  HostWorkers& operator=(const HostWorkers&) = delete;

  // Opens a listening socket for each rank, so that no other process takes a worker's port before
  // the worker starts. only_here: the whole run is on this host. peer: a host of other workers;
  // the network to it is used.
  virtual void open_listeners(const std::vector<int>& ranks, bool only_here,
                              const std::string& peer) = 0;
  // A worker that starts a second time gets a new listener: see addresses().
  virtual void start(const WorkerStart&) = 0;
  virtual void signal(int number) = 0;  // to all its workers
  // Tells all workers to end now. The destructor waits for them.
  virtual void begin_to_end() {}
  // Appends what has happened since the last call. Does not wait.
  virtual void poll(std::vector<WorkerEvent>& events) = 0;
  // What to wait for until poll() has news.
  virtual void descriptors(std::vector<int>& readable, std::vector<int>& writable) const = 0;

  const Host& host() const { return host_; }
  // host:port of each rank's listener
  const std::map<int, std::string>& addresses() const { return addresses_; }
  // the network address of the listeners; "0.0.0.0" or empty: all networks
  const std::string& interface() const { return interface_; }

 protected:
  Host host_;
  std::map<int, std::string> addresses_;
  std::string interface_;
};

// capture: the workers' output comes as events; otherwise they write where this process writes.
// DistError if a process cannot be started.
std::unique_ptr<HostWorkers> local_workers(Host, bool capture);
// ssh: a command with its options; empty: OpenSSH's, without questions at the terminal. The other
// machine has this program under the same path.
std::unique_ptr<HostWorkers> remote_workers(Host, const std::string& ssh);

}  // namespace gossamer::apps
