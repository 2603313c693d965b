// How workers meet: worker 0 listens, the others register there, get the table of addresses and
// dial one another, until there is one connection for each pair. The higher rank dials; where it
// has not come after kTurn, the lower one does, too: behind NAT or a firewall a worker can call,
// and nobody can call it. Private to dist/.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/dist/net/connection.h"
#include "gossamer/dist/net/door.h"
#include "gossamer/dist/net/launch.h"

namespace gossamer::dist {

constexpr std::chrono::seconds kTurn(3);
// Then a wrong token is the likeliest reason.
constexpr int kMaxHandshakeFailures = 30;

// Another worker, as we know it.
struct Contact {
  std::shared_ptr<Connection> link;
  Side side = Side::caller;        // ours
  wire::Address address;           // of its door
  std::uint64_t life = 0, id = 0;  // of its process, and of the connection
};

struct JoinedGroup {
  std::vector<Contact> contacts;  // by rank; our own without link
  std::shared_ptr<Door> door;     // open; the caller says what receives from now on
  // numeric; reachable for all others: payload connections bind it
  std::string local_address;
};

// Runs the io_context on the calling thread until all have met. life: of this process. DistError
// names the missing.
JoinedGroup meet(asio::io_context&, const LaunchInfo&, const JoinOptions&, const Credentials&,
                 std::uint64_t life);

// How this worker introduces itself.
wire::Frame hello(const LaunchInfo&, wire::Purpose, std::uint64_t life, std::uint16_t port);
// host:port to addresses, IPv4 first. DistError when the host is not known.
std::vector<asio::ip::tcp::endpoint> resolve(asio::io_context&, const std::string& host, int port);
// Until the name of worker 0's host, or of one that a worker that is started again may ask, is
// known: it may be new. DistError after connect_timeout_s.
void await_name(const LaunchInfo&, const JoinOptions&);
// Workers on our own host may have come over the loopback: for the others they live where we do.
std::string seen_from_outside(const std::string& host, const std::string& local_address);

}  // namespace gossamer::dist
