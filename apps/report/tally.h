// The numbers of all workers, gathered at the end of a run.
#pragma once

#include <vector>

#include "gossamer/apps/json.h"
#include "gossamer/dist/control_options.h"
#include "gossamer/dist/edge_statistics.h"
#include "gossamer/dist/transport.h"

namespace gossamer::apps {

class Tally {
 public:
  enum Field {
    gradients,
    skipped_steps,
    exchanges,
    failed,
    exposed_s,
    transfer_s,
    data_wait_s,
    data_idle_s,
    images,
    damaged,
    wall_s,
    peak_bytes,
    edges,
    kFields
  };

  Tally(int workers, int rank)
      : workers_(workers), rank_(rank), numbers_(static_cast<std::size_t>(workers * kFields)) {}
  void set(Field f, double value) { numbers_[index(rank_, f)] = value; }
  void set_edges(std::vector<dist::EdgeStats> own);
  // Collective. If it fails, what was set here stays.
  void gather(dist::Collectives&);

  double at(int rank, Field f) const { return numbers_[index(rank, f)]; }
  double sum(Field) const;
  // else it is dead, or its numbers did not reach us
  bool reported(int rank) const { return at(rank, wall_s) > 0; }
  dist::RealisedRates rates() const;
  std::string each_worker() const;  // JSON: an array of objects

 private:
  static std::size_t index(int rank, Field f) {
    return static_cast<std::size_t>(rank * kFields + f);
  }

  int workers_, rank_, rows_ = 0;  // rows_: edges of the worker that has most
  std::vector<double> numbers_;
  std::vector<dist::EdgeStats> own_;
  std::vector<double> table_;  // dist::edge_table of all
};

// The keys "edges", "chi1_hat", "staleness_mean" … of summary.json. graph: the rates that were
// asked for.
void add_rates(JsonObject&, const dist::RealisedRates&, const dist::Graph& graph);
// The key "control": what consensus control kept, as parts of its target, and what that took.
// Counts are means over `runs`.
void add_control(JsonObject&, const dist::ControlTally&, int runs = 1);

}  // namespace gossamer::apps
