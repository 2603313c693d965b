// The loader makes batches of a data set. It has threads of its own and bounded memory, and can
// resume at any step.
// Threads: one at a time calls next, seek and set_size; any asks for stats() and damaged().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/core/tensor.h"
#include "gossamer/data/augment/augment.h"
#include "gossamer/data/dataset.h"
#include "gossamer/data/source.h"

namespace gossamer::data {

struct LoaderOptions {
  i64 batch = 128;
  int size = 32;  // images come out as size x size
  // evaluation: shorter side before the centre crop; 0: usual_resize() (core/input_pass.h)
  int resize = 0;
  Augment augment = Augment::none;
  int pad = Recipe().pad;              // pad_crop_flip
  bool reflect = Recipe().reflect;     // pad_crop_flip
  float min_area = Recipe().min_area;  // resized_crop_flip
  Shrink filter = Shrink::bilinear;    // of every resize
  // Which pictures are mirrored: false: half of them, drawn anew in each epoch; true: half of them
  // in the even epochs, the others in the odd ones (K. Jordan 2024, arXiv 2404.00498).
  bool alternating = false;
  std::vector<PixelStep> steps{};  // after crop and flip, in this order (augment.h)
  int threads = 1;
  // batches that are made ahead: at most (ahead + threads) batches are in memory
  int ahead = 4;
  EpochOptions epoch{};
  // a damaged image stops the run (DataError) instead of being replaced
  bool strict = false;
  // false: its row is left out of the batch, so that no other image counts twice (evaluation)
  bool replace_damaged = true;
  // batches lie in page-locked memory, so that copies to a GPU run beside the CPU
  bool pinned = false;
  // For a device that resizes: instead of images, a batch holds the part of each picture that its
  // crop needs, at full size, and what the device has to do with it. Crops and flips are the same
  // as without. An image has room for box_room pictures of size x size; a larger box is resized
  // here. Not with pad_crop_flip, steps or area.
  bool boxes = false;
  int box_room = 4;
  bool background = true;  // threads at nice 19, so that computing has priority on a full machine
  // the threads run on these CPUs only (affinity.h); empty: on all
  std::vector<int> cpus{};
};

struct Batch {
  Tensor images;  // u8 [N, size, size, 3]; undefined with boxes
  Tensor labels;  // i32 [N]; undefined: the epoch is over
  // boxes, for input_pass: u8 [all their bytes], u8 [N sizeof(Picture)]
  Tensor bytes{}, pictures{};
  i64 room = 0;  // boxes: the most bytes that a batch of this loader may have
  i64 size = 0;  // boxes: side of the images that they become
  // [N]: which samples of the set these are; empty with replace_damaged
  std::vector<i64> samples{};
  i64 count() const { return labels.defined() ? labels.shape(0) : 0; }
  i64 side() const { return images.defined() ? images.shape(1) : size; }
};

struct LoaderStats {
  i64 images = 0, damaged = 0;
  double wait_s = 0;  // time next() waited for data
  // time that the threads waited because enough batches were ready, summed over them
  double idle_s = 0;
  int ready = 0;  // complete batches that wait for next()
};

class Loader final : public BatchSource<Batch> {
 public:
  Loader(const std::shared_ptr<const Dataset>&, const LoaderOptions&);
  ~Loader() override;

  i64 steps() const override;  // 0: a part without images (drop_last = false)
  void seek(i64 epoch, i64 step = 0) override;
  void deal(const Deal&) override;
  i64 epoch() const override;
  // From the next batch on, images come out as size x size (progressive resolution); at most
  // options.size, for which there is memory, else ConfigError. Batches that were made ahead are
  // made again with the same order and augmentation.
  void set_size(int size);
  int size() const;
  // Waits for the next batch. DataError: damaged images end the run; the same error comes again
  // until seek().
  Batch next() override;
  LoaderStats stats() const;
  std::vector<std::string> damaged() const;  // "name: what is wrong", each once

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gossamer::data
