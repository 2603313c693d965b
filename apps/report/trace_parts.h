// What the player of a report shows of a trace.
// Threads: no state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gossamer::apps {

struct TraceParts {
  static constexpr std::size_t most = 4000;  // that a browser moves through without delay
  std::size_t count = 0;
  bool all = true;     // false: the first ones of a long run
  std::string json{};  // {"traceEvents":[{"ph":"X","pid":0,"name":"step","ts":1,"dur":2},…]}
};
// Steps, transfers and waiting ("meet") of a trace.json, ascending in time (microseconds). count 0:
// it holds none, or is none.
TraceParts trace_parts(std::string_view trace);

}  // namespace gossamer::apps
