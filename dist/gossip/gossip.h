// Gossip: every worker trains at its own pace and averages with one neighbour at a time,
// beside the computation.
#pragma once

#include "gossamer/dist/gossip/exchanger.h"
#include "gossamer/dist/gossip/replay.h"
#include "gossamer/dist/method_context.h"

namespace gossamer::dist {

// What a replay or a record puts into the method (replay.h).
struct GossipParts {
  std::unique_ptr<PartnerPolicy> policy{};  // none: by options.pairing
  std::vector<std::unique_ptr<EventLog>> logs{};
};

class GossipMethod : public Method {
 public:
  GossipMethod(const MethodTraits&, const GossipKind&, const MethodContext&, GossipParts = {});
  ~GossipMethod() override;
  void step(double learning_rate) override;
  double samples_seen() const override;
  bool done() const override;
  void finish() override;
  std::vector<int> members() const override { return membership_.members(); }
  const Sharing& sharing() const override { return sharing_; }
  void quiesce(const std::function<void()>& f) override;
  void read_model(const std::function<void()>& f) override;
  std::vector<NamedTensor> state() override;
  MethodStats stats() const override;
  const char* name() const override { return name_.c_str(); }

 private:
  std::vector<Event> start_again(const RunDigest& digest, const Graph&);
  void wait_for_exchanges();
  void complete() const;       // under the mutex: training is over
  double weight_of_step();     // the same: of the step that is done now
  i64 own_batches() const;     // of a gradient
  void share_among_members();  // under the mutex

  const std::string name_;
  const GossipKind kind_;
  FlatParams& params_;
  Optimizer& optimizer_;
  Group& group_;
  const MethodOptions options_;
  Membership membership_;
  mutable GossipState state_;
  std::unique_ptr<Exchanger> exchanger_;  // none if there is nobody to exchange with
  Sharing sharing_;                       // the members when the last step ended
  bool finished_ = false;
};

}  // namespace gossamer::dist
