// What encryption costs a connection for tensors: CPU seconds for a gigabyte over loopback, of both
// ends together, and how fast it is, in the clear and under TLS, interleaved.
//
//   bench_links [GIGABYTES [TIMES]]
//
// Beside it: openssl speed -evp aes-128-gcm -bytes 16384, and again with -decrypt.
#include <algorithm>
#include <asio/io_context.hpp>
#include <chrono>
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

struct Cost {
  double cpu_s = 0;   // for a gigabyte
  double gbit_s = 0;  // by the clock
};

Cost cost(std::size_t tensors, bool encrypted) {
  asio::io_context io;
  const Tls a, b;
  tcp::acceptor listens(io, {asio::ip::address_v4::loopback(), 0});
  tcp::socket near(io), far(io);
  near.connect(listens.local_endpoint());
  listens.accept(far);
  Stream from(std::move(near), Side::caller, encrypted ? &a : nullptr),
      to(std::move(far), Side::door, encrypted ? &b : nullptr);
  std::vector<char> sent(kTensor, 'x'), got(kTensor);
  std::thread hands([&] { shake_hands(to); });
  shake_hands(from);
  hands.join();
  const double before = cpu_s();
  const auto began = std::chrono::steady_clock::now();
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
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  const double gigabytes = static_cast<double>(tensors * kTensor) / 1e9;
  return {(cpu_s() - before) / gigabytes, 8 * gigabytes / took.count()};
}

}  // namespace

int main(int argc, char** argv) {
  const double gigabytes = argc > 1 ? std::atof(argv[1]) : 2;
  const int times = argc > 2 ? std::atoi(argv[2]) : 5;
  const auto tensors =
      std::max<std::size_t>(1, static_cast<std::size_t>(gigabytes * 1e9 / kTensor));
  std::vector<Cost> plain, encrypted;
  for (int i = 0; i < times; ++i) {
    plain.push_back(cost(tensors, false));
    encrypted.push_back(cost(tensors, true));
    std::printf("clear %.3f  TLS %.3f  CPU seconds a GB, %.3f and %.3f Gbit/s\n",
                plain.back().cpu_s, encrypted.back().cpu_s, plain.back().gbit_s,
                encrypted.back().gbit_s);
  }
  const auto median = [](std::vector<Cost>& of, double Cost::*what) {
    std::ranges::sort(of, {}, what);
    return of[of.size() / 2].*what;
  };
  std::printf(
      "median: clear %.3f  TLS %.3f  CPU seconds a GB, rate under TLS %.3f of that in clear\n",
      median(plain, &Cost::cpu_s), median(encrypted, &Cost::cpu_s),
      median(encrypted, &Cost::gbit_s) / median(plain, &Cost::gbit_s));
}
