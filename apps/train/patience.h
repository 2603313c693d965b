// train.patience: a run ends when so many evaluations one after another were not better than the
// best before them.
#pragma once

#include <string>

#include "gossamer/apps/train/best.h"

namespace gossamer::apps {

class Patience {
 public:
  // evaluations: 0: no end. by: run.best_by.
  Patience(i64 evaluations, std::string by) : most_(evaluations), by_(std::move(by)) {}
  void look(const Score&);  // at an evaluation; with several workers at one in which all take part
  bool exhausted() const { return most_ > 0 && since_ >= most_; }
  std::string sentence() const;  // what has happened
  // The state as text, for checkpoints. restore() ignores a text that counted something else.
  std::string text() const;
  void restore(const std::string& text);

 private:
  const i64 most_;
  const std::string by_;
  bool any_ = false;
  Score best_;
  i64 since_ = 0;  // evaluations
};

}  // namespace gossamer::apps
