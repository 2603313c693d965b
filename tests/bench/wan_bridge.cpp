// A wide network on one machine: network namespaces joined by TUN devices, with delay, jitter, loss
// and rate. Each namespace has an access link of this rate in both directions, with a queue for
// what does not fit; between any two lie the delay and the loss. Needs root. tests/bench/wan makes
// the namespaces and runs it.
//
//   wan_bridge DELAY_MS JITTER_MS LOSS MBIT NAMESPACE...
//
// DELAY_MS, JITTER_MS: of one way. LOSS: of packets, 0 to 1. The device of the k-th namespace (from
// 1) is wan0 with the address 10.77.0.k. Prints "ready"; at its end (SIGTERM) what was carried.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;
constexpr double kQueue_s = .1;  // what an access link holds back; more is lost

[[noreturn]] void fail(const std::string& what) {
  std::perror(what.c_str());
  std::exit(1);
}

int open_device(const std::string& name) {
  const int space = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0) fail(name);
  close(space);
  const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) fail("/dev/net/tun");
  ifreq request{};
  std::strcpy(request.ifr_name, "wan0");
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  if (ioctl(fd, TUNSETIFF, &request) != 0) fail("TUNSETIFF");
  return fd;
}

// One direction of an access link.
class Access {
 public:
  explicit Access(double mbit) : bytes_a_second_(mbit * 1e6 / 8) {}
  // When a packet that comes now has gone through; below 0: there is no room.
  double through(double now, std::size_t bytes) {
    const double begin = std::max(now, free_);
    if (begin - now > kQueue_s) return -1;
    return free_ = begin + static_cast<double>(bytes) / bytes_a_second_;
  }

 private:
  double bytes_a_second_, free_ = 0;
};

struct Packet {
  double due;
  std::uint64_t number;  // those due at the same time stay in order
  std::size_t to;
  bool at_receiver;  // it has gone through the receiver's access link
  std::vector<char> bytes;
};
struct Later {
  bool operator()(const Packet& a, const Packet& b) const {
    return a.due != b.due ? a.due > b.due : a.number > b.number;
  }
};

volatile std::sig_atomic_t stopped = 0;

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fputs("usage: wan_bridge DELAY_MS JITTER_MS LOSS MBIT NAMESPACE...\n", stderr);
    return 2;
  }
  const double delay = std::atof(argv[1]) / 1e3, jitter = std::atof(argv[2]) / 1e3,
               loss = std::atof(argv[3]), mbit = std::atof(argv[4]);
  std::vector<int> devices;
  std::vector<Access> up, down;
  for (int i = 5; i < argc; ++i) {
    devices.push_back(open_device(argv[i]));
    up.emplace_back(mbit);
    down.emplace_back(mbit);
  }
  std::signal(SIGTERM, [](int) { stopped = 1; });
  std::puts("ready");
  std::fflush(stdout);

  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> uniform;
  std::priority_queue<Packet, std::vector<Packet>, Later> on_the_way;
  std::vector<double> last(devices.size() * devices.size(), 0);  // packets do not overtake
  std::uint64_t number = 0, lost = 0, full = 0, carried = 0;
  const auto start = Clock::now();
  const auto now = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::vector<pollfd> waits;
  for (const int fd : devices) waits.push_back({fd, POLLIN, 0});
  std::array<char, 65536> buffer{};
  while (!stopped) {
    const double until = on_the_way.empty() ? now() + .1 : on_the_way.top().due;
    const double wait = std::max(0.0, until - now());
    timespec time{static_cast<time_t>(wait),
                  static_cast<long>((wait - static_cast<double>(static_cast<time_t>(wait))) * 1e9)};
    ppoll(waits.data(), waits.size(), &time, nullptr);
    for (std::size_t from = 0; from < devices.size(); ++from) {
      if ((waits[from].revents & POLLIN) == 0) continue;
      for (ssize_t n; (n = read(devices[from], buffer.data(), buffer.size())) > 0;) {
        const auto bytes = static_cast<std::size_t>(n);
        if (bytes < 20 || buffer[0] >> 4 != 4) continue;  // IPv4 alone
        const auto to = static_cast<std::size_t>(static_cast<unsigned char>(buffer[19])) - 1;
        if (to >= devices.size()) continue;
        const double sent = up[from].through(now(), bytes);
        if (sent < 0) {
          ++full;
          continue;
        }
        if (uniform(random) < loss) {
          ++lost;
          continue;
        }
        double& before = last[from * devices.size() + to];
        const double due = std::max(before, sent + delay + jitter * uniform(random));
        before = due;
        on_the_way.push({due, number++, to, false, {buffer.data(), buffer.data() + bytes}});
      }
    }
    while (!on_the_way.empty() && on_the_way.top().due <= now()) {
      Packet packet = on_the_way.top();
      on_the_way.pop();
      if (packet.at_receiver) {
        if (write(devices[packet.to], packet.bytes.data(), packet.bytes.size()) > 0)
          carried += packet.bytes.size();
        continue;
      }
      packet.due = down[packet.to].through(packet.due, packet.bytes.size());
      packet.at_receiver = true;
      if (packet.due < 0)
        ++full;
      else
        on_the_way.push(std::move(packet));
    }
  }
  std::printf("%.1f MB carried in %.1f s, %llu packets lost, %llu more for which no room was\n",
              static_cast<double>(carried) / 1e6, now(), static_cast<unsigned long long>(lost),
              static_cast<unsigned long long>(full));
}
