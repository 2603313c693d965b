// TCP connections among the members of one Gloo context. A member listens on a port of its own,
// tells the others the port and a secret over the control link, and takes the connections that
// begin with the secret; of two, the one that could call the other for the control link calls. A
// connection is made when both want it. If the job encrypts, both ends show the keys that they have
// on the control link. Nothing waits here. Private to dist/.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>

#include "gossamer/dist/net/greeting.h"
#include "gossamer/dist/net/stream.h"

namespace gossamer::dist {

class Mesh {
 public:
  using Socket = asio::ip::tcp::socket;
  // address: numeric, of ours. place: among `size` members. DistError if nobody can listen there.
  Mesh(const std::string& address, int place, int size, MemberKeys);
  // For the others' expect(): at most 64 bytes.
  const std::vector<char>& address() const { return own_address_; }
  // Where the member at `place` is, by its address(), and our side of the connection to it.
  void expect(int place, const std::vector<char>& address, Side);
  // The connection to that member, which must be expected; it joins ours, too. nullopt: not yet.
  // DistError: it can't be reached.
  std::optional<Stream> join(int place);
  // Goes on with all connections that are under way, also of members that only call us: they may be
  // what somebody waits for, for whom we wait. False: nothing has come of it.
  bool go_on();
  // poll(): until then nothing goes on.
  void add_waits(std::vector<pollfd>&);
  // Addresses that we call and that have not answered; empty: none.
  std::string unanswered() const;

 private:
  using Bytes = std::array<std::uint8_t, sizeof(greeting::Nonce) + sizeof(std::uint32_t)>;
  // A connection that has not shown the secret yet.
  struct Guest {
    Stream stream;
    Bytes hello{};
    std::size_t come = 0;
  };
  // One that we make: a socket until it is connected, then a stream.
  struct Dial {
    asio::ip::tcp::endpoint there;
    Bytes hello{};
    std::optional<Socket> socket;
    std::optional<Stream> stream;
    bool said_hello = false;
    [[noreturn]] void failed(int why) const;
  };
  void dial(int place);
  bool is_through(Dial&, int place) const;
  Stream encrypted(Socket, Side) const;
  void let_in();
  bool greets(Guest&);  // false: still to come
  bool is_member(const Stream&, int place) const;

  const int place_;
  const MemberKeys keys_;
  const greeting::Nonce secret_;
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;  // open until all have joined
  std::vector<char> own_address_;
  int awaited_;  // members that have not joined yet
  std::map<int, std::vector<char>> to_call_;
  std::map<int, Dial> dials_;
  std::deque<Guest> guests_;     // the oldest first
  std::map<int, Stream> known_;  // by place: through, and not asked for yet
};

}  // namespace gossamer::dist
