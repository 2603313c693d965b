// See data_progress.h.
#include "gossamer/apps/commands/data_progress.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include <fmt/core.h>
#include <unistd.h>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/report/progress.h"

namespace gossamer::apps {

ProgressLine::ProgressLine(std::string what, Options options, std::function<double()> seconds)
    : what_(std::move(what)),
      options_(std::move(options)),
      terminal_(::isatty(STDERR_FILENO) != 0),
      seconds_(std::move(seconds)) {
  using Clock = std::chrono::steady_clock;
  if (!seconds_)
    seconds_ = [start = Clock::now()] {
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
}

ProgressLine::~ProgressLine() {
  if (open_) std::fputc('\n', stderr);
}

void ProgressLine::show(i64 done) {
  const double now = seconds();
  if (options_.silent || now < next_s_) return;
  next_s_ = now + (terminal_ ? 0.5 : 30);
  const auto made = static_cast<double>(done), all = static_cast<double>(options_.total);
  const double rate = made / now, left = rate > 0 ? (all - made) / rate : 0,
               percent = all > 0 ? 100 * made / all : 100;
  const std::string speed =
      fmt::format("{:.0f}{}/s", rate, options_.unit.empty() ? "" : " " + options_.unit);
  const std::string text = options_.total < 0
                               ? fmt::format("{} {}  {}", what_, done, speed)
                               : fmt::format("{} {}/{} ({:.0f} %)  {}  {} left", what_, done,
                                             options_.total, percent, speed, duration_text(left));
  std::fputs(fmt::format("{}{}{}", terminal_ ? "\r" : "", text, terminal_ ? "   " : "\n").c_str(),
             stderr);
  std::fflush(stderr);
  open_ = terminal_;
}

bool progress_is_seen(bool answers_meanwhile) {
  return ::isatty(STDERR_FILENO) != 0 && !(answers_meanwhile && ::isatty(STDOUT_FILENO) != 0);
}

DataProgress::DataProgress(std::string what, i64 total, bool silent)
    : line_(std::move(what), {.total = total, .silent = silent}) {
  install_stop_handlers();
  stop_after_step();
}

bool DataProgress::operator()(i64 done) {
  line_.show(done);
  return stop_signal() == 0;
}

int stopped_code() { return 128 + stop_signal(); }

}  // namespace gossamer::apps
