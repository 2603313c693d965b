// How far a peer's clock is ahead of ours, from time stamps that ride on heartbeats. No clock and
// no network in here.
//
// As NTP does it (RFC 5905, section 8): a heartbeat leaves us at t1, reaches the peer at t2; one of
// the peer's leaves at t3 and reaches us at t4. Then  offset = ((t2 - t1) + (t3 - t4)) / 2  is
// wrong by at most half of the round trip  (t4 - t1) - (t3 - t2). Busy machines delay most
// heartbeats, so only the quickest round trips count; an old one counts less, since clocks drift
// apart.
// Threads: any, also for one ClockOffset.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "gossamer/dist/transport.h"

namespace gossamer::dist {

// Microseconds. sent: when this heartbeat left its sender. The other two, 0 before the first: when
// the last heartbeat from its addressee had left there, and when it was heard here.
struct ClockStamps {
  double sent = 0, echo = 0, heard = 0;
};

class ClockOffset {
 public:
  ClockStamps stamps(double now_us) const;  // for a heartbeat that leaves now
  // one came; stamps that make no sense are left out
  void heard(const ClockStamps&, double now_us);
  // The best estimate at `t_us` of our clock; nullopt before the first round trip.
  std::optional<ClockEstimate> at(double t_us) const;
  // another process, or another machine, has taken the peer's place
  void forget();

  // RFC 5905's PHI: how fast an estimate grows old
  static constexpr double kDrift = 15e-6;

 private:
  struct Sample {
    double t_us, offset_us, round_trip_us;
  };
  static constexpr std::size_t kSlots = 64;
  void keep(const Sample&);

  mutable std::mutex mutex_;
  double last_sent_ = 0, last_heard_ = 0;
  static constexpr double kFirstSlot = 2e6;
  // the quickest round trip of each slot of time is kept
  double slot_us_ = kFirstSlot;
  std::vector<Sample> best_;
};

}  // namespace gossamer::dist
