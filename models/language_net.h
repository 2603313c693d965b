// What all language models have in common: ids in, a distribution of the next id at each position
// out, and a cache of keys and values for generation.
// Threads: as Module (nn/module.h); one at a time for a Cache.
#pragma once

#include <vector>

#include "gossamer/core/flat.h"
#include "gossamer/core/ops.h"
#include "gossamer/nn/module.h"

namespace gossamer {
class TextPositions;  // core/ops/decode.h
}

namespace gossamer::models {

class LanguageNet : public nn::Module {
 public:
  virtual i64 width() const = 0;
  virtual i64 vocabulary() const = 0;
  virtual i64 positions() const = 0;  // the longest text that it sees at once, in ids

  // ids i32 [B, T], T <= positions() -> [B, T, width()], behind the last norm.
  virtual Tensor hidden(const Tensor& ids) = 0;
  // The head's weight, [vocabulary(), width()].
  virtual const Tensor& head() const = 0;
  // [..., width()] -> [..., vocabulary()]
  Tensor logits(const Tensor& hidden) const { return linear(hidden, head()); }
  Tensor forward(const Tensor& ids) override { return logits(hidden(ids)); }
  // The mean cross entropy of the labels i32 [B, T] that are not -1, []. The logits never exist as
  // a whole.
  Tensor loss(const Tensor& ids, const Tensor& labels, float label_smoothing = 0) {
    return loss_of(hidden(ids), labels, label_smoothing);
  }
  // The same of what hidden() gave.
  Tensor loss_of(const Tensor& hidden, const Tensor& labels, float label_smoothing = 0) const {
    return head_loss(hidden.reshape({-1, width()}), head(), labels.reshape({-1}),
                     {.label_smoothing = label_smoothing, .ignore = -1});
  }

  // Keys and values of the ids so far, of each layer.
  struct Cache {
    std::vector<Tensor> layers;
    i64 length = 0;
  };
  // Empty, with room for positions().
  virtual Cache cache(i64 batch) const = 0;
  // The numbers that the cache of one text has.
  virtual i64 cache_numbers() const = 0;
  // The logits [B, vocabulary()] behind the last of ids [B, T], which follow those in the cache and
  // join them. Not recorded. ShapeError if the cache is full.
  virtual Tensor step(const Tensor& ids, Cache&) = 0;
  // The same for one id of each text, where the device says that they are: it reads no length, and
  // the caller advances it, with the positions.
  virtual Tensor step(const Tensor& ids, const Cache&, const TextPositions&) = 0;
};

// The model's parameters, with the values that params holds of them; null: as they are.
std::vector<NamedTensor> master_parameters(const LanguageNet&, const FlatParams* params);
// Row T - 1 of each text of x [B, T, C] -> [B, C].
Tensor last_rows(const Tensor& x);

}  // namespace gossamer::models
