// See clock_offset.h.
#include "gossamer/dist/clock_offset.h"

#include <cmath>

namespace gossamer::dist {

ClockStamps ClockOffset::stamps(double now_us) const {
  const std::scoped_lock lock(mutex_);
  return {now_us, last_sent_, last_heard_};
}

void ClockOffset::heard(const ClockStamps& s, double now_us) {
  const std::scoped_lock lock(mutex_);
  if (!std::isfinite(s.sent) || s.sent <= 0) return;
  last_sent_ = s.sent;
  last_heard_ = now_us;
  if (!std::isfinite(s.echo) || !std::isfinite(s.heard) || s.echo <= 0 || s.echo > now_us ||
      s.heard <= 0 || s.heard > s.sent)
    return;
  const double round_trip = (now_us - s.echo) - (s.sent - s.heard);
  // a clock was set, or the peer makes its stamps up
  if (round_trip < 0) return;
  keep({now_us, 0.5 * ((s.heard - s.echo) + (s.sent - now_us)), round_trip});
}

void ClockOffset::keep(const Sample& sample) {
  const auto slot = [&](const Sample& s) { return std::floor(s.t_us / slot_us_); };
  if (!best_.empty() && slot(best_.back()) == slot(sample)) {
    if (sample.round_trip_us < best_.back().round_trip_us) best_.back() = sample;
    return;
  }
  best_.push_back(sample);
  if (best_.size() <= kSlots) return;
  // A long run: slots twice as long, and of those that fall together the quicker one.
  slot_us_ *= 2;
  const std::vector<Sample> all = std::move(best_);
  best_.clear();
  for (const Sample& s : all) keep(s);
}

void ClockOffset::forget() {
  const std::scoped_lock lock(mutex_);
  last_sent_ = last_heard_ = 0;
  slot_us_ = kFirstSlot;
  best_.clear();
}

std::optional<ClockEstimate> ClockOffset::at(double t_us) const {
  const std::scoped_lock lock(mutex_);
  std::optional<ClockEstimate> out;
  for (const Sample& s : best_) {
    const double error = 0.5 * s.round_trip_us + kDrift * std::abs(t_us - s.t_us);
    if (!out || error < out->error_us) out = {s.offset_us, error};
  }
  return out;
}

}  // namespace gossamer::dist
