// One line that is rewritten on a terminal, a line every half minute elsewhere.
#include "gossamer/apps/commands/data_progress.h"

#include <cstdio>

#include <fmt/core.h>
#include <unistd.h>

#include "gossamer/apps/launch/stop.h"
#include "gossamer/apps/report/progress.h"

namespace gossamer::apps {

DataProgress::DataProgress(std::string what, i64 total, bool silent)
    : what_(std::move(what)),
      total_(total),
      silent_(silent),
      terminal_(::isatty(STDERR_FILENO) != 0) {
  install_stop_handlers();
  stop_after_step();
}

DataProgress::~DataProgress() {
  if (open_) std::fputc('\n', stderr);
}

double DataProgress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

bool DataProgress::operator()(i64 done) {
  const double now = seconds();
  if (!silent_ && now >= next_s_) {
    next_s_ = now + (terminal_ ? 0.5 : 30);
    const double rate = static_cast<double>(done) / now,
                 left = rate > 0 ? static_cast<double>(total_ - done) / rate : 0;
    const double percent =
        total_ > 0 ? 100.0 * static_cast<double>(done) / static_cast<double>(total_) : 100.0;
    std::fputs(
        fmt::format("{}{} {}/{} ({:.0f} %)  {:.0f}/s  {} left{}", terminal_ ? "\r" : "", what_,
                    done, total_, percent, rate, duration_text(left), terminal_ ? "   " : "\n")
            .c_str(),
        stderr);
    std::fflush(stderr);
    open_ = terminal_;
  }
  return stop_signal() == 0;
}

int stopped_code() { return 128 + stop_signal(); }

}  // namespace gossamer::apps
