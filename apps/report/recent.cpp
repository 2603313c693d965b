// See recent.h.
#include "gossamer/apps/report/recent.h"

#include <algorithm>

namespace gossamer::apps {

Recent recent(const RunRecord& run) {
  Recent out{.seconds = std::min(kRecentSeconds, run.seconds)};
  const double since = run.seconds - out.seconds;
  for (const auto& [rank, spans] : run.alive)
    (spans.back().second < run.seconds ? out.gone : out.alive).insert(rank);
  std::map<int, double> begins;  // of each worker: its first line in the stretch
  double gradients = 0, workers = 0, first = -1, last = 0, first_s = 0, last_s = 0;
  for (const auto& [rank, rows] : run.steps) {
    const auto begin = std::ranges::find_if(rows, [&](const auto& r) { return r.time >= since; });
    if (begin == rows.end()) continue;
    // a worker that was started again counts from 0
    for (auto row = begin + 1; row < rows.end(); ++row)
      gradients += std::max(0.0, row->gradients - (row - 1)->gradients);
    ++workers;
    begins[rank] = begin->time;
    if (first < 0 || begin->images < first) first = begin->images, first_s = begin->time;
    if (rows.back().images > last) last = rows.back().images, last_s = rows.back().time;
  }
  if (first >= 0 && last_s > first_s) out.images_per_s = (last - first) / (last_s - first_s);
  std::map<std::pair<int, int>, double> met;
  for (const auto& [rank, rows] : run.exchanges)
    for (const ExchangeRow& row : rows)
      if (begins.contains(rank) && row.time > begins[rank])
        for (const auto& [peer, count] : row.with)
          met[std::minmax(rank, peer)] += count / 2;  // each end wrote it
  if (gradients > 0)
    for (const auto& [pair, count] : met) out.rates[pair] = count / (gradients / workers);
  return out;
}

}  // namespace gossamer::apps
