// Workers of this machine, as child processes.
#include <cerrno>
#include <cstring>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gossamer/apps/launch/host_workers.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/net/launch.h"

namespace gossamer::apps {
namespace {

struct Listener {
  Descriptor socket;
  int port = 0;
};

// Listens on a port that the kernel chooses.
Listener listen_on(const std::string& address) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  check<DistError>(getaddrinfo(address.c_str(), "0", &hints, &list) == 0, "\"", address,
                   "\" is not an address of this machine");
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  Listener out{Descriptor(socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0)), 0};
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  const bool ok = out.socket.get() >= 0 &&
                  bind(out.socket.get(), list->ai_addr, list->ai_addrlen) == 0 &&
                  listen(out.socket.get(), SOMAXCONN) == 0 &&
                  getsockname(out.socket.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0;
  check<DistError>(ok, "cannot listen on ", address, ": ", std::strerror(errno));
  out.port = ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&own)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&own)->sin_port);
  return out;
}

class LocalWorkers final : public HostWorkers {
 public:
  LocalWorkers(Host host, bool capture) : HostWorkers(std::move(host)), capture_(capture) {}
  ~LocalWorkers() override {
    for (const auto& [rank, w] : workers_) kill(w.pid, SIGKILL);
    for (const auto& [rank, w] : workers_) waitpid(w.pid, nullptr, 0);
  }

  void open_listeners(const std::vector<int>& ranks, bool only_here,
                      const std::string& peer) override {
    dist::LaunchInfo where;
    where.local = only_here;
    where.host = only_here ? "127.0.0.1" : peer;
    where.interface = host_.address;
    interface_ = dist::bind_address(where);
    for (const int rank : ranks) open_listener(rank);
    opened_ = true;
  }

  void start(const WorkerStart& what) override {
    if (!listeners_.contains(what.rank)) open_listener(what.rank);
    // Our copy closes when the worker has its own.
    const Descriptor listener = std::move(listeners_.extract(what.rank).mapped());
    Pipe status = make_pipe(), out, err;
    Child child{.self = true,
                .arguments = {"gossamer:" + std::to_string(what.rank)},
                .environment = what.environment,
                .keep = {listener.get(), status.write.get()}};
    child.arguments.insert(child.arguments.end(), what.arguments.begin(), what.arguments.end());
    child.environment["GOSSAMER_LISTENER"] = std::to_string(listener.get());
    child.environment["GOSSAMER_STATUS"] = std::to_string(status.write.get());
    if (capture_) {
      out = make_pipe();
      err = make_pipe();
      child.out = out.write.get();
      child.err = err.write.get();
    }
    Worker w{.pid = spawn(child), .status = LineReader(std::move(status.read)), .streams = {}};
    if (capture_) {
      w.streams.emplace_back(1, LineReader(std::move(out.read)));
      w.streams.emplace_back(2, LineReader(std::move(err.read)));
    }
    started_.push_back({WorkerEvent::Kind::started, what.rank, static_cast<int>(w.pid), ""});
    workers_.insert_or_assign(what.rank, std::move(w));
  }

  void signal(int number) override {
    for (const auto& [rank, w] : workers_) kill(w.pid, number);
  }

  void poll(std::vector<WorkerEvent>& events) override {
    if (std::exchange(opened_, false)) events.push_back({WorkerEvent::Kind::opened, -1, 0, ""});
    events.insert(events.end(), started_.begin(), started_.end());
    started_.clear();
    for (auto it = workers_.begin(); it != workers_.end();) {
      Worker& w = it->second;
      int status = 0;
      // Asked before its output is read, so that nothing it wrote is missed.
      const bool ended = waitpid(w.pid, &status, WNOHANG) == w.pid;
      for (const std::string& line : w.status.take())
        if (line == "ready") events.push_back({WorkerEvent::Kind::ready, it->first, 0, ""});
      for (auto& [stream, reader] : w.streams)
        for (std::string& line : reader.take())
          events.push_back({WorkerEvent::Kind::output, it->first, stream, std::move(line)});
      if (ended) events.push_back({WorkerEvent::Kind::ended, it->first, status, ""});
      it = ended ? workers_.erase(it) : std::next(it);
    }
  }

  void descriptors(std::vector<int>& readable, std::vector<int>&) const override {
    for (const auto& [rank, w] : workers_) {
      readable.push_back(w.status.descriptor());
      for (const auto& [stream, reader] : w.streams) readable.push_back(reader.descriptor());
    }
  }

 private:
  struct Worker {
    pid_t pid = 0;
    LineReader status;
    std::vector<std::pair<int, LineReader>> streams;
  };

  void open_listener(int rank) {
    Listener listener = listen_on(interface_);
    // A listener on all networks is reached by the host's name.
    const std::string name = interface_ == "0.0.0.0" ? host_.name : interface_;
    addresses_[rank] = (name.find(':') == std::string::npos ? name : "[" + name + "]") + ":" +
                       std::to_string(listener.port);
    listeners_[rank] = std::move(listener.socket);
  }

  const bool capture_;
  bool opened_ = false;
  std::map<int, Descriptor> listeners_;
  std::map<int, Worker> workers_;
  std::vector<WorkerEvent> started_;
};

}  // namespace

std::unique_ptr<HostWorkers> local_workers(Host host, bool capture) {
  return std::make_unique<LocalWorkers>(std::move(host), capture);
}

}  // namespace gossamer::apps
