// See beam_search.h.
#include "gossamer/models/beam_search.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "gossamer/core/error.h"

namespace gossamer::models {

BeamSearch::BeamSearch(BeamOptions options, const std::vector<i64>& limits) : options_(options) {
  check<ConfigError>(options.beam >= 1, "beam = ", options.beam, "; it must be 1 or more");
  check<ConfigError>(std::isfinite(options.length_penalty), "the length penalty is ",
                     options.length_penalty);
  for (const i64 limit : limits) {
    check<ConfigError>(limit >= 1, "a translation may have ", limit, " ids; wanted at least 1");
    const auto i = static_cast<i64>(sentences_.size());
    rows_.push_back({i, i, options.begin});
    sentences_.push_back({.limit = limit, .live = {Beam{}}});
  }
}

double hypothesis_score(double log_p, std::size_t ids, double length_penalty) {
  return log_p / std::pow((5 + static_cast<double>(ids)) / 6, length_penalty);
}

i64 BeamSearch::candidates(i64 vocabulary) const { return std::min(2 * options_.beam, vocabulary); }

void BeamSearch::advance(std::span<const std::int32_t> ids, std::span<const float> log_p) {
  const std::size_t rows = rows_.size(), each = rows > 0 ? ids.size() / rows : 0;
  check(each > 0 && ids.size() == rows * each && log_p.size() == ids.size(), ids.size(),
        " ids and ", log_p.size(), " probabilities for ", rows, " rows");
  std::vector<Row> next;
  for (std::size_t row = 0; row < rows;) {
    const i64 sentence = rows_[row].sentence;
    const std::size_t beams = sentences_[static_cast<std::size_t>(sentence)].live.size();
    advance(sentence, ids.subspan(row * each, beams * each),
            log_p.subspan(row * each, beams * each), static_cast<i64>(row), next);
    row += beams;
  }
  rows_ = std::move(next);
}

void BeamSearch::advance(i64 sentence, std::span<const std::int32_t> ids,
                         std::span<const float> log_p, i64 first_row, std::vector<Row>& next) {
  struct Candidate {
    double log_p;
    i64 beam;
    std::int32_t id;
  };
  Sentence& s = sentences_[static_cast<std::size_t>(sentence)];
  const std::size_t each = ids.size() / s.live.size();
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    check(i % each > 0 || std::isfinite(log_p[i]), "the logits of sentence ", sentence,
          " are not finite");
    candidates.push_back({s.live[i / each].log_p + static_cast<double>(log_p[i]),
                          static_cast<i64>(i / each), ids[i]});
  }
  std::ranges::stable_sort(candidates, std::greater<>(), &Candidate::log_p);
  std::vector<Beam> live;
  std::vector<Row> rows;
  for (const Candidate& c : candidates) {
    Beam beam{s.live[static_cast<std::size_t>(c.beam)].ids, c.log_p};
    beam.ids.push_back(c.id);
    if (c.id == options_.end) {
      const double ended = score(beam);
      s.ended.push_back({std::move(beam.ids), ended});
    } else {
      live.push_back(std::move(beam));
      rows.push_back({sentence, first_row + c.beam, c.id});
    }
    if (static_cast<i64>(live.size()) == options_.beam) break;
  }
  const bool full = static_cast<i64>(s.ended.size()) >= options_.beam;
  const bool at_limit = !live.empty() && static_cast<i64>(live[0].ids.size()) >= s.limit;
  if (full || at_limit) {
    for (Beam& beam : live) {
      const double so_far = score(beam);
      s.ended.push_back({std::move(beam.ids), so_far});
    }
    live.clear(), rows.clear();
  }
  s.live = std::move(live);
  next.insert(next.end(), rows.begin(), rows.end());
}

std::vector<std::vector<BeamSearch::Hypothesis>> BeamSearch::results() && {
  check(rows_.empty(), "results() before all sentences are done");
  std::vector<std::vector<Hypothesis>> out;
  for (Sentence& s : sentences_) {
    std::ranges::stable_sort(s.ended, std::greater<>(), &Hypothesis::score);
    out.push_back(std::move(s.ended));
  }
  return out;
}

}  // namespace gossamer::models
