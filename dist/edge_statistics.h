// What happened on each edge of the graph: exchanges, how old their snapshots were, how long they
// took; and the rates that were really achieved, with the constants that A2CiD2 would have on such
// a graph. Pure.
// Threads: any for functions; one at a time for EdgeStatistics.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gossamer/dist/graph/graph.h"
#include "gossamer/dist/method.h"

namespace gossamer::dist {

class EdgeStatistics {
 public:
  void add(const ExchangeRecord&);
  // ascending peers; only those met
  const std::vector<EdgeStats>& edges() const { return edges_; }

 private:
  std::vector<EdgeStats> edges_;
  int last_ = -1;  // the peer of the last exchange
};

// How the edges of a whole run were used. Every worker puts its own rows into the table, the sum
// over workers (all_reduce_sum) holds those of all: `rows` rows a worker (the largest number of
// edges that one has).
std::vector<double> edge_table(const std::vector<EdgeStats>& own, int rank, int workers, int rows);

struct RealisedEdge {
  int a = 0, b = 0;  // a < b
  double rate = 0;   // exchanges per unit of time
  // as counted by each end; failed, refused: the larger count of the two
  i64 exchanges_a = 0, exchanges_b = 0, failed = 0, refused = 0;
  double staleness_mean = 0, distance_mean = 0, seconds_mean = 0;  // over both ends
  i64 staleness_max = 0;
};

struct RealisedRates {
  std::vector<RealisedEdge> edges;  // ascending
  // the length of the run in mean gradient durations: gradients of all / workers
  double time = 0;
  // of the realised rates; none if the edges used do not connect all that used any
  std::optional<GraphConstants> constants;
  // largest difference between the counts of both ends: 0 unless exchanges ended on one side only
  i64 asymmetry = 0;
  double staleness_mean = 0;
  i64 staleness_max = 0;
  // the part of the exchanges that a worker did with the partner of the time before
  double repeated = 0;
};

// The unit of time is that of graph.h: the mean duration of a gradient. gradients: of each worker;
// 0 for workers whose numbers are lost.
RealisedRates realised_rates(std::span<const double> table, int rows,
                             std::span<const double> gradients);

// This part of a rate is enough: eta follows what is achieved (RateTracker), and busy workers on a
// ring agree as fast with .85 of it as with all of it.
inline constexpr double kEnoughOfRate = 0.7;
// Whether enough of the exchanges that were asked for were done, or all but what chance explains (5
// standard deviations of a Poisson process). asked: exchanges per worker and gradient. done:
// counted by the workers that did the `gradients`; two count each exchange of theirs.
bool rate_reached(double asked, double done, double gradients);

}  // namespace gossamer::dist
