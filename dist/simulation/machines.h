// The machines of simulated workers, and the wires between them: how long a gradient, a transfer
// and an all-reduce take.
// Threads: any, each with its own generator.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "gossamer/core/random.h"

namespace gossamer::dist {

// How long something takes, as a factor with mean 1: always the same, log-normal with this sigma,
// or exponential.
struct Spread {
  enum class Kind : std::uint8_t { constant, lognormal, exponential } kind = Kind::constant;
  double sigma = 0;
  double draw(Rng&) const;
};
// "constant", "lognormal:0.3", "exponential"; ConfigError otherwise
Spread make_spread(const std::string& text);

// Times in seconds, bandwidths in bytes per second and direction. Workers 0 … node_size - 1 are on
// node 0, and so on. All transfers between a node and others share the node's link.
struct Machines {
  double compute_s = 0.25;  // one gradient of a worker at normal speed
  Spread compute{Spread::Kind::lognormal, 0.02};
  // worker i needs slow[i] times as long; those not listed: 1
  std::vector<double> slow;
  int node_size = 1;
  double node_latency_s = 1e-5, node_bandwidth = 1e11;  // between workers of a node
  double latency_s = 1e-4, bandwidth = 3.125e9;         // between nodes: 25 Gb/s
  // the most that one transfer between nodes gets, as of a connection that uses one of two wires
  double flow_bandwidth = INFINITY;
  double bytes = 102e6;  // of a model: ResNet-50 in f32
  // all-reduce begins with a part of the gradients while backward computes the others
  int buckets = 4;
  Spread link;  // of latencies and transfers

  double slowness(int worker) const {
    return static_cast<std::size_t>(worker) < slow.size() ? slow[static_cast<std::size_t>(worker)]
                                                          : 1;
  }
  int node_of(int worker) const { return worker / node_size; }
  bool together(int a, int b) const { return node_of(a) == node_of(b); }
  double message_s(int a, int b) const { return together(a, b) ? node_latency_s : latency_s; }
  // Of a model, both directions at once. sharing: transfers on the link of a's or b's node, this
  // one too; of no effect within a node.
  double transfer_s(int a, int b, int sharing = 1) const;
  // Of so many bytes among these workers (ascending), by the faster of
  //   a ring   2 (m - 1)/m of the bytes pass each wire, in 2 (m - 1) turns
  //   a tree   of nodes, with the workers of a node in a row: twice the bytes, and twice its depth
  double all_reduce_s(std::span<const int> workers, double all_bytes, int sharing = 1) const;

 private:
  double between_nodes(int sharing) const { return std::min(flow_bandwidth, bandwidth / sharing); }
};

}  // namespace gossamer::dist
