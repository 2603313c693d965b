// See exchange_report.h.
#include "gossamer/apps/report/exchange_report.h"

#include <algorithm>

#include <fmt/format.h>

#include "gossamer/apps/report/html.h"
#include "gossamer/apps/report/pictures.h"

namespace gossamer::apps {
namespace {

// The values of each worker in the background, and their mean over the workers.
std::string over_time(const RunRecord& run, const char* title, double ExchangeRow::*value,
                      bool logarithmic) {
  const TimeUnit unit = time_unit(run.seconds);
  std::vector<Curve> curves;
  std::vector<Points> all;
  for (const auto& [rank, rows] : run.exchanges) {
    Points points;
    for (const ExchangeRow& row : rows) points.emplace_back(row.time / unit.seconds, row.*value);
    all.push_back(points);
    curves.push_back({.name = fmt::format("worker {}", rank), .points = points, .faint = true});
  }
  curves.push_back({.points = mean_of(all)});
  return chart({title, unit.name, logarithmic}, curves);
}

// A row for each pair, stronger where it met more often.
std::string meetings(const RunRecord& run) {
  constexpr int kPieces = 40;
  constexpr std::size_t kMostPairs = 48;
  std::map<std::pair<int, int>, std::vector<double>> pairs;
  double most = 0;
  for (const auto& [rank, rows] : run.exchanges)
    for (const ExchangeRow& row : rows)
      for (const auto& [peer, count] : row.with) {
        auto& pieces = pairs[std::minmax(rank, peer)];
        pieces.resize(kPieces);
        const double at = run.seconds > 0 ? row.time / run.seconds * kPieces : 0;
        double& here = pieces[std::min<std::size_t>(kPieces - 1, static_cast<std::size_t>(at))];
        most = std::max(most, here += count / 2);  // each end wrote it
      }
  if (pairs.empty() || pairs.size() > kMostPairs) return "";
  PictureOfRows picture("who met whom, over time", run.seconds, "s");
  for (const auto& [pair, pieces] : pairs) {
    picture.row(fmt::format("{}–{}", pair.first, pair.second));
    for (std::size_t k = 0; k < pieces.size(); ++k)
      if (pieces[k] > 0)
        picture.span(run.seconds * static_cast<double>(k) / kPieces,
                     run.seconds * static_cast<double>(k + 1) / kPieces,
                     .15 + .85 * pieces[k] / most,
                     fmt::format("{} – {}: {:.1f} exchanges", pair.first, pair.second, pieces[k]));
  }
  return picture.figure("stronger: more exchanges of the two");
}

}  // namespace

std::string exchange_report(const RunRecord& run) {
  if (run.exchanges.size() < 2) return "";
  std::string out = over_time(run, "staleness in own gradients", &ExchangeRow::staleness, false);
  out += over_time(run, "distance |xᵢ − xⱼ| at an exchange", &ExchangeRow::distance, true);
  out += meetings(run);
  if (out.empty()) return "";
  return "<h2>Exchanges</h2><div class=\"grid\">" + out +
         "</div><p class=\"soft\">Staleness is how many "
         "gradients a worker did between its snapshot and the use of the answer.</p>";
}

}  // namespace gossamer::apps
