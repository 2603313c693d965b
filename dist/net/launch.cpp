// Reads the variables of the launcher. Nothing else in the libraries looks at the
// environment.
#include "gossamer/dist/net/launch.h"

#include <charconv>
#include <cstdlib>
#include <sstream>

#include <sys/socket.h>

#include "gossamer/core/error.h"
#include "gossamer/dist/net/launch_sources.h"
#include "gossamer/dist/net/process_group.h"
#include "gossamer/dist/net/token.h"

namespace gossamer::dist {
namespace {

std::vector<std::string> list(const char* name) {
  std::vector<std::string> items;
  std::istringstream in(variable(name).value_or(""));
  for (std::string item; std::getline(in, item, ',');) items.push_back(item);
  return items;
}

// What a user may set for any process.
void read_token(LaunchInfo& info) {
  if (const auto token = variable("GOSSAMER_TOKEN")) {
    info.token = *token;
    const std::string why = weakness(info.token);
    check<ConfigError>(why.empty(), "GOSSAMER_TOKEN ", why);
  } else if (const auto file = variable("GOSSAMER_TOKEN_FILE")) {
    info.token = token_of_file("GOSSAMER_TOKEN_FILE", *file);
  }
  info.interface = variable("GOSSAMER_INTERFACE").value_or("");
}

// What our own launcher adds, and what a user may set with any launcher.
void read_extras(LaunchInfo& info) {
  if (const auto where = variable("GOSSAMER_RENDEZVOUS")) {
    read_host_port("GOSSAMER_RENDEZVOUS", *where, info.host, info.port);
    info.local = is_loopback(info.host);
  } else if (info.local) {
    info.host = "127.0.0.1";
  }
  read_token(info);
  info.grant = variable("GOSSAMER_GRANT").value_or("");
  info.rejoin = number("GOSSAMER_REJOIN").value_or(0) != 0;
  info.seeds = list("GOSSAMER_SEEDS");
  for (const std::string& seed : info.seeds) {
    std::string host;
    int port = 0;
    read_host_port("GOSSAMER_SEEDS", seed, host, port);
  }
  info.hosts = list("GOSSAMER_HOSTS");
  if (const auto fd = number("GOSSAMER_LISTENER")) {
    int listens = 0;
    socklen_t length = sizeof listens;
    check<ConfigError>(
        getsockopt(*fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0,
        "GOSSAMER_LISTENER=", *fd,
        " is not a listening socket of this process; it is set by gossamer's launcher only");
    info.listener = *fd;
  }
}

}  // namespace

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

int integer(const std::string& what, const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    fail<ConfigError>(what, "=", text, " is not a number");
  return value;
}

std::optional<int> number(const char* name) {
  const auto text = variable(name);
  return text ? std::optional<int>(integer(name, *text)) : std::nullopt;
}

std::string first_host(const std::string& nodelist) {
  std::string host;
  for (std::size_t i = 0; i < nodelist.size() && nodelist[i] != ','; ++i) {
    if (nodelist[i] != '[') {
      host += nodelist[i];
      continue;
    }
    const auto end = nodelist.find(']', i);
    check<ConfigError>(end != std::string::npos, "node list \"", nodelist,
                       "\": a bracket is not closed");
    for (++i; i < end && nodelist[i] != '-' && nodelist[i] != ','; ++i) host += nodelist[i];
    i = end;
  }
  check<ConfigError>(!host.empty(), "node list \"", nodelist, "\" names no host");
  return host;
}

LaunchInfo launch_info() {
  LaunchInfo info;
  if (!read_gossamer(info) && !read_torchrun(info) && !read_slurm(info) && !read_openmpi(info) &&
      !read_hydra(info))
    return info;
  read_extras(info);
  return info;
}

LaunchInfo outside_info() {
  LaunchInfo info;
  read_token(info);
  return info;
}

bool encrypts(const LaunchInfo& info, const std::string& tls) {
  check<ConfigError>(tls == "auto" || tls == "on" || tls == "off", "tls=", tls,
                     " is unknown; known are: auto, on, off");
  return tls == "on" || (tls == "auto" && !info.local);
}

std::unique_ptr<Group> join(const LaunchInfo& info, const JoinOptions& options) {
  check<ConfigError>(info.size >= 1 && info.size <= kMaxWorkers, "a group of ", info.size,
                     " workers: must be 1 to ", kMaxWorkers);
  check<ConfigError>(info.all_places() <= kMaxWorkers, "a group of ", info.places,
                     " places: must be at most ", kMaxWorkers);
  check<ConfigError>(info.rank >= 0 && info.rank < (info.rejoin ? info.all_places() : info.size),
                     "rank ", info.rank, " in a group of ", info.size);
  check<ConfigError>(options.about.size() <= kLongestAbout, "what is said about a job has ",
                     options.about.size(), " bytes: must be at most ", kLongestAbout);
  check<ConfigError>(options.heartbeat_s > 0 && options.dead_after_s >= 2 * options.heartbeat_s,
                     "dead_after_s (", options.dead_after_s,
                     ") must be at least twice heartbeat_s (", options.heartbeat_s, ")");
  if (info.all_places() == 1) return solo_group();
  check<ConfigError>(info.port >= 1 && info.port <= 65535, "the rendezvous port is ", info.port,
                     ": must be 1 to 65535");
  return process_group(with_token(info, options.open), options);
}

}  // namespace gossamer::dist
