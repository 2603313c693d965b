// Connections among the members of a Gloo context.
#include "gossamer/dist/net/mesh.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>

#include "gossamer/core/error.h"
#include "gossamer/dist/net/launch.h"
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

Mesh::Mesh(const std::string& address, int place, int size, MemberKeys keys)
    : place_(place),
      keys_(std::move(keys)),
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

void Mesh::expect(int place, const std::vector<char>& address, Side side) {
  const std::size_t of_endpoint = address.size() - std::min(address.size(), secret_.size());
  check<DistError>(of_endpoint > 0 && of_endpoint <= Endpoint().capacity(), "its address has ",
                   address.size(), " bytes; start the same program on all workers");
  if (side == Side::caller) to_call_[place] = address;
}

std::optional<Stream> Mesh::join(int place) {
  if (to_call_.contains(place)) dial(place);
  const auto found = known_.find(place);
  if (found == known_.end()) return std::nullopt;
  std::optional<Stream> out(std::move(found->second));
  known_.erase(found);
  if (--awaited_ == 0) {
    asio::error_code ignored;
    acceptor_.close(ignored);
    guests_.clear();
  }
  return out;
}

bool Mesh::go_on() {
  const std::size_t before = known_.size();
  let_in();
  for (auto each = dials_.begin(); each != dials_.end();) {
    if (is_through(each->second, each->first)) {
      known_.insert_or_assign(each->first, std::move(*each->second.stream));
      each = dials_.erase(each);
    } else {
      ++each;
    }
  }
  return known_.size() > before;
}

void Mesh::add_waits(std::vector<pollfd>& waits) {
  if (acceptor_.is_open()) waits.push_back({acceptor_.native_handle(), POLLIN, 0});
  for (Guest& g : guests_) waits.push_back({g.stream.descriptor(), g.stream.events(), 0});
  for (auto& [place, d] : dials_)
    waits.push_back(d.socket ? pollfd{d.socket->native_handle(), POLLOUT, 0}
                             : pollfd{d.stream->descriptor(), d.stream->events(), 0});
}

std::string Mesh::unanswered() const {
  std::string all;
  for (const auto& [place, d] : dials_)
    if (d.socket)
      all +=
          (all.empty() ? "" : ", ") + host_and_port(d.there.address().to_string(), d.there.port());
  return all;
}

bool Mesh::is_member(const Stream& stream, int place) const {
  const auto p = static_cast<std::size_t>(place);
  return keys_.tls == nullptr ||
         (place >= 0 && p < keys_.of.size() && stream.peer() == keys_.of[p]);
}

void Mesh::Dial::failed(int why) const {
  fail<DistError>("cannot connect to ", host_and_port(there.address().to_string(), there.port()),
                  ": ", std::strerror(why));
}

void Mesh::dial(int place) {
  const std::vector<char> address = std::move(to_call_.extract(place).mapped());
  Dial& d = dials_[place];
  std::copy_n(address.begin(), secret_.size(), d.hello.begin());
  std::memcpy(d.hello.data() + secret_.size(), &place_, sizeof place_);
  std::memcpy(d.there.data(), address.data() + secret_.size(), address.size() - secret_.size());
  d.socket.emplace(io_);
  asio::error_code error;
  d.socket->open(d.there.protocol(), error);
  if (!error) d.socket->native_non_blocking(true, error);
  check<DistError>(!error, "no socket: ", error.message());
  const int result =
      connect(d.socket->native_handle(), d.there.data(), static_cast<socklen_t>(d.there.size()));
  if (result != 0 && errno != EINPROGRESS && errno != EINTR) d.failed(errno);
}

bool Mesh::is_through(Dial& d, int place) const {
  if (d.socket) {
    int why = 0;
    socklen_t size = sizeof why;
    getsockopt(d.socket->native_handle(), SOL_SOCKET, SO_ERROR, &why, &size);
    if (why != 0) d.failed(why);
    asio::error_code not_yet;
    d.socket->remote_endpoint(not_yet);
    if (not_yet) return false;
    d.stream.emplace(encrypted(std::move(*d.socket), Side::caller));
    d.socket.reset();
  }
  if (!d.stream->shake_hands()) return false;
  if (!std::exchange(d.said_hello, true)) {
    check<DistError>(is_member(*d.stream, place), "somebody else answers at ",
                     d.there.address().to_string(), ":", d.there.port());
    // Into an empty buffer: it takes so few bytes at once.
    const iovec whole{d.hello.data(), d.hello.size()};
    if (d.stream->write({&whole, 1}) != d.hello.size()) d.failed(EAGAIN);
  }
  return d.stream->flush();
}

Stream Mesh::encrypted(Socket socket, Side side) const {
  asio::error_code ignored;
  socket.set_option(asio::ip::tcp::no_delay(true), ignored);
  return {std::move(socket), side, keys_.tls.get()};
}

void Mesh::let_in() {
  while (acceptor_.is_open()) {
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
