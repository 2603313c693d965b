// OpenSSL reads from the socket. What it writes is gathered first, since a system call for each
// record of 16 KB would take as long as its encryption.
#include "gossamer/dist/net/stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

// Both stay in a cache. OpenSSL moves what is left of its buffer to the front for every record, so
// two records at once cost less than many.
constexpr std::size_t kGathered = std::size_t{64} << 10, kReadAtOnce = std::size_t{33} << 10;

// How many bytes a system call moved; 0: none now.
std::size_t moved(ssize_t result) {
  if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
  check<DistError>(result >= 0, "the connection was lost: ", std::strerror(errno));
  return static_cast<std::size_t>(result);
}

[[noreturn]] void fail_closed() { fail<DistError>("the connection was closed by the other side"); }

}  // namespace

struct Stream::Encryption {
  Encryption(Tls::Session of_tls, int socket, std::size_t bytes)
      : session(std::move(of_tls)), descriptor(socket), bytes_of_a_key(bytes) {}

  Tls::Session session;
  int descriptor;
  std::size_t bytes_of_a_key, under_this_key = 0;
  std::vector<char> gathered{};  // encrypted
  std::size_t sent = 0;          // of them
  bool shaken = false, closed = false;
  int error = 0;  // of the last read

  static Encryption& of(BIO* bio) { return *static_cast<Encryption*>(BIO_get_data(bio)); }
  static int gather(BIO* bio, const char* bytes, int length) {
    auto& gathered = of(bio).gathered;
    gathered.insert(gathered.end(), bytes, bytes + length);
    return length;
  }
  static int receive(BIO* bio, char* to, int length) {
    Encryption& e = of(bio);
    BIO_clear_retry_flags(bio);
    const ssize_t got = recv(e.descriptor, to, static_cast<std::size_t>(length), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
      BIO_set_retry_read(bio);
    else if (got < 0)
      e.error = errno;
    e.closed = e.closed || got == 0;
    return static_cast<int>(got);
  }
  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }
  static BIO_METHOD* method() {
    static BIO_METHOD* const made = [] {
      BIO_METHOD* const m =
          BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gossamer socket");
      check<DistError>(m != nullptr && BIO_meth_set_write(m, gather) == 1 &&
                           BIO_meth_set_read(m, receive) == 1 && BIO_meth_set_ctrl(m, control) == 1,
                       "OpenSSL cannot use a socket: ", tls_error());
      return m;
    }();
    return made;
  }

  void begin(Side side) {
    BIO* const bio = BIO_new(method());
    check<DistError>(bio != nullptr, "OpenSSL cannot use a socket: ", tls_error());
    BIO_set_data(bio, this);
    BIO_set_init(bio, 1);
    SSL* const s = session.get();
    SSL_set_bio(s, bio, bio);
    SSL_set_read_ahead(s, 1);
    SSL_set_default_read_buffer_len(s, kReadAtOnce);
    if (side == Side::caller)
      SSL_set_connect_state(s);
    else
      SSL_set_accept_state(s);
  }

  // The result of a call of OpenSSL; false: it cannot go on now.
  bool went_well(int result) {
    if (result > 0) return true;
    const int why = SSL_get_error(session.get(), result);
    if (why == SSL_ERROR_WANT_READ) return false;
    if (closed || why == SSL_ERROR_ZERO_RETURN) fail_closed();
    check<DistError>(error == 0, "the connection was lost: ", std::strerror(error));
    fail<DistError>("the encryption of the connection failed: ", tls_error());
  }

  bool full() const { return gathered.size() - sent >= kGathered; }
  bool flush() {
    while (sent < gathered.size()) {
      const std::size_t n = moved(send(descriptor, gathered.data() + sent, gathered.size() - sent,
                                       MSG_NOSIGNAL | MSG_DONTWAIT));
      if (n == 0) return false;
      sent += n;
    }
    gathered.clear();
    sent = 0;
    return true;
  }

  bool shake_hands() {
    if (!shaken) {
      ERR_clear_error();
      shaken = went_well(SSL_do_handshake(session.get()));
    }
    return flush() && shaken;
  }

  std::size_t read(char* to, std::size_t bytes) {
    std::size_t all = 0, got = 0;
    ERR_clear_error();
    while (all < bytes && went_well(SSL_read_ex(session.get(), to + all, bytes - all, &got)))
      all += got;
    return all;
  }

  std::size_t write(std::span<const iovec> parts) {
    std::size_t all = 0, got = 0;
    ERR_clear_error();
    for (const iovec& part : parts) {
      const char* const data = static_cast<const char*>(part.iov_base);
      for (std::size_t done = 0; done < part.iov_len; done += got, all += got) {
        if (full() && !flush() && full()) return all;
        if (under_this_key >= bytes_of_a_key) {
          (void)went_well(SSL_key_update(session.get(), SSL_KEY_UPDATE_NOT_REQUESTED));
          under_this_key = 0;
        }
        // It takes a record, and never has to wait: gather() has room.
        check<DistError>(SSL_write_ex(session.get(), data + done, part.iov_len - done, &got) == 1,
                         "the encryption of the connection failed: ", tls_error());
        under_this_key += got;
      }
    }
    (void)flush();
    return all;
  }
};

Stream::Stream(Socket socket, Side side, const Tls* tls, std::size_t bytes_of_a_key)
    : socket_(std::move(socket)) {
  if (tls == nullptr) return;
  tls_ = std::make_unique<Encryption>(tls->session(), socket_.native_handle(), bytes_of_a_key);
  tls_->begin(side);
}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

bool Stream::shake_hands() {
  if (!tls_) return true;
  if (!tls_->shake_hands()) return false;
  peer_ = peer_key(tls_->session.get());
  return true;
}

std::size_t Stream::read(char* to, std::size_t bytes) {
  if (bytes == 0) return 0;
  if (tls_) return tls_->read(to, bytes);
  const ssize_t got = recv(socket_.native_handle(), to, bytes, MSG_DONTWAIT);
  if (got == 0) fail_closed();
  return moved(got);
}

std::size_t Stream::write(std::span<const iovec> parts) {
  if (tls_) return tls_->write(parts);
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts.data());
  message.msg_iovlen = parts.size();
  return moved(sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

bool Stream::flush() { return !tls_ || tls_->flush(); }

short Stream::events() const {
  return tls_ && tls_->sent < tls_->gathered.size() ? POLLOUT : POLLIN;
}

}  // namespace gossamer::dist
