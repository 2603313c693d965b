// See wiretap.h. This program's own connect() stands before that of the C library.
#include "dist/net/wiretap.h"

#include <algorithm>
#include <cerrno>

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace gossamer::dist::testing {
namespace {

std::mutex tap_mutex;
Wiretap* tap = nullptr;

int real_connect(int socket, const sockaddr* to, socklen_t length) {
  using Connect = int (*)(int, const sockaddr*, socklen_t);
  static const auto real = reinterpret_cast<Connect>(dlsym(RTLD_NEXT, "connect"));
  return real(socket, to, length);
}

sockaddr* address(sockaddr_in& a) { return reinterpret_cast<sockaddr*>(&a); }

bool send_all(int to, const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n = send(to, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

Wiretap::Wiretap(Touch touch) : touch_(std::move(touch)) {
  const std::lock_guard lock(tap_mutex);
  tap = this;
}

Wiretap::~Wiretap() {
  {
    const std::lock_guard lock(tap_mutex);
    tap = nullptr;
  }
  for (Line& l : lines_) {
    shutdown(l.listener, SHUT_RDWR);  // ends the wait for a caller
    l.there.join();
    close(l.listener);
  }
}

std::string Wiretap::heard() const {
  const std::lock_guard lock(mutex_);
  return heard_;
}
int Wiretap::connections() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(lines_.size());
}

int Wiretap::connect(int socket, const sockaddr_in& to) {
  sockaddr_in where = to, own{};
  const int door = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (real_connect(door, address(where), sizeof where) != 0) {
    const int why = errno;
    close(door);
    errno = why;  // nobody is there
    return -1;
  }
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof own;
  EXPECT_EQ(bind(listener, address(own), sizeof own), 0);
  EXPECT_EQ(listen(listener, 1), 0);
  EXPECT_EQ(getsockname(listener, address(own), &length), 0);
  {
    const std::lock_guard lock(mutex_);
    Line& line = lines_.emplace_back();
    line.number = static_cast<int>(lines_.size()) - 1;
    line.door = door;
    line.listener = listener;
    line.there = std::thread([this, &line] { serve(line); });
  }
  return real_connect(socket, address(own), sizeof own);
}

void Wiretap::serve(Line& l) {
  l.caller = accept4(l.listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (l.caller >= 0) {
    l.back = std::thread([this, &l] { pass(l, false); });
    pass(l, true);
    l.back.join();
    close(l.caller);
  }
  close(l.door);
}

// What comes from one side goes to the other, until one of them ends, or he does.
void Wiretap::pass(Line& l, bool to_door) {
  const int from = to_door ? l.caller : l.door, to = to_door ? l.door : l.caller;
  for (bool on = true; on;) {
    std::string bytes(1 << 16, '\0');
    const ssize_t n = recv(from, bytes.data(), bytes.size(), 0);
    if (n <= 0) break;
    bytes.resize(static_cast<std::size_t>(n));
    {
      const std::lock_guard lock(mutex_);
      heard_ += bytes;
      on = !touch_ || touch_(l.number, to_door, bytes);
    }
    on = on && send_all(to, bytes);
  }
  for (const int fd : {from, to}) shutdown(fd, SHUT_RDWR);
}

}  // namespace gossamer::dist::testing

extern "C" int connect(int socket, const sockaddr* to, socklen_t length) {
  using namespace gossamer::dist::testing;
  int type = 0;
  socklen_t size = sizeof type;
  const std::lock_guard lock(tap_mutex);
  if (tap == nullptr || to->sa_family != AF_INET ||
      getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM)
    return real_connect(socket, to, length);
  sockaddr_in where{};
  std::copy_n(reinterpret_cast<const char*>(to), sizeof where, reinterpret_cast<char*>(&where));
  return tap->connect(socket, where);
}
