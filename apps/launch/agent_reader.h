// The launcher's ear for one agent (agent.h): lines in, events out. An agent may be another
// program, or one that somebody took over, so its messages are checked as those of strangers.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "gossamer/apps/launch/host_workers.h"

namespace gossamer::apps {

class AgentReader {
 public:
  // ranks: of the workers that the agent was told of
  void expect(const std::vector<int>& ranks) { ranks_ = {ranks.begin(), ranks.end()}; }
  // The agent was told to start this one.
  void ordered(int rank) { live_.insert(rank); }

  // Appends what the line says. One that is no message at all is output: a login message.
  void read(const std::string& line, std::vector<WorkerEvent>& events);

  // Why nothing more is read, in words for the user; "": nothing is wrong.
  const std::string& refusal() const { return refusal_; }
  // Ordered, and not ended yet.
  const std::set<int>& live() const { return live_; }
  // The addresses that HostWorkers gives: host:port of all ranks, after the event `opened`.
  const std::map<int, std::string>& addresses() const { return addresses_; }
  const std::string& interface() const { return interface_; }

 private:
  std::set<int> ranks_, live_;
  std::map<int, std::string> addresses_;
  std::string interface_, refusal_;
  bool greeted_ = false, opened_ = false;
};

}  // namespace gossamer::apps
