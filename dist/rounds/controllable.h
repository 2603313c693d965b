// What consensus control needs of the method it controls: its steps in two halves, and more rounds
// between them. All calls but alive() and restarts() are collective.
#pragma once

#include <optional>
#include <vector>

#include "gossamer/core/flat.h"

namespace gossamer::dist {

class Controllable {
 public:
  virtual ~Controllable() = default;
  // The update with its own mixing …
  virtual void begin_step(double learning_rate) = 0;
  // … and what is sent beside the next step, the counts, and new rounds if a worker was lost.
  virtual void end_step() = 0;
  // One more round, waited for. Returns |x' - x|^2 of this worker.
  virtual double gossip() = 0;
  // Of the round of the last gossip(), if nothing came after it: x <- x + part (x' - x). All
  // workers take the same part, 0 to 1: then sums over workers stay what they are.
  virtual void keep_part_of_gossip(double part) = 0;
  // Replaces values() by their mean over all living workers, each with its weight: so the mean
  // stays what it was, and the weights stay too. False if a death came in between (then it did not
  // happen).
  virtual bool average_exactly() = 0;
  // Sums over the living workers; nothing if a death came in between.
  virtual std::optional<std::vector<double>> sum_over_workers(std::vector<double> own) = 0;
  virtual FlatParams& params() = 0;
  virtual int alive() const = 0;
  // How often rounds began anew. Some workers may then be a step further than others.
  virtual i64 restarts() const = 0;
};

}  // namespace gossamer::dist
