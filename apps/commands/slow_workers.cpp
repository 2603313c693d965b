// See slow_workers.h.
#include "gossamer/apps/commands/slow_workers.h"

#include <charconv>
#include <cmath>

#include "gossamer/core/error.h"

namespace gossamer::apps {

void read_slow(const std::string& command, const std::string& text, int workers,
               std::vector<double>& slow) {
  int worker = -1;
  double number = 0;
  const char *begin = text.data(), *end = begin + text.size();
  const auto [colon, error] = std::from_chars(begin, end, worker);
  const bool split = error == std::errc() && end - colon > 1 && *colon == ':',
             times = split && colon[1] == 'x';
  const auto [last, error2] = split ? std::from_chars(colon + (times ? 2 : 1), end, number)
                                    : std::from_chars_result{begin, std::errc::invalid_argument};
  const double factor = times ? number : 1 / number;
  check<ConfigError>(error2 == std::errc() && last == end && worker >= 0 && worker < workers &&
                         factor > 0 && std::isfinite(factor),
                     command, ": --slow ", text,
                     "; wanted is WORKER:xTIMES such as 3:x10, or WORKER:SPEED such as 3:0.1, with "
                     "a worker from 0 to ",
                     workers - 1);
  const auto at = static_cast<std::size_t>(worker);
  if (slow.size() <= at) slow.resize(at + 1, 1.0);
  slow[at] = factor;
}

}  // namespace gossamer::apps
