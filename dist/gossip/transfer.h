// One exchange: both sides take a snapshot, send it, and apply the difference (a2cid2.h). A
// PartnerPolicy decides with which worker and when.
#pragma once

#include <map>

#include "gossamer/dist/gossip/deadline.h"
#include "gossamer/dist/gossip/state.h"
#include "gossamer/dist/usual_distance.h"

namespace gossamer::dist {

class Transfer {
 public:
  Transfer(GossipState&, Group&, const MethodOptions&);

  // First half of the communication event: both snapshots belong to the moment of the agreement.
  // Training goes on meanwhile.
  void begin(const Meeting&);
  // Second half. A snapshot that did not arrive whole, or is too far away (usual_distance.h: on
  // both sides alike), changes nothing.
  enum class End : std::uint8_t { applied, failed, refused };
  // of this worker's model, as last measured: always after an exchange that was refused
  bool own_is_finite() const { return usual_.own_is_finite(); }
  End end(const Event* arrived);  // its end, if all arrived; else null
  // The peer is gone, or this worker goes: an exchange with it ends soon, with null.
  void abort();
  // after abort(), before the end of this object: the payload has let go of our buffers
  void drain();

  bool under_way() const { return peer_ >= 0; }
  int peer() const { return peer_; }  // -1: none
  std::uint64_t session() const { return session_; }

 private:
  GossipState& state_;
  Group& group_;
  const MethodOptions& options_;
  double limit(int peer);

  int peer_ = -1;
  std::uint64_t session_ = 0;
  i64 gradients_ = 0;  // own, at the snapshot
  // What travels with a snapshot.
  struct Note {
    Progress progress;
    double limit = 0;  // usual_distance.h
    TrackingEpoch::Stamp tracking;
  };
  static Note note_in(const Event&);
  Note own_note_;
  UsualDistance usual_;
  double time_ = 0, began_us_ = 0, began_ = 0, limit_ = 0;
  std::map<int, AdaptiveDeadline> limits_;  // of each edge
};

}  // namespace gossamer::dist
