// `gossamer agent`, the launcher's part on another host, and the messages between the two: one JSON
// object a line. Private to the launcher.
//   to the agent:
//     {"do": "open", "protocol", "folder", "host", "address", "ranks", "only_here", "peer"}
//     {"do": "start", "rank", "arguments", "environment"}
//     {"do": "signal", "number"}
//     {"do": "nothing"}             every few seconds: the launcher is alive
//   to the launcher:
//     {"event": "hello", "version", "protocol"}
//     {"event": "opened", "addresses", "interface"}
//     {"event": "started", "rank", "pid", "address"}
//     {"event": "ready", "rank"}
//     {"event": "ended", "rank", "status"}
//     {"event": "output", "rank", "stream", "text"}
//     {"event": "failed", "why"}
// Each side refuses another one whose protocol is not its own.
#pragma once

#include <string>
#include <string_view>

#include "gossamer/core/text/json.h"
#include "gossamer/core/text/utf8.h"

namespace gossamer::apps {

// Starts and watches the workers of this host until the launcher closes its input. Returns the exit
// code.
int agent();

// One more with each change of these messages; a side that names none has protocol 1.
constexpr int kAgentProtocol = 2;
inline std::string refused_protocol(const char* who, int theirs) {
  return std::string(who) + " launch protocol " + std::to_string(theirs) + ", this machine's " +
         std::to_string(kAgentProtocol) + "; install the same gossamer on all hosts";
}

template <class Json>
void change_texts(Json& message, std::string (*change)(std::string_view)) {
  if (message.is_string())
    message = change(message.template get<std::string>());
  else if (message.is_structured())
    for (Json& each : message) change_texts(each, change);
}

// The line of a message, without its end, and back. Paths may have bytes that are not UTF-8, which
// JSON cannot hold. A message is discarded() if the line is none. Json is nlohmann::json, which
// only the callers include.
template <class Json>
std::string agent_line(Json message) {
  change_texts(message, to_text);
  return message.dump();
}
template <class Json>
Json agent_message(const std::string& line) {
  auto message = parse_json<Json>(line);
  change_texts(message, from_text);
  return message;
}

}  // namespace gossamer::apps
