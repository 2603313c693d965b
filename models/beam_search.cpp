// See beam_search.h.
#include "gossamer/models/beam_search.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "gossamer/core/error.h"

namespace gossamer::models {

BeamSearch::BeamSearch(BeamOptions options, std::vector<i64> limits) : options_(options) {
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

double BeamSearch::score(const Beam& b) const {
  return b.log_p / std::pow((5 + static_cast<double>(b.ids.size())) / 6, options_.length_penalty);
}

void BeamSearch::advance(std::span<const float> logits) {
  const auto rows = static_cast<i64>(rows_.size());
  check(rows > 0 && !logits.empty() && static_cast<i64>(logits.size()) % rows == 0, logits.size(),
        " logits for ", rows, " rows");
  const i64 vocabulary = static_cast<i64>(logits.size()) / rows;
  std::vector<Row> next;
  for (i64 row = 0; row < rows;) {
    const i64 sentence = rows_[static_cast<std::size_t>(row)].sentence;
    const auto beams = static_cast<i64>(sentences_[static_cast<std::size_t>(sentence)].live.size());
    advance(sentence,
            logits.subspan(static_cast<std::size_t>(row * vocabulary),
                           static_cast<std::size_t>(beams * vocabulary)),
            vocabulary, row, next);
    row += beams;
  }
  rows_ = std::move(next);
}

void BeamSearch::advance(i64 sentence, std::span<const float> logits, i64 vocabulary, i64 first_row,
                         std::vector<Row>& next) {
  struct Candidate {
    double log_p;
    i64 beam, id;
  };
  Sentence& s = sentences_[static_cast<std::size_t>(sentence)];
  // Twice as many as beams: even if half of them end, enough go on.
  const auto wanted = static_cast<std::size_t>(std::min(2 * options_.beam, vocabulary));
  std::vector<Candidate> candidates;
  struct Best {
    float logit;
    i64 id;
  };
  std::vector<Best> best;  // of one beam, falling; of equal ones the lower id first
  for (std::size_t b = 0; b < s.live.size(); ++b) {
    const auto row = logits.subspan(b * static_cast<std::size_t>(vocabulary),
                                    static_cast<std::size_t>(vocabulary));
    const float top = *std::ranges::max_element(row);
    double sum = 0;
    for (const float v : row) sum += std::exp(static_cast<double>(v) - static_cast<double>(top));
    check(std::isfinite(sum), "the logits of sentence ", sentence, " are not finite");
    const double log_sum = static_cast<double>(top) + std::log(sum);
    best.clear();
    for (i64 id = 0; id < vocabulary; ++id) {
      const float logit = row[static_cast<std::size_t>(id)];
      if (best.size() == wanted) {
        if (!(logit > best.back().logit)) continue;
        best.pop_back();
      }
      best.insert(std::ranges::upper_bound(best, logit, std::greater<>(), &Best::logit),
                  {logit, id});
    }
    for (const Best& c : best)
      candidates.push_back(
          {s.live[b].log_p + static_cast<double>(c.logit) - log_sum, static_cast<i64>(b), c.id});
  }
  std::ranges::stable_sort(candidates, std::greater<>(), &Candidate::log_p);
  std::vector<Beam> live;
  std::vector<Row> rows;
  for (const Candidate& c : candidates) {
    Beam beam{s.live[static_cast<std::size_t>(c.beam)].ids, c.log_p};
    beam.ids.push_back(static_cast<std::int32_t>(c.id));
    if (c.id == options_.end) {
      const double ended = score(beam);
      s.ended.push_back({std::move(beam.ids), ended});
    } else {
      live.push_back(std::move(beam));
      rows.push_back({sentence, first_row + c.beam, static_cast<std::int32_t>(c.id)});
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

std::vector<BeamSearch::Hypothesis> BeamSearch::results() const {
  check(rows_.empty(), "results() before all sentences are done");
  std::vector<Hypothesis> out;
  for (const Sentence& s : sentences_)
    out.push_back(*std::ranges::max_element(s.ended, {}, &Hypothesis::score));
  return out;
}

}  // namespace gossamer::models
