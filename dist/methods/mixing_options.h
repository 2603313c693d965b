// Settings that several methods share.
#pragma once

#include <algorithm>

#include "gossamer/core/setting.h"

namespace gossamer::dist {

struct OverlapOptions {
  bool overlap = true;
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    f(self.overlap,
      Setting{.name = "overlap",
              .about = "dpsgd, sgp, gradient-tracking, choco: true: the exchange runs during the "
                       "next step (AWC); false: wait for it (ATC). allreduce: true: gradients are "
                       "summed during backward"});
  }
};

struct BucketOptions {
  double bucket_mb = 25;  // 2^20 bytes
  i64 bucket_bytes() const { return std::max<i64>(1, static_cast<i64>(bucket_mb * (1 << 20))); }
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    f(self.bucket_mb,
      Setting{.name = "bucket_mb",
              .about = "allreduce, dpsgd with overlap: size of the pieces that are exchanged "
                       "during backward",
              .range = Range::above_zero_to(4096),
              .unit = "MB"});
  }
};

struct ConsensusFactor {
  double consensus_factor = 1;
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    f(self.consensus_factor,
      Setting{.name = "consensus_factor",
              .about = "dpsgd: how far to move towards the mean of the neighbours, 0 to 1",
              .range = Range::from_to(0, 1)});
  }
};

struct PeriodOptions {
  i64 period = 8;
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    f(self.period,
      Setting{.name = "period",
              .about = "local-sgd: steps between two averages; diloco, noloco: between two outer "
                       "steps",
              .range = Range::from_to(1, 1000000),
              .unit = "steps"});
  }
};

}  // namespace gossamer::dist
