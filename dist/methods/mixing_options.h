// Settings that several methods share.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "gossamer/core/setting.h"
#include "gossamer/dist/compressor.h"

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

struct CompressionOptions : CompressorOptions {
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    std::vector<std::string> choices = names();
    choices.insert(choices.begin(), "auto");
    const auto is = [&self](auto... any) { return ((self.compressor == any) || ...); };
    f(self.compressor, Setting{.name = "compressor",
                               .about = "choco, sparse-loco: what travels of a difference: top-k | "
                                        "random-k | sign | qsgd | int8 | chunk-top-k; auto: top-k, "
                                        "sparse-loco chunk-top-k",
                               .choices = choices});
    f(self.compressed_share,
      Setting{.name = "compressed_share",
              .about = "choco, sparse-loco: share of the values that travel; auto: 0.1, "
                       "chunk-top-k 0.03125",
              .range = Range::above_zero_to(1),
              .used = is("auto", "top-k", "random-k", "chunk-top-k"),
              .used_with = "{compressor} top-k, random-k or chunk-top-k"});
    f(self.compressed_bits, Setting{.name = "compressed_bits",
                                    .about = "choco, sparse-loco: bits of a value, its sign "
                                             "included; auto: 4, chunk-top-k 2",
                                    .range = Range::from_to(2, 8),
                                    .unit = "bits",
                                    .used = is("auto", "qsgd", "chunk-top-k"),
                                    .used_with = "{compressor} qsgd or chunk-top-k"});
  }
};

struct PeriodOptions {
  i64 period = 8;
  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    f(self.period,
      Setting{.name = "period",
              .about = "local-sgd: steps between two averages; diloco, noloco, sparse-loco: "
                       "between two outer steps",
              .range = Range::from_to(1, 1000000),
              .unit = "steps"});
  }
};

}  // namespace gossamer::dist
