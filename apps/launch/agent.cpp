// `gossamer agent`: the launcher's hand on another machine. Commands come as JSON lines on stdin,
// events leave on stdout. When the launcher is gone, so are the workers: stdin ends with it, or
// with ssh, or with the connection; should none of that show, its silence tells.
#include "gossamer/apps/launch/agent.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include <unistd.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/launch/crew.h"
#include "gossamer/apps/version.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kLongestSilence(120);
// bytes that the launcher has not taken yet
constexpr std::size_t kMostWaiting = 16u << 20;

class Agent {
 public:
  // Until the launcher is gone or says that it is over.
  int run() {
    std::signal(SIGPIPE, SIG_IGN);
    say({{"event", "hello"}, {"version", version()}});
    auto heard = Clock::now();
    while (commands_.descriptor() >= 0 && answers_.descriptor() >= 0 &&
           Clock::now() - heard < kLongestSilence) {
      std::vector<int> readable{commands_.descriptor(), signals_.descriptor()}, writable;
      if (crew_) crew_->descriptors(readable, writable);
      if (answers_.pending()) writable.push_back(answers_.descriptor());
      wait_for(readable, writable, 5);
      answers_.flush();
      for (const std::string& line : commands_.take()) {
        heard = Clock::now();
        obey(Json::parse(line, nullptr, false));
      }
      while (const auto number = signals_.next())
        if (*number != SIGCHLD) return 128 + *number;
      tell();
    }
    return 0;
  }

  void say(const Json& event) { answers_.write(agent_line(event)); }

 private:
  void obey(const Json& command) {
    const std::string what = command.value("do", "");
    if (what == "open") {
      const std::string folder = command.at("folder");
      std::error_code error;
      std::filesystem::current_path(folder, error);
      check<DistError>(!error, "the folder ", folder, " is not there (", error.message(),
                       "); all hosts need the same, with data and runs");
      crew_ = crew_here({.name = command.at("host"), .address = command.at("address")}, true);
      crew_->open(command.at("ranks").get<std::vector<int>>(), command.at("only_here"),
                  command.at("peer"));
    } else if (what == "start" && crew_) {
      crew_->start({command.at("rank"), command.at("arguments"), command.at("environment")});
    } else if (what == "signal" && crew_) {
      crew_->signal(command.at("number"));
    }
  }

  void tell() {
    std::vector<CrewEvent> events;
    if (crew_) crew_->pump(events);
    for (const CrewEvent& e : events) {
      switch (e.kind) {
        case CrewEvent::Kind::opened:
          say({{"event", "opened"}, {"doors", doors()}, {"interface", crew_->interface()}});
          break;
        case CrewEvent::Kind::started:
          say({{"event", "started"},
               {"rank", e.rank},
               {"pid", e.value},
               {"door", crew_->doors().at(e.rank)}});
          break;
        case CrewEvent::Kind::ready:
          say({{"event", "ready"}, {"rank", e.rank}});
          break;
        case CrewEvent::Kind::ended:
          say({{"event", "ended"}, {"rank", e.rank}, {"status", e.value}});
          break;
        case CrewEvent::Kind::output:
          if (answers_.size() < kMostWaiting)
            say({{"event", "output"}, {"rank", e.rank}, {"stream", e.value}, {"text", e.text}});
          break;
        case CrewEvent::Kind::lost:
          break;
      }
    }
  }

  Json doors() const {
    Json list = Json::array();
    for (const auto& [rank, door] : crew_->doors())
      list.push_back({{"rank", rank}, {"door", door}});
    return list;
  }

  SignalInbox signals_;
  LineReader commands_{Descriptor(dup(0))};
  LineWriter answers_{Descriptor(dup(1))};
  std::unique_ptr<Crew> crew_;
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
