// TCP connections among the members of one Gloo context. A member listens on a port of its own,
// tells the others the port and a secret over the control link, and takes the connections that
// begin with the secret; of two, the one that could call the other for the control link calls. If
// the job encrypts, both ends show the keys that they have on the control link. Private to dist/.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "gossamer/dist/net/greeting.h"
#include "gossamer/dist/net/stop_signal.h"
#include "gossamer/dist/net/stream.h"

namespace gossamer::dist {

class Mesh {
 public:
  using Socket = asio::ip::tcp::socket;
  // address: numeric, of ours. place: among `size` members. DistError if nobody can listen there.
  Mesh(const std::string& address, int place, int size, MemberKeys, const StopSignal&);
  // What the others give to their join(): at most 64 bytes.
  const std::vector<char>& address() const { return own_address_; }
  // A connection to the member at `place`, whose address() this is; it joins ours at the same time.
  // side: ours; the other one is that of the other member. DistError: it can't be reached;
  // DistTimeout at `until`.
  Stream join(int place, const std::vector<char>& address, Side side, StopSignal::TimePoint until);

 private:
  using Bytes = std::array<std::uint8_t, sizeof(greeting::Nonce) + sizeof(std::uint32_t)>;
  // A connection that has not shown the secret yet.
  struct Guest {
    Stream stream;
    Bytes hello{};
    std::size_t come = 0;
  };
  Stream dial(int place, const std::vector<char>& address, StopSignal::TimePoint until);
  Stream wait_for(int place, StopSignal::TimePoint until);
  Stream encrypted(Socket, Side) const;
  void let_in();
  bool greets(Guest&);  // false: still to come
  bool is_member(const Stream&, int place) const;
  // Goes on with `act` until it holds, and lets in meanwhile who calls: members that call each
  // other in a ring would wait for ever.
  template <class Act>
  void work_until(Stream&, StopSignal::TimePoint until, const Act& act);
  void wait(std::vector<pollfd> also, StopSignal::TimePoint until);

  const int place_;
  const MemberKeys keys_;
  const StopSignal& stop_;
  const greeting::Nonce secret_;
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  std::vector<char> own_address_;
  int awaited_;                  // members that were not joined yet
  std::deque<Guest> guests_;     // the oldest first
  std::map<int, Stream> known_;  // by place: they came before they were asked for
};

}  // namespace gossamer::dist
