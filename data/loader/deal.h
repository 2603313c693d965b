// The batches of an order that workers have in common, dealt out among them step by step. A step
// takes as many batches however many workers there are, so they may come and go: where the order
// stands does not depend on who took which part of it.
//
//   order of an epoch   b0 b1 b2 b3 b4 b5 | b6 b7 b8 b9 b10 b11 | b12 …
//   six in a step        step 0, 2 workers    step 1, 3 workers
//   who takes them       0  1  0  1  0  1    0  1  2  0  1   2
// Threads: any.
#pragma once

#include <span>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::data {

// A place in the epochs of a source of batches.
struct Position {
  i64 epoch = 0, step = 0;  // of the next batch
  bool operator==(const Position&) const = default;
  // True behind the last batch of an epoch, once; then the next epoch begins.
  bool epoch_is_over(i64 steps) {
    if (step < steps) return false;
    *this = {epoch + 1, 0};
    return true;
  }
};

// Where a common order stands: what is left of it.
struct Dealt {
  Position next{};  // it and all that follow were not dealt yet; a step of an epoch is a batch
  // Dealt, and not brought by the workers that had them: they come first. Ascending.
  std::vector<Position> again{};
};

class Deal {
 public:
  // batches: of an epoch; the next epoch follows its last one, in the midst of a step too.
  // ConfigError if a number makes no sense, or if what is left begins behind an epoch's end.
  Deal(Dealt from, i64 batches, i64 batches_of_step, int place, int workers);

  // Of a step, for this place: those below it get as many, or one more.
  i64 own() const { return own_; }
  i64 batches() const { return batches_; }
  const Dealt& from() const { return from_; }
  // The own batch number j, counted from 0, where the deal begins. None of a place without any.
  Position batch(i64 j) const;
  // What is left after so many steps of all, or of each place, whose further batches come again.
  Dealt after(i64 steps) const;
  Dealt after(std::span<const i64> steps) const;

 private:
  Position entry(i64 i) const;  // of all that is left, in its order

  Dealt from_;
  i64 batches_, of_step_, own_;
  int place_, workers_;
};

}  // namespace gossamer::data
