// Sentences that a Transformer translates, all together, by beam search. The device computes the
// likeliest ids of each row; the host chooses the beams from them, which one gather brings into
// their new order. Where steps are to be graphs, all that they read and write stays where it is,
// and numbers of sentences and their lengths are rounded up, so that few graphs serve all batches.
// Threads: one at a time for a Translator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gossamer/core/captured_step.h"
#include "gossamer/core/ops/choice.h"
#include "gossamer/core/ops/decode.h"
#include "gossamer/models/beam_search.h"
#include "gossamer/models/transformer.h"

namespace gossamer::models {

class Translator {
 public:
  using Ids = std::vector<std::int32_t>;
  // Without a capture each step computes just the rows that go on. The network must live as long,
  // in eval mode.
  Translator(Transformer&, const BeamOptions&, GraphOptions graphs = {});
  using Hypotheses = std::vector<BeamSearch::Hypothesis>;
  // The translations of each source that the search has found, of at most limits[i] ids, the best
  // first. Sources have at least one id, and as many as the model has positions at most; limits
  // too.
  std::vector<Hypotheses> search(const std::vector<Ids>& sources, const std::vector<i64>& limits);
  // The best of each.
  Hypotheses translate(const std::vector<Ids>& sources, const std::vector<i64>& limits);
  // Instead: translations whose ids are drawn, one for each seed, in the order of the seeds, which
  // serve all sources. The score is that of the model itself, before temperature and cuts. The ids
  // are chosen on the host.
  std::vector<Hypotheses> sample(const std::vector<Ids>& sources, const std::vector<i64>& limits,
                                 const Choice&, std::span<const std::uint64_t> seeds);
  i64 positions() const { return net_.options().positions; }  // most ids of either side
  std::size_t graphs() const { return step_.graphs(); }

 private:
  // Memory that graphs keep; tensors are views of it.
  struct Rooms {
    std::vector<Tensor> own, memory;  // of each layer
    Tensor lengths, inputs, ids, log_p;
  };
  // The next step's rows: what the device needs to know of the search.
  struct Rows {
    Ids parents, ids;    // of each row: the row that it goes on with, and its last id
    bool moved = false;  // some row does not go on with itself
  };
  void begin(const std::vector<Ids>& sources, i64 capacity);
  // Sources as rows of a tensor, [count, longest], and their lengths, both on the device.
  struct Padded {
    Tensor ids, lengths;
  };
  Padded padded(const std::vector<Ids>& sources, i64 count, i64 longest) const;
  Rows arrange(const std::vector<BeamSearch::Row>&);
  void keep_sources(const std::vector<i64>& sentences);
  void step(const Rows&, i64 candidates);

  i64 rounded(i64 n, i64 most) const;
  Tensor in_room(Tensor& room, const Shape&, DType) const;
  // All that a room holds, in rows like those of `view`.
  static Tensor all_rows(const Tensor& room, const Tensor& view);

  Transformer& net_;
  const BeamOptions options_;
  const Device device_;
  const bool fixed_;  // memory stays where it is, for graphs
  CapturedStep step_;
  Rooms rooms_;
  Transformer::Cache cache_;
  TextPositions positions_;  // of all rows there may be: the search is at one for all of them
  Tensor ids_, log_p_;       // [rows, candidates], of the last step
  std::vector<i64> places_;  // the sentence of each source in the cache; -1: none that goes on
  std::vector<i64> row_at_;  // the cache's row of each row of the search
};

}  // namespace gossamer::models
