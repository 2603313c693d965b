// What encryption costs a connection for tensors: CPU seconds for a gigabyte over loopback, of both
// ends together, in the clear and under TLS, interleaved.
//
//   bench_links [GIGABYTES [TIMES]]
//
// Beside it: openssl speed -evp aes-128-gcm -bytes 16384, and again with -decrypt.
#include <algorithm>
#include <asio/io_context.hpp>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/resource.h>

#include "gossamer/dist/net/stream.h"

using namespace gossamer::dist;
using asio::ip::tcp;

namespace {

constexpr std::size_t kTensor = std::size_t{64} << 20;

double cpu_s() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto s = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return s(used.ru_utime) + s(used.ru_stime);
}

void wait_for(Stream& stream, short events) {
  pollfd one{stream.descriptor(), events, 0};
  poll(&one, 1, -1);
}

void shake_hands(Stream& stream) {
  while (!stream.shake_hands()) wait_for(stream, stream.events());
}

// CPU seconds for a gigabyte.
double cost(std::size_t tensors, bool encrypted) {
  asio::io_context io;
  const Tls a, b;
  tcp::acceptor listens(io, {asio::ip::address_v4::loopback(), 0});
  tcp::socket near(io), far(io);
  near.connect(listens.local_endpoint());
  listens.accept(far);
  Stream from(std::move(near), Stream::Side::caller, encrypted ? &a : nullptr),
      to(std::move(far), Stream::Side::door, encrypted ? &b : nullptr);
  std::vector<char> sent(kTensor, 'x'), got(kTensor);
  std::thread hands([&] { shake_hands(to); });
  shake_hands(from);
  hands.join();
  const double before = cpu_s();
  std::thread reader([&] {
    for (std::size_t i = 0; i < tensors; ++i)
      for (std::size_t come = 0; come < kTensor;) {
        const std::size_t n = to.read(got.data() + come, kTensor - come);
        if (n == 0) wait_for(to, POLLIN);
        come += n;
      }
  });
  for (std::size_t i = 0; i < tensors; ++i)
    for (std::size_t done = 0; done < kTensor || !from.flush();) {
      const iovec rest{sent.data() + done, kTensor - done};
      const std::size_t n = done < kTensor ? from.write({&rest, 1}) : 0;
      if (n == 0) wait_for(from, POLLOUT);
      done += n;
    }
  reader.join();
  return (cpu_s() - before) / (static_cast<double>(tensors * kTensor) / 1e9);
}

}  // namespace

int main(int argc, char** argv) {
  const double gigabytes = argc > 1 ? std::atof(argv[1]) : 2;
  const int times = argc > 2 ? std::atoi(argv[2]) : 5;
  const auto tensors =
      std::max<std::size_t>(1, static_cast<std::size_t>(gigabytes * 1e9 / kTensor));
  std::vector<double> plain, encrypted;
  for (int i = 0; i < times; ++i) {
    plain.push_back(cost(tensors, false));
    encrypted.push_back(cost(tensors, true));
    std::printf("clear %.3f  TLS %.3f  CPU seconds a GB\n", plain.back(), encrypted.back());
  }
  std::ranges::sort(plain);
  std::ranges::sort(encrypted);
  const auto middle = static_cast<std::size_t>(times / 2);
  std::printf("median: clear %.3f  TLS %.3f  difference %.3f\n", plain[middle], encrypted[middle],
              encrypted[middle] - plain[middle]);
}
