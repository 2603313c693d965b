// Machines whose transfers take about as long as a gradient.
#pragma once

#include "gossamer/dist/simulation/machines.h"

namespace gossamer::dist {

inline Machines machines_under_load() {
  Machines m;
  m.compute_s = .041;
  m.compute = {Spread::Kind::lognormal, .3};
  m.latency_s = 2e-4;
  m.bytes = 4.47e7;
  m.bandwidth = 1.2e9;
  return m;
}

}  // namespace gossamer::dist
