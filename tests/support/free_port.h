// A port of the loopback for the workers of a test, which nobody else is given while this process
// lives.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace gossamer::testing {

// A socket at a port of the loopback that the kernel chooses.
inline int bound_socket(int* port) {
  const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof a;
  EXPECT_EQ(bind(s, reinterpret_cast<sockaddr*>(&a), sizeof a), 0);
  EXPECT_EQ(getsockname(s, reinterpret_cast<sockaddr*>(&a), &length), 0);
  *port = ntohs(a.sin_port);
  return s;
}

// The socket that got the port from the kernel is never closed, so that neither another test nor an
// outgoing connection gets it, and does not listen. It allows reuse only afterwards: one that did
// when it asked could be given a port that is held in this way already (Linux). Whoever sets
// SO_REUSEADDR, as workers do, may listen at the port.
inline int free_port() {
  int port = 0;
  const int s = bound_socket(&port), yes = 1;
  EXPECT_EQ(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
  return port;
}

}  // namespace gossamer::testing
