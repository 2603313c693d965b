// Exact evaluation: every image once.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gossamer/apps/report/class_results.h"
#include "gossamer/apps/train/pictures.h"
#include "gossamer/data/loader.h"
#include "gossamer/nn/module.h"

namespace gossamer::apps {

struct Counts {
  // Sums. Items are what a task counts: images, or ids to be guessed.
  double items = 0, top1 = 0, top5 = 0, loss = 0;
  i64 batch = 0;               // rows at a time: fewer than asked for if memory did not suffice
  std::string no_graph{};      // why a GPU ran the network eagerly, if it did
  std::vector<double> more{};  // further sums of a task, equally many in each worker
  // Adds those of all workers up; all_sum(std::span<double>) does it.
  template <class F>
  void add_up(F&& all_sum) {
    std::vector<double> sums{items, top1, top5, loss};
    sums.insert(sums.end(), more.begin(), more.end());
    all_sum(std::span<double>(sums));
    items = sums[0], top1 = sums[1], top5 = sums[2], loss = sums[3];
    std::copy(sums.begin() + 4, sums.end(), more.begin());
  }
};
struct EvalOptions {
  i64 batch = 64;
  int threads = 1;
  int part = 0, parts = 1;  // the part-th of `parts` disjoint shares of the set
  i64 max_batches = 0;      // 0: all
  bool strict = false;      // a damaged image is an error
  bool flip = false;        // the mean of the logits of each image and its mirror image
  bool ensemble = true;     // of several models, see evaluate()
  // As on a GPU, for tests on a CPU: the device resizes, as input_pass() does it, and the last,
  // smaller batch is filled up, because a GPU would measure its convolutions anew for another size.
  bool like_gpu = false;
  // told the images so far; after OutOfMemory it begins anew
  std::function<void(i64)> progress{};
};
// Counts every image of the share once, in one pass for all models, which have the same classes.
// Returns the counts of each alone, and then, if there are several, of their ensemble, which has
// the mean of their probabilities. Models are in eval mode meanwhile, folded for
// inference. If memory does not suffice, it begins again with half the batch; OutOfMemory: for one
// image neither. damaged: receives the loader's list of images that could not be decoded. judged:
// receives what became of each image, by the last that is returned.
std::vector<Counts> evaluate(std::span<nn::Module* const>,
                             const std::shared_ptr<const data::Dataset>& set, const Pictures&,
                             const EvalOptions&, std::vector<std::string>* damaged = nullptr,
                             std::vector<Judgement>* judged = nullptr);

}  // namespace gossamer::apps
