// D-PSGD (Lian et al. 2017): x_i <- sum_j W_ij x_j - lr u(g_i(x_i)), u the optimizer's step. With
// Adam it is DAdam, with Accumulated Adam the method of Decent-DP (ICLR 2025).
//
// overlap (AWC, adapt while communicating): the exchange of x_i begins right after the update that
// made it and is waited for in the next step, so a whole forward and backward hides it. In pieces:
// as soon as backward has all gradients of a piece, it is mixed, updated and sent on, while
// backward still works on the rest (needs prepare(); not with clip_norm or in f16: the norm, or an
// overflow, is known only at the end).
// without (ATC, adapt then combine): x_i <- sum_j W_ij (x_j - lr u_j), waited for. Closer to
// agreement, nothing hidden.
#pragma once

#include "gossamer/dist/methods/mixing_options.h"
#include "gossamer/dist/methods/registry.h"
#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

struct DpsgdOptions : OverlapOptions, BucketOptions, ConsensusFactor {
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    OverlapOptions::visit(self, f);
    BucketOptions::visit(self, f);
    ConsensusFactor::visit(self, f);
  }
};

// The formula in pieces, which are sent while backward still works on others.
class DpsgdMethod final : public SynchronousMethod {
 public:
  DpsgdMethod(const MethodTraits&, const MethodContext&, const DpsgdOptions&);
  ~DpsgdMethod() override;
  void prepare(double learning_rate) override;

 private:
  void local_step() override;
  void ready(std::size_t piece);  // backward has all its gradients
  void advance(int slot);         // mix, update

  const bool overlap_;
  double prepared_rate_ = 0;
  bool prepared_ = false;
  std::vector<bool> ready_;
  int done_ = 0;  // pieces of this step that are updated and sent on
  Round round_;   // in which they are sent
};

}  // namespace gossamer::dist
