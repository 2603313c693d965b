// For the tests of synchronous methods: options of a short run, and copies of what it made.
#pragma once

#include "dist/workers.h"

namespace gossamer::dist {

inline MethodOptions options_of(const std::string& rounds, int n, int steps, bool overlap = true) {
  MethodOptions o;
  o.batch = 2;
  o.total_samples = 2.0 * n * steps;
  o.rounds = rounds;
  o.exchange_timeout_s = 5;
  if (!overlap) o.settings.set("overlap", false);
  return o;
}

// One that the method can have.
inline const char* graph_for(const std::string& method) {
  return method == "relay-sgd" ? "chain" : "ring";
}

inline std::vector<float> copy(const Tensor& t) {
  return {t.span<float>().begin(), t.span<float>().end()};
}

}  // namespace gossamer::dist
