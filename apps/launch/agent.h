// The language of the launcher and its agents: one JSON object a line. Private to the launcher.
//   to the agent    {"do": "open", "folder", "host", "address", "ranks", "only_here", "peer"}
//   {"do": "start", "rank", "arguments", "environment"}
//                   {"do": "signal", "number"}   {"do": "nothing"}: now and then, to say that the
//                   launcher lives
//   to the launcher {"event": "hello", "version"}   "opened", "doors", "interface"   "started",
//   "rank", "pid", "door"   "ready", "rank"
//                   "ended", "rank", "status"   "output", "rank", "stream", "text"   "failed",
//                   "why"
#pragma once

#include <string>

namespace gossamer::apps {

// Without the end of line; bytes that are no text are replaced. Json: nlohmann::json, which only
// its users include.
template <class Json>
std::string agent_line(const Json& message) {
  return message.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gossamer::apps
