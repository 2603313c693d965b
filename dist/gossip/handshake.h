// The handshake: the pairing protocol (pairing.h), driven by the worker's quota (quota.h). Fast
// workers never wait for a particular partner, and slow ones hold nobody up.
#pragma once

#include "gossamer/dist/gossip/deadline.h"
#include "gossamer/dist/gossip/pairing.h"
#include "gossamer/dist/gossip/policy.h"
#include "gossamer/dist/gossip/quota.h"

namespace gossamer::dist {

class HandshakePolicy : public PartnerPolicy {
 public:
  // rate: exchanges per worker and own gradient, on average over the workers; a worker's own share
  // follows from the edge rates.
  HandshakePolicy(int self, int workers, double rate, const std::string& quota, std::uint64_t seed);

  void adopt(const Graph&, const std::vector<bool>& gone) override;
  void receive(int peer, const Message& m) override { pairing_.receive(peer, m); }
  void gone(int peer) override { pairing_.peer_dead(peer); }
  void joined(int peer) override { pairing_.peer_joined(peer); }
  void stopped(int) override {}
  void advance(const Now&) override;
  void drop_due(double t) override { quota_.drop(t); }
  void stop() override;
  void begun() override;
  void ended() override;
  std::optional<Meeting> meeting() const override;
  bool resting() const override;
  Wake wake() const override;
  Hold hold() const override;
  std::vector<std::pair<int, Message>> take_messages() override { return pairing_.take_messages(); }

  const Pairing& pairing() const { return pairing_; }
  const Quota& quota() const { return quota_; }

 private:
  std::size_t choose(std::span<const double> rates);
  double others_until() const;

  const int self_;
  const double rate_;
  Rng random_;
  Pairing pairing_;
  Quota quota_;
  Now now_;
  bool stopped_ = false;
  std::uint32_t proposal_ = 0;  // that is unanswered; 0: none
  double proposed_at_ = 0;
  AdaptiveDeadline answers_;  // of proposals
  // since when an exchange is wanted; begin and end of the last one
  double wanted_at_ = 0, began_at_ = 0, ended_at_ = 0;
  std::uint64_t changes_ = 0;  // of the pairing, when it was last looked at
  double changed_at_ = 0;      // when it last changed
};

}  // namespace gossamer::dist
