// Consensus control of real workers: a synchronous method, which stays as it is, and a
// ConsensusController that gossips on after its local steps. Xi is estimated by sketches
// (consensus_sketch.h); theta = sqrt(mean |sum_j W_ij x_j - x_i|^2) of gossip steps is kept beside
// it: for a fixed symmetric W, Xi <= theta / (1 - lambda_2), with lambda_2 the second largest
// eigenvalue modulus.
#pragma once

#include <memory>

#include "gossamer/dist/methods/registry.h"
#include "gossamer/dist/rounds/consensus_controller.h"
#include "gossamer/dist/rounds/controllable.h"

namespace gossamer::dist {

class ConsensusControl final : public Method, private ControlledWorkers {
 public:
  // method: a Controllable
  ConsensusControl(std::unique_ptr<Method> method, const MethodOptions&,
                   const ConsensusControlOptions&);
  // no prepare(): what is controlled after the local update can't be sent before it is over
  void step(double learning_rate) override;
  double samples_seen() const override { return method_->samples_seen(); }
  bool done() const override { return method_->done(); }
  void finish() override;
  void quiesce(const std::function<void()>& f) override { method_->quiesce(f); }
  std::vector<NamedTensor> state() override { return method_->state(); }
  const Sharing& sharing() const override { return method_->sharing(); }
  MethodStats stats() const override;
  const char* name() const override;

 private:
  std::optional<Measured> measure(bool gradients) override;
  void gossip() override { moved_ = inner_.gossip(); }
  void keep_part(double part) override { inner_.keep_part_of_gossip(part); }
  bool average_exactly() override;
  double steps() const override;
  void follow_restarts();

  const std::unique_ptr<Method> method_;
  Controllable& inner_;
  const MethodOptions run_;
  ConsensusController controller_;
  i64 restarts_ = 0;            // that the controller knows of
  std::uint64_t sketches_ = 0;  // since all began anew: the seed of the next one
  double learning_rate_ = 0;    // of this step
  // |x' - x|^2 of this worker in its last gossip step
  double moved_ = 0;
  bool finished_ = false;
};

}  // namespace gossamer::dist
