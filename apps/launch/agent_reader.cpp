// See agent_reader.h.
#include "gossamer/apps/launch/agent_reader.h"

#include <charconv>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "gossamer/apps/launch/agent.h"
#include "gossamer/apps/version.h"
#include "gossamer/core/error.h"

namespace gossamer::apps {
namespace {

using Json = nlohmann::json;
constexpr int kAny = std::numeric_limits<int>::max();

// Each of these: DistError if the message has no such value.
std::string text(const Json& e, const char* key) {
  const auto at = e.find(key);
  check<DistError>(at != e.end() && at->is_string(), "without a text \"", key, "\"");
  return at->get<std::string>();
}
int whole(const Json& e, const char* key, int least, int most) {
  const auto at = e.find(key);
  check<DistError>(
      at != e.end() && at->is_number_integer() &&
          (at->is_number_unsigned() ? at->get<std::uint64_t>() <= static_cast<std::uint64_t>(kAny)
                                    : at->get<std::int64_t>() >= -kAny),
      "without a whole number \"", key, "\"");
  const auto value = at->get<std::int64_t>();
  check<DistError>(value >= least && value <= most, "with \"", key, "\" = ", value);
  return static_cast<int>(value);
}
int one_of(const std::set<int>& ranks, const Json& e) {
  const int rank = whole(e, "rank", 0, kAny);
  check<DistError>(ranks.contains(rank), "of worker ", rank, ", which it has not");
  return rank;
}
// It goes to the other workers.
std::string address(const Json& e) {
  std::string given = text(e, "address");
  const std::size_t port = given.rfind(':') + 1;
  std::uint16_t number = 0;
  const auto [end, error] =
      std::from_chars(given.data() + port, given.data() + given.size(), number);
  check<DistError>(port > 1 && error == std::errc() && end == given.data() + given.size() &&
                       number > 0 && is_host_name(given.substr(0, port - 1)),
                   "with an address that is none");
  return given;
}

}  // namespace

void AgentReader::read(const std::string& line, std::vector<WorkerEvent>& events) {
  using Kind = WorkerEvent::Kind;
  if (!refusal_.empty()) return;
  const auto e = agent_message<Json>(line);
  if (!e.is_object() || !e.contains("event")) {
    if (!line.empty()) events.push_back({Kind::output, -1, 2, line});
    return;
  }
  std::string what = "?";
  try {
    what = text(e, "event");
    if (what == "failed") {
      refusal_ = text(e, "why");
      if (refusal_.empty()) refusal_ = "it failed";
      return;
    }
    const bool in_time = !greeted_  ? what == "hello"
                         : !opened_ ? what == "opened"
                                    : what != "hello" && what != "opened";
    check<DistError>(in_time, "that comes too early or too late");
    if (what == "hello") {
      const int protocol = e.contains("protocol") ? whole(e, "protocol", 1, kAny) : 1;
      if (const std::string theirs = text(e, "version"); theirs != version())
        refusal_ = "it has gossamer " + theirs + ", this machine has " + version() +
                   "; install the same version on all hosts";
      else if (protocol != kAgentProtocol)
        refusal_ = refused_protocol("its gossamer has", protocol);
      greeted_ = true;
    } else if (what == "opened") {
      const Json& list = e.at("addresses");
      check<DistError>(list.is_array() && list.size() == ranks_.size(),
                       "without an address for each of its workers");
      for (const Json& each : list) addresses_[one_of(ranks_, each)] = address(each);
      check<DistError>(addresses_.size() == ranks_.size(),
                       "without an address for each of its workers");
      interface_ = text(e, "interface");
      check<DistError>(interface_.empty() || is_host_name(interface_),
                       "with an address that is none");
      opened_ = true;
      events.push_back({Kind::opened, -1, 0, ""});
    } else if (what == "started") {
      const int rank = one_of(live_, e);
      addresses_[rank] = address(e);
      events.push_back({Kind::started, rank, whole(e, "pid", 1, kAny), ""});
    } else if (what == "ready") {
      events.push_back({Kind::ready, one_of(live_, e), 0, ""});
    } else if (what == "ended") {
      const int rank = one_of(live_, e);
      events.push_back({Kind::ended, rank, whole(e, "status", 0, 0xffff), ""});
      live_.erase(rank);
    } else if (what == "output") {
      events.push_back(
          {Kind::output, one_of(ranks_, e), whole(e, "stream", 1, 2), text(e, "text")});
    } else {
      fail<DistError>("that is unknown");
    }
  } catch (const std::exception& wrong) {  // of a check above, or of the JSON library
    const bool ours = dynamic_cast<const DistError*>(&wrong) != nullptr;
    refusal_ = "its agent sent an unknown message (\"" + what + "\" " +
               (ours ? wrong.what() : "that is no such message") +
               "); install the same gossamer on all hosts";
  }
}

}  // namespace gossamer::apps
