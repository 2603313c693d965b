// The numbers of all workers, gathered at the end of a run.
#pragma once

#include <vector>

#include "gossamer/core/text/json.h"
#include "gossamer/dist/edge_statistics.h"
#include "gossamer/dist/method.h"
#include "gossamer/dist/transport.h"

namespace gossamer::apps {

class RunTotals {
 public:
  enum Field {
    gradients,
    skipped_steps,
    exchanges,
    failed,
    refused,
    exposed_s,
    transfer_s,
    bytes_sent,
    data_wait_s,
    data_idle_s,
    damaged,
    failed_checkpoints,
    replayed,
    wall_s,
    peak_bytes,
    resident_bytes,
    edges,
    kFields
  };

  RunTotals(int workers, int rank)
      : workers_(workers), rank_(rank), numbers_(static_cast<std::size_t>(workers * kFields)) {}
  void set(Field f, double value) { numbers_[index(rank_, f)] = value; }
  void set_edges(std::vector<dist::EdgeStats> own);
  // Collective. If it throws, the numbers of this worker stay.
  void gather(dist::Collectives&);

  double at(int rank, Field f) const { return numbers_[index(rank, f)]; }
  double sum(Field) const;
  // false: it is dead, or its numbers did not arrive
  bool reported(int rank) const { return at(rank, wall_s) > 0; }
  dist::RealisedRates rates() const;
  std::vector<JsonObject> each_worker() const;

 private:
  static std::size_t index(int rank, Field f) {
    return static_cast<std::size_t>(rank) * kFields + static_cast<std::size_t>(f);
  }

  int workers_, rank_, rows_ = 0;  // rows_: the largest number of edges of a worker
  std::vector<double> numbers_;
  std::vector<dist::EdgeStats> own_;
  std::vector<double> table_;  // dist::edge_table of all
};

// Adds the keys "edges", "chi1_hat", "staleness_mean" … of summary.json. graph: the requested
// rates.
void add_rates(JsonObject&, const dist::RealisedRates&, const dist::Graph& graph);
// Adds the key "control": the distances that consensus control reached, as parts of its target, and
// the communication it used. Counts are means over `runs`.
void add_control(JsonObject&, const dist::ControlTally&, int runs = 1);

}  // namespace gossamer::apps
