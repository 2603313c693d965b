// See edge_statistics.h.
#include "gossamer/dist/edge_statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

enum Column {
  peer_plus_1,
  exchanges,
  failed,
  refused,
  staleness_sum,
  staleness_max,
  repeats,
  distance_sum,
  seconds,
  kColumns
};

std::size_t row_at(int rank, int rows, int row) {
  return (static_cast<std::size_t>(rank) * static_cast<std::size_t>(rows) +
          static_cast<std::size_t>(row)) *
         kColumns;
}

}  // namespace

void EdgeStatistics::add(const ExchangeRecord& r) {
  auto it = std::ranges::lower_bound(edges_, r.peer, {}, &EdgeStats::peer);
  if (it == edges_.end() || it->peer != r.peer) it = edges_.insert(it, EdgeStats{.peer = r.peer});
  it->seconds += r.seconds;
  if (!r.ok) {
    ++(r.refused ? it->refused : it->failed);
    return;
  }
  ++it->exchanges;
  it->repeats += std::exchange(last_, r.peer) == r.peer;
  it->staleness_sum += r.staleness;
  it->staleness_max = std::max(it->staleness_max, r.staleness);
  it->distance_sum += r.distance;
}

std::vector<double> edge_table(const std::vector<EdgeStats>& own, int rank, int workers, int rows) {
  check<Error>(static_cast<int>(own.size()) <= rows && rank < workers, "edge_table: ", own.size(),
               " edges of worker ", rank, " of ", workers, " in ", rows, " rows");
  std::vector<double> table(row_at(workers, rows, 0));
  for (int i = 0; i < static_cast<int>(own.size()); ++i) {
    const EdgeStats& e = own[static_cast<std::size_t>(i)];
    double* row = &table[row_at(rank, rows, i)];
    row[peer_plus_1] = e.peer + 1;  // 0: no edge
    row[exchanges] = static_cast<double>(e.exchanges);
    row[failed] = static_cast<double>(e.failed);
    row[refused] = static_cast<double>(e.refused);
    row[staleness_sum] = static_cast<double>(e.staleness_sum);
    row[staleness_max] = static_cast<double>(e.staleness_max);
    row[repeats] = static_cast<double>(e.repeats);
    row[distance_sum] = e.distance_sum;
    row[seconds] = e.seconds;
  }
  return table;
}

bool rate_reached(double asked, double done, double gradients) {
  const double wanted = asked * gradients;
  return done >= kEnoughOfRate * wanted || wanted - done <= 5 * std::sqrt(2 * wanted);
}

RealisedRates realised_rates(std::span<const double> table, int rows,
                             std::span<const double> gradients) {
  const int workers = static_cast<int>(gradients.size());
  check<Error>(table.size() == row_at(workers, rows, 0), "realised_rates: a table of ",
               table.size(), " numbers for ", workers, " workers with ", rows, " rows");
  RealisedRates out;
  double reported = 0;
  for (const double g : gradients) {
    out.time += g;
    reported += g > 0 ? 1 : 0;
  }
  if (reported > 0) out.time /= reported;

  // the rows of a and of b
  std::map<std::pair<int, int>, std::pair<const double*, const double*>> both;
  for (int w = 0; w < workers; ++w) {
    for (int i = 0; i < rows; ++i) {
      const double* row = &table[row_at(w, rows, i)];
      const int peer = static_cast<int>(row[peer_plus_1]) - 1;
      if (peer < 0 || peer >= workers || peer == w) continue;
      (w < peer ? both[{w, peer}].first : both[{peer, w}].second) = row;
    }
  }
  Graph used{.name = "realised", .n = workers, .edges = {}};
  double all_exchanges = 0, all_staleness = 0, all_repeats = 0;
  for (const auto& [ends, counted] : both) {
    RealisedEdge e{.a = ends.first, .b = ends.second};
    double sum = 0, tries = 0, seen_by = 0;
    for (const double* row : {counted.first, counted.second}) {
      if (!row) continue;
      ++seen_by;
      sum += row[exchanges];
      all_repeats += row[repeats];
      tries += row[exchanges] + row[failed] + row[refused];
      e.failed = std::max(e.failed, static_cast<i64>(row[failed]));
      e.refused = std::max(e.refused, static_cast<i64>(row[refused]));
      e.staleness_mean += row[staleness_sum];
      e.staleness_max = std::max(e.staleness_max, static_cast<i64>(row[staleness_max]));
      e.distance_mean += row[distance_sum];
      e.seconds_mean += row[seconds];
    }
    all_exchanges += sum, all_staleness += e.staleness_mean;
    out.staleness_max = std::max(out.staleness_max, e.staleness_max);
    if (sum > 0) e.staleness_mean /= sum, e.distance_mean /= sum;
    if (tries > 0) e.seconds_mean /= tries;
    if (counted.first) e.exchanges_a = static_cast<i64>(counted.first[exchanges]);
    if (counted.second) e.exchanges_b = static_cast<i64>(counted.second[exchanges]);
    // An end whose numbers are lost (it died) says nothing about symmetry.
    const bool both_reported = gradients[static_cast<std::size_t>(e.a)] > 0 &&
                               gradients[static_cast<std::size_t>(e.b)] > 0;
    if (both_reported)
      out.asymmetry = std::max(out.asymmetry, std::abs(e.exchanges_a - e.exchanges_b));
    e.rate = out.time > 0 ? sum / (both_reported ? 2 : seen_by) / out.time : 0;
    if (e.rate > 0) used.edges.push_back({e.a, e.b, e.rate});
    out.edges.push_back(e);
  }
  if (all_exchanges > 0) {
    out.staleness_mean = all_staleness / all_exchanges;
    out.repeated = all_repeats / all_exchanges;
  }
  try {
    if (!used.edges.empty()) out.constants = constants(used);
  } catch (const ConfigError&) {  // in pieces: the constants are infinite
  }
  return out;
}

}  // namespace gossamer::dist
