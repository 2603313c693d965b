// CHOCO-SGD (Koloskova et al. 2019, arXiv 1902.00340, 1907.09356): workers mix what they know of
// each other, replicas x^, and send only what a compressor lets through of the way to the model.
// With h = x + u:
//   overlap (the published code):  x' = h + kappa (W - I) x^,  x^' = x^ + Q(x' - x^)
//   without (ICML 2019):           x^' = x^ + Q(h - x^),       x' = h + kappa (W - I) x^'
// Whatever Q is, the fixed point is that of D-PSGD: with overlap with lr/kappa, without with I +
// kappa (W - I) for W.
//
// Both sides of an edge decode by one function, so replicas agree to the bit. x^ begins as x, which
// is sent whole; so it is again after a message that was lost, and after a death.
#pragma once

#include "gossamer/core/setting.h"
#include "gossamer/dist/methods/compressed_parameters.h"
#include "gossamer/dist/methods/mixing_options.h"
#include "gossamer/dist/methods/registry.h"
#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

struct ChocoOptions : OverlapOptions, CompressionOptions {
  double replica_step = .4;
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    OverlapOptions::visit(self, f);
    CompressionOptions::visit(self, f);
    f(self.replica_step,
      Setting{.name = "replica_step",
              .about =
                  "choco: how far a model goes towards the replicas of its neighbours (kappa); "
                  "the less travels, the smaller it must be",
              .range = Range::above_zero_to(1)});
  }
};

class Choco final : public RoundFormula {
 public:
  explicit Choco(const ChocoOptions& o)
      : overlap_(o.overlap), kappa_(o.replica_step), compressor_(o.usually("top-k"), kSeed) {}
  bool sends_ahead() const override { return overlap_; }
  const Compressor* compressor() const override { return &compressor_; }
  void step(RoundWorker& worker, i64) const override {
    worker.begin_replicas();
    if (overlap_) worker.receive_replicas();
    worker.update();
    if (!overlap_) worker.exchange_replicas();
    worker.mix_replicas(kappa_);
  }

 private:
  static constexpr std::uint64_t kSeed = 1902'00340;
  const bool overlap_;
  const double kappa_;
  const Compressor compressor_;
};

// Replicas as tensors, one for each neighbour.
class ChocoMethod final : public SynchronousMethod {
 public:
  ChocoMethod(const MethodTraits&, const MethodContext&, const ChocoOptions&);
  std::vector<NamedTensor> state() override;

 private:
  void begin_replicas() override;
  void receive_replicas() override;
  void exchange_replicas() override;
  void mix_replicas(double kappa) override;
  void launch_all(const Round&) override;
  void mix_pending() override;
  void begin_anew() override;
  bool may_refuse() const override { return false; }
  double squared_distance_of(int slot, const RoundExchange::Part&) const override;
  void make_replicas();
  Tensor replica(int peer) const;
  void decode(const Tensor& code);  // difference_ <- what it stands for

  const CompressedParameters compressed_;
  std::vector<Neighbour> neighbours_;
  Tensor own_, others_;  // replicas: f32 [1, n], [1, neighbours * n]
  // i64 [1, 1]: 0: replicas are not known; else so many messages since then
  Tensor messages_;
  Tensor difference_, code_;  // f32 [n], u8
};

}  // namespace gossamer::dist
