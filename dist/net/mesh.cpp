// Connections among the members of a Gloo context.
#include "gossamer/dist/net/mesh.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>

#include "gossamer/core/error.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {
namespace {

using Acceptor = asio::ip::tcp::acceptor;
using Endpoint = asio::ip::tcp::endpoint;

constexpr std::size_t kMaxGuests = 64;  // one more, and the oldest goes

Endpoint any_port(const std::string& address) {
  asio::error_code error;
  const auto parsed = asio::ip::make_address(address, error);
  check<DistError>(!error, "cannot open the payload transport on ", address, ": ", error.message());
  return {parsed, 0};
}

}  // namespace

Mesh::Mesh(const std::string& address, int place, int size, MemberKeys keys, const StopSignal& stop)
    : place_(place),
      keys_(std::move(keys)),
      stop_(stop),
      secret_(greeting::fresh()),
      acceptor_(io_),
      own_address_(secret_.begin(), secret_.end()),
      awaited_(size - 1) {
  const Endpoint where = any_port(address);
  asio::error_code error;
  acceptor_.open(where.protocol(), error);
  if (!error) acceptor_.bind(where, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (!error) acceptor_.non_blocking(true, error);
  const Endpoint here = error ? where : acceptor_.local_endpoint(error);
  check<DistError>(!error, "cannot open the payload transport on ", address, ": ", error.message());
  const char* bytes = reinterpret_cast<const char*>(here.data());
  own_address_.insert(own_address_.end(), bytes, bytes + here.size());
}

Stream Mesh::join(int place, const std::vector<char>& address, Side side,
                  StopSignal::TimePoint until) {
  stop_.check();
  Stream out = side == Side::caller ? dial(place, address, until) : wait_for(place, until);
  if (--awaited_ == 0) {
    asio::error_code ignored;
    acceptor_.close(ignored);
    guests_.clear();
  }
  return out;
}

void Mesh::wait(std::vector<pollfd> waits, StopSignal::TimePoint until) {
  waits.push_back({acceptor_.native_handle(), POLLIN, 0});
  for (Guest& g : guests_) waits.push_back({g.stream.descriptor(), g.stream.events(), 0});
  stop_.poll(waits, until);
  let_in();
}

bool Mesh::is_member(const Stream& stream, int place) const {
  const auto p = static_cast<std::size_t>(place);
  return keys_.tls == nullptr ||
         (place >= 0 && p < keys_.of.size() && stream.peer() == keys_.of[p]);
}

template <class Act>
void Mesh::work_until(Stream& stream, StopSignal::TimePoint until, const Act& act) {
  while (!act()) wait({{stream.descriptor(), stream.events(), 0}}, until);
}

Stream Mesh::dial(int place, const std::vector<char>& address, StopSignal::TimePoint until) {
  Endpoint there;
  Bytes hello;
  check<DistError>(
      address.size() > secret_.size() && address.size() - secret_.size() <= there.capacity(),
      "its address has ", address.size(), " bytes; start the same program on all workers");
  std::copy_n(address.begin(), secret_.size(), hello.begin());
  std::memcpy(hello.data() + secret_.size(), &place_, sizeof place_);
  std::memcpy(there.data(), address.data() + secret_.size(), address.size() - secret_.size());
  Socket socket(io_);
  asio::error_code error;
  socket.open(there.protocol(), error);
  if (!error) socket.native_non_blocking(true, error);
  check<DistError>(!error, "no socket: ", error.message());
  const auto failed = [&](int why) {
    fail<DistError>("cannot connect to ", there.address().to_string(), ":", there.port(), ": ",
                    std::strerror(why));
  };
  const int fd = socket.native_handle();
  if (connect(fd, there.data(), static_cast<socklen_t>(there.size())) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) failed(errno);
    const auto connected = [&] {
      int why = 0;
      socklen_t size = sizeof why;
      getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &size);
      if (why != 0) failed(why);
      return socket.remote_endpoint(error).port() != 0;
    };
    while (!connected()) wait({{fd, POLLOUT, 0}}, until);
  }
  Stream stream = encrypted(std::move(socket), Side::caller);
  work_until(stream, until, [&] { return stream.shake_hands(); });
  check<DistError>(is_member(stream, place), "somebody else answers at ",
                   there.address().to_string(), ":", there.port());
  // Into an empty buffer: it takes so few bytes at once.
  const iovec whole{hello.data(), hello.size()};
  if (stream.write({&whole, 1}) != hello.size()) failed(EAGAIN);
  work_until(stream, until, [&] { return stream.flush(); });
  return stream;
}

Stream Mesh::encrypted(Socket socket, Side side) const {
  asio::error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  return {std::move(socket), side, keys_.tls.get()};
}

Stream Mesh::wait_for(int place, StopSignal::TimePoint until) {
  for (;;) {
    if (const auto found = known_.find(place); found != known_.end()) {
      Stream out = std::move(found->second);
      known_.erase(found);
      return out;
    }
    wait({}, until);
  }
}

void Mesh::let_in() {
  for (;;) {
    asio::error_code error;
    Socket socket(io_);
    acceptor_.accept(socket, error);
    if (error == asio::error::would_block) break;
    if (error == asio::error::connection_aborted) continue;
    check<DistError>(!error, "cannot take a payload connection: ", error.message());
    if (guests_.size() >= kMaxGuests) guests_.pop_front();
    guests_.push_back({encrypted(std::move(socket), Side::door)});
  }
  std::erase_if(guests_, [this](Guest& g) { return greets(g); });
}

bool Mesh::greets(Guest& g) {
  try {
    if (!g.stream.shake_hands()) return false;
    g.come +=
        g.stream.read(reinterpret_cast<char*>(g.hello.data()) + g.come, g.hello.size() - g.come);
  } catch (const DistError&) {
    return true;  // a stranger, or a member that has gone again
  }
  if (g.come < g.hello.size()) return false;
  const std::span<const std::uint8_t> hello(g.hello);
  int place = 0;
  std::memcpy(&place, g.hello.data() + secret_.size(), sizeof place);
  if (greeting::same(hello.first(secret_.size()), secret_) && is_member(g.stream, place))
    known_.insert_or_assign(place, std::move(g.stream));
  return true;
}

}  // namespace gossamer::dist
