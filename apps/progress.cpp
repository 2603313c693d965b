// See progress.h. Honours NO_COLOR (no-color.org) and TERM=dumb.
#include "gossamer/apps/progress.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include <fmt/core.h>

namespace gossamer::apps {

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const long s = std::lround(seconds);
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60) : fmt::format("{}:{:02}", s / 60, s % 60);
}

Progress::Progress(std::FILE* out, bool silent) : out_(out), silent_(silent) {
  const char* term = std::getenv("TERM");
  terminal_ = isatty(fileno(out)) && term && std::strcmp(term, "dumb") != 0;
  colour_ = terminal_ && !std::getenv("NO_COLOR");
  every_s_ = terminal_ ? 0.25 : 5;
}

std::string Progress::text(const ProgressState& s, double now) {
  const double done = std::clamp(s.samples / s.total, 0.0, 1.0);
  const double left = rate_ > 0 ? std::max(0.0, s.total - s.samples) / rate_ : NAN;
  std::string bar;
  if (terminal_) {
    const int width = 20, filled = static_cast<int>(done * width);
    for (int i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
    if (colour_) bar = "\033[36m" + bar + "\033[0m";
    bar += " ";
  }
  std::string out = fmt::format("{}{:5.1f}%  epoch {:.2f}/{:.4g}  loss {:.3f}  lr {:.3g}  {:.0f} images/s  data wait {:.0f}%", bar, 100 * done,
                                s.samples / s.epoch_size, s.total / s.epoch_size, s.loss, s.learning_rate, rate_, 100 * wait_share_);
  if (s.workers > 1) out += fmt::format("  exchanges/step {:.2f}  consensus {:.2g}", s.exchanges_per_step, s.consensus);
  if (s.alive < s.workers) out += fmt::format("  {} of {} workers", s.alive, s.workers);
  return out + fmt::format("  {} gone, {} left", duration_text(now), duration_text(left));
}

void Progress::update(const ProgressState& s, bool last) {
  if (silent_) return;
  const std::scoped_lock lock(mutex_);
  const double now = std::chrono::duration<double>(Clock::now() - start_).count();
  if (mark_samples_ < 0) mark_samples_ = s.samples, mark_s_ = now, mark_wait_ = s.data_wait_s;
  if (!last && now - last_s_ < every_s_ && last_s_ >= 0) return;
  if (last_s_ < 0 && !last) { last_s_ = now; return; }        // the first step says nothing about speed
  const double span = now - mark_s_;
  if (span > (last ? 0.5 : 0)) {        // the very last piece may be too short to say anything
    // Half-life of a few updates: steady on a terminal, and the whole interval on plain lines.
    const double weight = terminal_ && rate_ > 0 ? 0.2 : 1;
    rate_ += weight * ((s.samples - mark_samples_) / span - rate_);
    wait_share_ += weight * ((s.data_wait_s - mark_wait_) / span - wait_share_);
  }
  mark_s_ = now, mark_samples_ = s.samples, mark_wait_ = s.data_wait_s, last_s_ = now;
  const std::string line = text(s, now);
  if (terminal_) fmt::print(out_, "\r\033[K{}{}", line, last ? "\n" : "");
  else fmt::print(out_, "{}\n", line);
  line_open_ = terminal_ && !last;
  std::fflush(out_);
}

void Progress::note(const std::string& line) {
  if (silent_) return;
  const std::scoped_lock lock(mutex_);
  fmt::print(out_, "{}{}\n", line_open_ ? "\r\033[K" : "", line);
  line_open_ = false;
  std::fflush(out_);
}

}  // namespace gossamer::apps
