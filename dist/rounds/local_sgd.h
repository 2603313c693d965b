// Local SGD (Stich 2019): `period` steps of its own, then all workers average their parameters.
// period 1 is parameter averaging in each step.
#pragma once

#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

class LocalSgdMethod final : public SynchronousMethod {
 public:
  LocalSgdMethod(FlatParams&, Optimizer&, Group&, const Graph&, const MethodOptions&);

 private:
  void update(double learning_rate) override;
  void begin_anew() override { since_ = 0; }

  i64 since_;  // steps since the last average
};

}  // namespace gossamer::dist
