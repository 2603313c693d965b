// On which address of this machine a worker listens.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/dist/net/launch_sources.h"

namespace gossamer::dist {
namespace {

struct Interface {
  std::string name, address;
  bool loopback = false, v6 = false;
};

std::optional<std::string> numeric(const sockaddr* address) {
  char text[NI_MAXHOST];
  if (address == nullptr || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
    return std::nullopt;
  const socklen_t length =
      address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  if (getnameinfo(address, length, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0)
    return std::nullopt;
  return std::string(text);
}

// The interfaces that are up, those with IPv4 first.
std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  const bool listed_all = getifaddrs(&list) == 0;
  check<DistError>(listed_all, "cannot list the network interfaces: ", std::strerror(errno));
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    const auto address = numeric(i->ifa_addr);
    // fe80::…%eth0 needs its scope
    if (!address || (i->ifa_flags & IFF_UP) == 0 || address->find('%') != std::string::npos)
      continue;
    found.push_back({i->ifa_name, *address, (i->ifa_flags & IFF_LOOPBACK) != 0,
                     i->ifa_addr->sa_family == AF_INET6});
  }
  std::stable_partition(found.begin(), found.end(), [](const Interface& i) { return !i.v6; });
  return found;
}

// v6: which of an interface's addresses is wanted, if it has both kinds.
std::string of_interface(const std::string& wanted, bool v6) {
  std::string known, found;
  for (const Interface& i : interfaces()) {
    if (i.address == wanted || (i.name == wanted && i.v6 == v6)) return i.address;
    if (i.name == wanted && found.empty()) found = i.address;
    known += (known.empty() ? "" : ", ") + i.name + " " + i.address;
  }
  if (!found.empty()) return found;
  fail<ConfigError>("network interface ", wanted,
                    ": this machine has no such interface or address; it has ", known);
}

bool is_link_local(const std::string& host) {
  const std::string begin = host.substr(0, 4);
  return host.find('%') != std::string::npos ||
         (begin >= "fe80" && begin <= "febf" && host.find(':') != std::string::npos);
}

// Which of our addresses the kernel would use as the source of packets to `host`. Nothing is sent.
std::optional<std::string> route_to(const std::string& host, int port) {
  addrinfo hints{}, *list = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(host.c_str(), std::to_string(port > 0 ? port : 9).c_str(), &hints, &list) != 0)
    return std::nullopt;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
      if (a->ai_family != family) continue;
      const int fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      if (fd < 0) continue;
      sockaddr_storage own{};
      socklen_t length = sizeof own;
      const bool ok = connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
                      getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) == 0;
      close(fd);
      if (ok) return numeric(reinterpret_cast<sockaddr*>(&own));
    }
  }
  return std::nullopt;
}

}  // namespace

std::string bind_address(const LaunchInfo& info) {
  if (info.local)
    return is_loopback(info.host) && info.host != "localhost" ? info.host : "127.0.0.1";
  check<ConfigError>(!is_link_local(info.host), "worker 0's address ", info.host,
                     " is of one link only (fe80::…), and means another machine on each; give one "
                     "that all workers reach");
  if (info.interface == "0.0.0.0") return info.interface;
  const auto own = route_to(info.host, info.port);
  if (!info.interface.empty())
    return of_interface(info.interface, own && own->find(':') != std::string::npos);
  if (own && !is_loopback(*own)) return *own;
  // Worker 0's host is this one, and its name means the loopback here. With one network there is no
  // doubt which address others use.
  std::vector<std::string> others;
  for (const Interface& i : interfaces())
    if (!i.loopback && !i.v6) others.push_back(i.address);
  if (others.empty()) return own.value_or("127.0.0.1");  // nobody else can come
  check<ConfigError>(others.size() == 1, "worker ", info.rank, " is on ", info.host,
                     ", a name of this machine, which has several networks: ", listed(others),
                     "; name the one that leads to the other workers: GOSSAMER_INTERFACE=eth0, or "
                     "its address (in C: network); 0.0.0.0 listens on all");
  return others.front();
}

std::string host_and_port(const std::string& host, int port) {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string worker_name(const LaunchInfo& info, int rank) {
  const auto r = static_cast<std::size_t>(rank);
  return std::to_string(rank) +
         (r < info.hosts.size() && !info.hosts[r].empty() ? " (" + info.hosts[r] + ")" : "");
}

}  // namespace gossamer::dist
