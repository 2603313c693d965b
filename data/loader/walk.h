// Where a source of batches stands: in the epochs of its own order, or in a deal.
#pragma once

#include <optional>

#include "gossamer/data/loader/deal.h"
#include "gossamer/data/loader/epoch.h"

namespace gossamer::data {

class Walk {
 public:
  // steps: batches of an epoch
  explicit Walk(i64 steps) : steps_(steps) {}
  void seek(const Position& to) { at_ = to, deal_.reset(); }
  void deal(const Deal& from) { deal_ = from, dealt_ = 0, at_ = from.batch(0); }

  // The batch that comes next, or, at the end of an epoch, behind that; n: of those that follow.
  Position next(i64 n = 0) const;
  void advance();
  // True between two epochs, once.
  bool epoch_is_over();
  i64 epoch() const { return at_.epoch; }  // the old one until epoch_is_over() was asked

 private:
  i64 steps_;
  Position at_{};  // in a deal: of which only the epoch counts
  std::optional<Deal> deal_{};
  i64 dealt_ = 0;  // batches of the deal so far
};

// ConfigError: see BatchSource::deal(). source: its name in errors.
void check_deal(const char* source, const EpochOptions&, i64 steps, const Deal&);

}  // namespace gossamer::data
