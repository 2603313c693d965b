// What methods take whose workers average with one neighbour at a time, beside the computation.
#pragma once

#include <string>

#include "gossamer/core/setting.h"

namespace gossamer::dist {

struct GossipOptions {
  double rate = 1;
  std::string pairing = "handshake";
  std::string quota = "poisson";

  template <class Self, class F>
  static void visit(Self& self, F&& f) {
    f(self.rate, Setting{.name = "rate",
                         .about = "exchanges of each worker per own gradient",
                         .range = Range::from_to(0, 1000)});  // beyond it would do nothing else
    f(self.pairing, Setting{.name = "pairing",
                            .about = "a2cid2, adpsgd: handshake | schedule (drawn from the seed) | "
                                     "rounds (fixed matchings)",
                            .choices = {"handshake", "schedule", "rounds"}});
    f(self.quota, Setting{.name = "quota",
                          .about = "handshake: number of exchanges per gradient: poisson | exact "
                                   "(evenly spaced)",
                          .choices = {"poisson", "exact"}});
  }
};

}  // namespace gossamer::dist
