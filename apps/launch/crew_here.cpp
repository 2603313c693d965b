// Workers as child processes.
#include <cerrno>
#include <cstring>

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gossamer/apps/launch/crew.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/net/launch.h"

namespace gossamer::apps {
namespace {

struct Door {
  Descriptor listener;
  int port = 0;
};

// Listens on a port that the kernel chooses.
Door open_door(const std::string& address) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_PASSIVE;
  check<DistError>(getaddrinfo(address.c_str(), "0", &hints, &list) == 0, "\"", address,
                   "\" is no address of this machine");
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  Door door{Descriptor(socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0)), 0};
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  const bool ok = door.listener.get() >= 0 &&
                  bind(door.listener.get(), list->ai_addr, list->ai_addrlen) == 0 &&
                  listen(door.listener.get(), SOMAXCONN) == 0 &&
                  getsockname(door.listener.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0;
  check<DistError>(ok, "cannot listen on ", address, ": ", std::strerror(errno));
  door.port = ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&own)->sin6_port
                                              : reinterpret_cast<sockaddr_in*>(&own)->sin_port);
  return door;
}

class CrewHere final : public Crew {
 public:
  CrewHere(Host host, bool capture) : Crew(std::move(host)), capture_(capture) {}
  ~CrewHere() override {
    for (const auto& [rank, w] : workers_) kill(w.pid, SIGKILL);
    for (const auto& [rank, w] : workers_) waitpid(w.pid, nullptr, 0);
  }

  void open(const std::vector<int>& ranks, bool only_here, const std::string& peer) override {
    dist::LaunchInfo where;
    where.local = only_here;
    where.host = only_here ? "127.0.0.1" : peer;
    where.interface = host_.address;
    interface_ = dist::bind_address(where);
    for (const int rank : ranks) open_one(rank);
    opened_ = true;
  }

  void start(const WorkerStart& what) override {
    if (!doors_to_give_.contains(what.rank)) open_one(what.rank);
    // ours closes when the worker has its own
    const Descriptor listener = std::move(doors_to_give_.extract(what.rank).mapped());
    Pipe status = make_pipe(), out, err;
    Child child{.arguments = {"self"},
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
    started_.push_back({CrewEvent::Kind::started, what.rank, static_cast<int>(w.pid), ""});
    workers_.insert_or_assign(what.rank, std::move(w));
  }

  void signal(int number) override {
    for (const auto& [rank, w] : workers_) kill(w.pid, number);
  }

  void pump(std::vector<CrewEvent>& events) override {
    if (std::exchange(opened_, false)) events.push_back({CrewEvent::Kind::opened, -1, 0, ""});
    events.insert(events.end(), started_.begin(), started_.end());
    started_.clear();
    for (auto it = workers_.begin(); it != workers_.end();) {
      Worker& w = it->second;
      int status = 0;
      const bool ended =
          waitpid(w.pid, &status, WNOHANG) == w.pid;  // before its last words are read
      for (const std::string& line : w.status.take())
        if (line == "ready") events.push_back({CrewEvent::Kind::ready, it->first, 0, ""});
      for (auto& [stream, reader] : w.streams)
        for (std::string& line : reader.take())
          events.push_back({CrewEvent::Kind::output, it->first, stream, std::move(line)});
      if (ended) events.push_back({CrewEvent::Kind::ended, it->first, status, ""});
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

  void open_one(int rank) {
    Door door = open_door(interface_);
    // A door on all networks is known by the host's name.
    const std::string name = interface_ == "0.0.0.0" ? host_.name : interface_;
    doors_[rank] = (name.find(':') == std::string::npos ? name : "[" + name + "]") + ":" +
                   std::to_string(door.port);
    doors_to_give_[rank] = std::move(door.listener);
  }

  const bool capture_;
  bool opened_ = false;
  std::map<int, Descriptor> doors_to_give_;
  std::map<int, Worker> workers_;
  std::vector<CrewEvent> started_;
};

}  // namespace

std::unique_ptr<Crew> crew_here(Host host, bool capture) {
  return std::make_unique<CrewHere>(std::move(host), capture);
}

}  // namespace gossamer::apps
