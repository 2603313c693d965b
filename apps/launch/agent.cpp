// `gossamer agent`: the launcher's part on another machine. Commands come as JSON lines on stdin,
// events leave on stdout. The workers end with the launcher: then stdin ends, because the launcher,
// ssh or the connection is gone, or no command comes for two minutes.
#include "gossamer/apps/launch/agent.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include "gossamer/apps/launch/host_workers.h"
#include "gossamer/apps/version.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLongestSilence(120);
// Output beyond this many bytes that the launcher has not read is dropped.
constexpr std::size_t kMostPending = 16u << 20;

class Agent {
 public:
  // Serves until the launcher is gone or signals the end. Returns the exit code.
  int run() {
    say({{"event", "hello"}, {"version", version()}, {"protocol", kAgentProtocol}});
    auto last_command = Clock::now();
    while (commands_.descriptor() >= 0 && answers_.descriptor() >= 0 &&
           Clock::now() - last_command < kLongestSilence) {
      std::vector<int> readable{commands_.descriptor(), signals_.descriptor()}, writable;
      if (workers_) workers_->descriptors(readable, writable);
      if (answers_.pending()) writable.push_back(answers_.descriptor());
      wait_for(readable, writable, 5);
      answers_.flush();
      for (const std::string& line : commands_.take()) {
        last_command = Clock::now();
        execute(agent_message<Json>(line));
      }
      while (const auto number = signals_.next())
        if (*number != SIGCHLD) return 128 + *number;
      report();
    }
    return 0;
  }

  void say(const Json& event) { answers_.write(agent_line(event)); }

 private:
  void execute(const Json& command) {
    const std::string what = command.value("do", "");
    if (what == "open") {
      const int protocol = command.value("protocol", 1);
      check<DistError>(protocol == kAgentProtocol,
                       refused_protocol("the launcher's gossamer has", protocol));
      const std::string folder = command.at("folder");
      std::error_code error;
      std::filesystem::current_path(folder, error);
      check<DistError>(!error, "the folder ", folder, " does not exist on this host (",
                       error.message(), "); all hosts need the same folder, with data and runs");
      workers_ =
          local_workers({.name = command.at("host"), .address = command.at("address")}, true);
      workers_->open_listeners(command.at("ranks").get<std::vector<int>>(), command.at("only_here"),
                               command.at("peer"));
    } else if (what == "start" && workers_) {
      workers_->start({command.at("rank"), command.at("arguments"), command.at("environment")});
    } else if (what == "signal" && workers_) {
      workers_->signal(command.at("number"));
    }
  }

  void report() {
    std::vector<WorkerEvent> events;
    if (workers_) workers_->poll(events);
    for (const WorkerEvent& e : events) {
      switch (e.kind) {
        case WorkerEvent::Kind::opened:
          say({{"event", "opened"},
               {"addresses", addresses()},
               {"interface", workers_->interface()}});
          break;
        case WorkerEvent::Kind::started:
          say({{"event", "started"},
               {"rank", e.rank},
               {"pid", e.value},
               {"address", workers_->addresses().at(e.rank)}});
          break;
        case WorkerEvent::Kind::ready:
          say({{"event", "ready"}, {"rank", e.rank}});
          break;
        case WorkerEvent::Kind::ended:
          say({{"event", "ended"}, {"rank", e.rank}, {"status", e.value}});
          break;
        case WorkerEvent::Kind::output:
          if (answers_.size() < kMostPending)
            say({{"event", "output"}, {"rank", e.rank}, {"stream", e.value}, {"text", e.text}});
          break;
        case WorkerEvent::Kind::lost:
          break;
      }
    }
  }

  Json addresses() const {
    Json list = Json::array();
    for (const auto& [rank, address] : workers_->addresses())
      list.push_back({{"rank", rank}, {"address", address}});
    return list;
  }

  SignalInbox signals_;
  LineReader commands_{Descriptor(dup(0))};
  LineWriter answers_{Descriptor(dup(1))};
  std::unique_ptr<HostWorkers> workers_;
};

}  // namespace

int agent() {
  Agent agent;
  try {
    return agent.run();
  } catch (const std::exception& e) {
    agent.say({{"event", "failed"}, {"why", e.what()}});
    return 5;
  }
}

}  // namespace gossamer::apps
