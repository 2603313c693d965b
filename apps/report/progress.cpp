// See progress.h. Honours NO_COLOR (no-color.org) and TERM=dumb.
#include "gossamer/apps/report/progress.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "gossamer/apps/terminal.h"

namespace gossamer::apps {

std::string perplexity_text(double perplexity) {
  return perplexity < 1e6 ? fmt::format("{:.2f}", perplexity) : fmt::format("{:.2g}", perplexity);
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const long s = std::lround(seconds);
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

namespace {

// 950, 1.54M
std::string count_text(double count) {
  for (const auto& [factor, letter] : {std::pair(1e9, "G"), {1e6, "M"}, {1e3, "k"}})
    if (count >= factor) return fmt::format("{:.4g}{}", count / factor, letter);
  return fmt::format("{:.0f}", count);
}

std::size_t terminal_columns(std::FILE* out) {
  winsize size{};
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(std::FILE* out, bool silent, std::function<double()> seconds)
    : out_(out), silent_(silent), seconds_(std::move(seconds)) {
  using Clock = std::chrono::steady_clock;
  if (!seconds_)
    seconds_ = [start = Clock::now()] {
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
  const char* term = std::getenv("TERM");
  terminal_ = isatty(fileno(out)) && term && std::strcmp(term, "dumb") != 0;
  colour_ = terminal_ && !std::getenv("NO_COLOR");
  every_s_ = terminal_ ? 0.25 : 5;
}

// One line that fits the width: the least important parts are left out first.
std::string Progress::text(const ProgressState& s, double now) const {
  const double done = std::clamp(s.samples / s.total, 0.0, 1.0);
  const double left = rate_ > 0 ? std::max(0.0, s.total - s.samples) / rate_ : NAN;
  struct Part {
    int rank;  // the highest is left out first
    std::string text;
  };
  std::vector<Part> parts{{0, fmt::format("{:5.1f}%", 100 * done)}};
  if (s.step > 0) {
    parts.push_back(
        {2, fmt::format("step {:.0f}/{:.0f}", s.samples / s.step, std::ceil(s.total / s.step))});
    parts.push_back(
        {6, fmt::format("{}/{} {}", count_text(s.samples), count_text(s.total), s.unit)});
  } else {
    parts.push_back(
        {2, fmt::format("epoch {:.2f}/{:.4g}", s.samples / s.epoch_size, s.total / s.epoch_size)});
  }
  parts.push_back({1, fmt::format("loss {:.3f}", s.loss)});
  parts.push_back({7, fmt::format("lr {:.3g}", s.learning_rate)});
  if (rate_ > 0) {  // not yet after the first step
    parts.push_back({4, fmt::format("{:.0f} {}/s", rate_, s.unit)});
    parts.push_back({6, fmt::format("data wait {:.0f}%", 100 * wait_share_)});
  }
  if (s.exchanges) {
    const bool short_of = s.asked_per_step > 0;
    parts.push_back({short_of ? 4 : 8,
                     fmt::format("exchanges/step {:.2f}", s.exchanges_per_step) +
                         (short_of ? fmt::format(" of {:.4g} asked", s.asked_per_step) : "")});
    parts.push_back({5, fmt::format("consensus {:.2g}", s.consensus)});
  }
  if (s.alive < s.workers)
    parts.push_back({2, fmt::format("{} of {} workers", s.alive, s.workers)});
  parts.push_back({3, fmt::format("{} elapsed, {} left", duration_text(now), duration_text(left))});

  constexpr std::size_t kBar = 20;
  const std::size_t columns = terminal_ ? terminal_columns(out_) : SIZE_MAX;
  bool bar = terminal_;
  const auto width = [&] {
    std::size_t sum = bar ? kBar + 1 : 0;
    for (const Part& p : parts) sum += p.text.size() + 2;
    return sum - 2;
  };
  if (width() >= columns) bar = false;
  while (width() >= columns && parts.size() > 1)
    parts.erase(std::ranges::max_element(parts, {}, &Part::rank));
  std::string out;
  for (const Part& p : parts) out += (out.empty() ? "" : "  ") + p.text;
  if (!bar) return out;
  std::string blocks;
  for (std::size_t i = 0; i < kBar; ++i)
    blocks += static_cast<double>(i) < std::floor(done * kBar) ? "█" : "░";
  return (colour_ ? "\033[36m" + blocks + "\033[0m" : blocks) + " " + out;
}

bool Progress::due() {
  const std::scoped_lock lock(mutex_);
  return !silent_ && due(seconds_());
}

void Progress::update(const ProgressState& s, bool last) {
  if (silent_) return;
  const std::scoped_lock lock(mutex_);
  const double now = seconds_();
  if (!last && !due(now)) return;
  const bool first = last_s_ < 0, again = s.samples == last_samples_;
  const double span = now - mark_s_;
  // One step gives no speed yet; the last interval may be too short for one.
  if (!first && span > (last ? 0.5 : 0)) {
    // A half-life of a few updates on a terminal; the whole interval on plain lines.
    const double weight = terminal_ && rate_ > 0 ? 0.2 : 1;
    rate_ += weight * ((s.samples - mark_samples_) / span - rate_);
    wait_share_ += weight * ((s.data_wait_s - mark_wait_) / span - wait_share_);
  }
  mark_s_ = now, mark_samples_ = s.samples, mark_wait_ = s.data_wait_s;
  last_s_ = now, last_samples_ = s.samples;
  if (last && again)
    print(line_open_ ? "\n" : "");  // it stands there already
  else
    print(terminal_ ? "\r\033[K" + text(s, now) + (last ? "\n" : "") : text(s, now) + "\n");
  line_open_ = terminal_ && !last;
}

// A reader that is gone, or a terminal that was closed, is no reason to stop.
void Progress::print(const std::string& text) {
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
}

void Progress::note(const std::string& line) {
  if (silent_) return;
  const std::scoped_lock lock(mutex_);
  print((line_open_ ? "\r\033[K" : "") + for_terminal(line) + "\n");
  line_open_ = false;
}

void Progress::warn(const std::string& line) {
  const std::scoped_lock lock(mutex_);
  if (line_open_) print("\r\033[K");
  line_open_ = false;
  say(line);
}

}  // namespace gossamer::apps
