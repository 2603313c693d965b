// Exact evaluation: every image once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gossamer/apps/train/pictures.h"
#include "gossamer/data/loader.h"
#include "gossamer/nn/module.h"

namespace gossamer::apps {

struct Counts {
  double images = 0, top1 = 0, top5 = 0, loss = 0;  // sums
};
struct EvalOptions {
  i64 batch = 64;
  int threads = 1;
  int part = 0, parts = 1;  // the part-th of `parts` disjoint shares of the set
  i64 max_batches = 0;      // 0: all
  bool strict = false;      // a damaged image is an error
  // The last, smaller batch is filled up, because a GPU would measure its convolutions anew for
  // another batch size. On a CPU for tests.
  bool one_size = false;
};
// Counts every image of the share once, in eval mode and without a tape, and then restores the
// training mode. damaged: receives the loader's list of images that could not be decoded.
Counts evaluate(nn::Module& net, const std::shared_ptr<const data::Dataset>& set, const Pictures&,
                const EvalOptions&, std::vector<std::string>* damaged = nullptr);

}  // namespace gossamer::apps
