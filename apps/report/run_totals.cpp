// See run_totals.h.
#include "gossamer/apps/report/run_totals.h"

#include <algorithm>

namespace gossamer::apps {

void RunTotals::set_edges(std::vector<dist::EdgeStats> own) {
  own_ = std::move(own);
  rows_ = static_cast<int>(own_.size());
  set(edges, rows_);
  table_ = dist::edge_table(own_, rank_, workers_, rows_);
}

void RunTotals::gather(dist::Collectives& all) {
  std::vector<double> numbers = numbers_;
  all.all_reduce_sum(std::span<double>(numbers));
  int rows = 0;
  for (int r = 0; r < workers_; ++r)
    rows = std::max(rows, static_cast<int>(numbers[index(r, edges)]));
  std::vector<double> table = dist::edge_table(own_, rank_, workers_, rows);
  if (rows > 0) all.all_reduce_sum(std::span<double>(table));
  numbers_ = std::move(numbers);
  table_ = std::move(table);
  rows_ = rows;
}

double RunTotals::sum(Field f) const {
  double total = 0;
  for (int r = 0; r < workers_; ++r) total += at(r, f);
  return total;
}

dist::RealisedRates RunTotals::rates() const {
  std::vector<double> done;
  for (int r = 0; r < workers_; ++r) done.push_back(reported(r) ? at(r, gradients) : 0);
  return dist::realised_rates(table_, rows_, done);
}

std::vector<JsonObject> RunTotals::each_worker() const {
  std::vector<JsonObject> out;
  for (int r = 0; r < workers_; ++r) {
    if (!reported(r)) continue;
    JsonObject row;
    row.add("rank", r)
        .add("gradients", at(r, gradients))
        .add("skipped_steps", at(r, skipped_steps));
    row.add("exchanges", at(r, exchanges)).add("failed", at(r, failed));
    row.add("refused", at(r, refused));
    row.add("exposed_s", at(r, exposed_s))
        .add("exposed_fraction", at(r, exposed_s) / at(r, wall_s))
        .add("transfer_s", at(r, transfer_s))
        .add("bytes_sent", at(r, bytes_sent));
    row.add("data_wait_s", at(r, data_wait_s))
        .add("data_idle_s", at(r, data_idle_s))
        .add("wall_s", at(r, wall_s));
    row.add("peak_bytes", at(r, peak_bytes))
        .add("resident_bytes", at(r, resident_bytes))
        .add("damaged_images", at(r, damaged))
        .add("failed_checkpoints", at(r, failed_checkpoints));
    out.push_back(row);
  }
  return out;
}

void add_rates(JsonObject& s, const dist::RealisedRates& rates, const dist::Graph& graph) {
  std::vector<JsonObject> edges;
  for (const dist::RealisedEdge& e : rates.edges) {
    JsonObject row;
    row.add("a", e.a).add("b", e.b).add("rate", e.rate).add("wanted", graph.rate(e.a, e.b));
    row.add("exchanges_a", e.exchanges_a).add("exchanges_b", e.exchanges_b);
    row.add("failed", e.failed)
        .add("refused", e.refused)
        .add("staleness_mean", e.staleness_mean)
        .add("staleness_max", e.staleness_max)
        .add("distance_mean", e.distance_mean);
    edges.push_back(row.add("seconds_mean", e.seconds_mean));
  }
  s.add("edges", edges).add("edge_asymmetry", rates.asymmetry);
  s.add("staleness_mean", rates.staleness_mean).add("staleness_max", rates.staleness_max);
  s.add("repeated_partners", rates.repeated);
  if (!graph.edges.empty()) {
    const dist::GraphConstants wanted = dist::constants(graph);
    s.add("chi1", wanted.chi1).add("chi2", wanted.chi2);
  }
  if (rates.constants)
    s.add("chi1_hat", rates.constants->chi1).add("chi2_hat", rates.constants->chi2);
}

void add_control(JsonObject& s, const dist::ControlTally& t, int runs) {
  const auto each = [&](i64 count) { return static_cast<double>(count) / runs; };
  JsonObject out;
  out.add("steps", each(t.steps))
      .add("kept", t.ratio())
      .add("kept_least", t.least)
      .add("kept_most", t.most);
  out.add("within_20_percent",
          t.steps > 0 ? static_cast<double>(t.near) / static_cast<double>(t.steps) : 0.0);
  out.add("gossip", each(t.gossip))
      .add("exact_averages", each(t.exact_averages))
      .add("measurements", each(t.measurements));
  s.add("control", out);
}

}  // namespace gossamer::apps
