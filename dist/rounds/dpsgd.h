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

#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

class DpsgdMethod final : public SynchronousMethod {
 public:
  DpsgdMethod(const std::string& name, FlatParams&, Optimizer&, Group&, const Graph&,
              const MethodOptions&);
  ~DpsgdMethod() override;
  void prepare(double learning_rate) override;

 private:
  void update(double learning_rate) override;
  void launch_ahead() override;
  // a resumed run begins with the exchange that its checkpoint was waiting for
  void resume();
  void ready(std::size_t piece);  // backward has all its gradients
  void advance(int slot);         // mix, update

  double learning_rate_ = 0;
  bool prepared_ = false, resumed_ = false;
  std::vector<bool> ready_;
  int done_ = 0;  // pieces of this step that are updated and sent on
  Round round_;   // in which they are sent
};

}  // namespace gossamer::dist
