// Beam search over several sentences at once. The caller computes the likeliest ids of each row;
// here the beams are chosen, so that the search knows no model.
// Threads: one at a time for a BeamSearch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::models {

struct BeamOptions {
  i64 beam = 4;  // hypotheses of a sentence; 1: greedy
  // A hypothesis of n ids has the score log p / ((5 + n) / 6)^penalty (Wu et al. 2016, equation 14,
  // without coverage).
  double length_penalty = 0.6;
  std::int32_t begin = 0, end = 0;  // the marks around a sentence
};

// The score of a hypothesis of so many ids, its end mark counted.
double hypothesis_score(double log_p, std::size_t ids, double length_penalty);

// A sentence begins with one beam, the begin mark: four equal beams would stay equal. It ends when
// `beam` hypotheses have ended, or at its limit; then the best of those that ended, and of those
// that did not, is its result.
class BeamSearch {
 public:
  struct Hypothesis {
    std::vector<std::int32_t> ids;  // without the begin mark; with the end mark if it ended
    double score = 0;
  };
  // A row of the next batch.
  struct Row {
    i64 sentence;
    i64 parent;       // its row in the previous batch: whose cache it goes on with
    std::int32_t id;  // last one, the input of the next step
  };
  // limits: the most ids of each sentence's translation, the end mark counted.
  BeamSearch(BeamOptions, const std::vector<i64>& limits);
  // The rows of the sentences that are not done, in the sentences' order. Empty: all are done.
  const std::vector<Row>& rows() const { return rows_; }
  // How many ids of each row advance() wants: even if half of them end, enough go on.
  i64 candidates(i64 vocabulary) const;
  // [rows, candidates]: what likeliest() of core/ops/decode.h gives behind the ids of the rows.
  // Error: log_p is not finite.
  void advance(std::span<const std::int32_t> ids, std::span<const float> log_p);
  // The hypotheses of each sentence, once rows() is empty: `beam` at least, or all there can be,
  // the best first.
  std::vector<std::vector<Hypothesis>> results() &&;

 private:
  struct Beam {
    std::vector<std::int32_t> ids;
    double log_p = 0;
  };
  struct Sentence {
    i64 limit = 0;
    std::vector<Beam> live;
    std::vector<Hypothesis> ended{};
    bool done() const { return live.empty(); }
  };
  double score(const Beam& b) const {
    return hypothesis_score(b.log_p, b.ids.size(), options_.length_penalty);
  }
  // Advances one sentence, whose rows begin with first_row, and appends its rows to `next`.
  void advance(i64 sentence, std::span<const std::int32_t> ids, std::span<const float> log_p,
               i64 first_row, std::vector<Row>& next);

  BeamOptions options_;
  std::vector<Sentence> sentences_;
  std::vector<Row> rows_;
};

}  // namespace gossamer::models
