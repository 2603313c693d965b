// libFuzzer: what the agent of another host says, a message a line. Whatever it says, the launcher
// hears only of the agent's own workers, and has an address for each when it is told so.
//
// sources: agent_reader hosts machine version nesting utf8 cores
// libraries: -lfmt
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <sstream>

#include "gossamer/apps/launch/agent_reader.h"
#include "gossamer/apps/version.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace gossamer::apps;
  using Kind = WorkerEvent::Kind;
  AgentReader agent;
  agent.expect({1, 2});
  agent.ordered(1);
  std::vector<WorkerEvent> events;
  // Half of the inputs begin as a right agent does, which no chance would find.
  if (size > 0 && data[0] % 2 == 0)
    agent.read(R"({"event": "hello", "protocol": 2, "version": ")" + version() + "\"}", events);
  std::istringstream lines(std::string(reinterpret_cast<const char*>(data), size));
  for (std::string line; std::getline(lines, line);) agent.read(line, events);
  for (const WorkerEvent& e : events) {
    if (e.kind == Kind::lost || (e.kind != Kind::opened && (e.rank < -1 || e.rank > 2)))
      std::abort();
    if (e.rank < 1 && e.kind != Kind::opened && e.kind != Kind::output) std::abort();
  }
  const bool opened = std::ranges::count(events, Kind::opened, &WorkerEvent::kind) > 0;
  if (opened && (agent.addresses().size() != 2 || !agent.addresses().contains(1))) std::abort();
  return 0;
}
