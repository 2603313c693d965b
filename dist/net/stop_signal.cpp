// An event that ends every poll().
#include "gossamer/dist/net/stop_signal.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include <sys/eventfd.h>
#include <unistd.h>

#include "gossamer/core/error.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

StopSignal::StopSignal() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  gossamer::check<DistError>(fd_ >= 0, "no descriptor for an event: ", std::strerror(errno),
                             "; allow this process more open files (ulimit -n)");
}
StopSignal::~StopSignal() { close(fd_); }

void StopSignal::raise() {
  raised_ = true;
  eventfd_write(fd_, 1);
}

void StopSignal::check() const {
  if (raised_) fail<DistError>("ended from outside");
}

void StopSignal::check(TimePoint until) const {
  check();
  if (std::chrono::steady_clock::now() >= until) throw DistTimeout("it took too long");
}

void StopSignal::poll(std::span<const pollfd> others, TimePoint until) const {
  using std::chrono::milliseconds;
  std::vector<pollfd> all(others.begin(), others.end());
  all.push_back({fd_, POLLIN, 0});
  for (;;) {
    const auto left =
        std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now()).count();
    const int ready =
        ::poll(all.data(), all.size(), static_cast<int>(std::clamp<long>(left, 0, 60000)));
    gossamer::check<DistError>(ready >= 0 || errno == EINTR, "poll: ", std::strerror(errno));
    if (ready > 0) return check();
    check(until);
  }
}

}  // namespace gossamer::dist
