// With train.global_batch: which batches of the order that all workers have in common this worker
// computes. Each step of all workers takes as many (data/loader/deal.h); who computes which changes
// when workers come or go, and what one that was lost had not brought is dealt again.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "gossamer/data/loader/deal.h"
#include "gossamer/dist/method.h"

namespace gossamer::apps {

class Dealing {
 public:
  struct Options {
    int rank = 0;
    i64 batches_of_epoch = 1, batches_of_step = 1;
    // Where the order stood before the changes of those that share which the method knows.
    data::Dealt from = {};
    // Told at once, and whenever this worker's part is another one: its next batches are these.
    std::function<void(const data::Deal&)> deal;
  };
  // The method must outlive it.
  Dealing(Options, const dist::Method&);

  int batches_of_step() const { return static_cast<int>(o_.batches_of_step); }
  // The place in the common order of the next own batch; taken: it was brought.
  data::Position next() const { return deal_->batch(taken_); }
  void taken() { ++taken_; }
  // After a step. How many batches are dealt again, if others share the next step than this one:
  // then what was brought for it is of no use, and this worker's share may be another one.
  std::optional<i64> after_step();
  // What is left where those began who share now, and the steps that each of them is known to have
  // done since: what is saved. Who comes to them is told the first, before the change that it
  // makes.
  data::Dealt begin() const { return after_changes().left; }
  const std::vector<i64>& known() const { return method_.sharing().known; }
  data::Position left() const;  // the first batch that nobody is known to have had

 private:
  struct Changed {
    data::Dealt left;
    i64 again;  // batches
  };
  Changed after_changes() const;  // that the method knows, and was not dealt for
  data::Deal deal_of(data::Dealt from, int place, std::size_t workers) const;
  void deal(data::Dealt from);

  const Options o_;
  const dist::Method& method_;
  std::optional<data::Deal> deal_;
  std::size_t changes_ = 0;  // of those that share, when it was dealt
  i64 taken_ = 0;            // own batches of this deal
};

// As numbers, for who joins (MethodOptions::tell). ConfigError: they are none.
std::vector<double> to_numbers(const data::Dealt&);
data::Dealt dealt_from(const std::vector<double>&);

}  // namespace gossamer::apps
