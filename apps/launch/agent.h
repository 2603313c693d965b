// `gossamer agent`, the launcher's part on another host, and the messages between the two: one JSON
// object a line. Private to the launcher.
//   to the agent:
//     {"do": "open", "folder", "host", "address", "ranks", "only_here", "peer"}
//     {"do": "start", "rank", "arguments", "environment"}
//     {"do": "signal", "number"}
//     {"do": "nothing"}             every few seconds: the launcher is alive
//   to the launcher:
//     {"event": "hello", "version"}
//     {"event": "opened", "addresses", "interface"}
//     {"event": "started", "rank", "pid", "address"}
//     {"event": "ready", "rank"}
//     {"event": "ended", "rank", "status"}
//     {"event": "output", "rank", "stream", "text"}
//     {"event": "failed", "why"}
#pragma once

#include <string>

namespace gossamer::apps {

// Starts and watches the workers of this host until the launcher closes its input. Returns the exit
// code.
int agent();

// The line of a message, without its end; bytes that are not UTF-8 are replaced. Json is
// nlohmann::json, which only the callers include.
template <class Json>
std::string agent_line(const Json& message) {
  return message.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gossamer::apps
