// Loader: from a data set to batches, on threads of its own, with bounded memory, resumable at any
// step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/core/tensor.h"
#include "gossamer/data/augment/policy.h"
#include "gossamer/data/codec/image.h"
#include "gossamer/data/dataset.h"

namespace gossamer::data {

// the crop; none: resize shorter side + centre crop (evaluation)
enum class Augment { none, pad_crop_flip, resized_crop_flip };

struct LoaderOptions {
  i64 batch = 128;
  int size = 32;  // images come out as size x size
  // evaluation: shorter side before the centre crop; 0: size (small images) or size * 256 / 224
  int resize = 0;
  Augment augment = Augment::none;
  int pad = 4;                       // pad_crop_flip
  float min_area = 0.08f;            // resized_crop_flip
  Shrink filter = Shrink::bilinear;  // of every resize
  std::vector<PixelStep> steps{};    // after crop and flip, in this order (policy.h)
  int threads = 1;
  // batches kept ready: the memory bound is (ahead + threads) batches
  int ahead = 4;
  int rank = 0, world = 1;
  // false: every worker draws its own order of the whole set (A2CiD2); true: disjoint parts of one
  // order
  bool shard = false;
  bool shuffle = true;
  bool drop_last = true;
  std::uint64_t seed = 0;
  // a damaged image stops the run (DataError) instead of being replaced
  bool strict = false;
  // false: its row is left out of the batch, so that no other image counts twice (evaluation)
  bool replace_damaged = true;
  // batches lie in page-locked memory, from which a GPU's copies need no wait
  bool pinned = false;
  // Boxes: for who resizes on its device. A batch then brings each image's box as it is in its
  // file, and what is to become of it; same boxes, same flips. An image has room for box_room
  // pictures of size x size; a larger box is resized here. Not with pad_crop_flip, steps or area.
  bool boxes = false;
  int box_room = 4;
  bool background = true;  // threads at nice 19: computing goes first on a full machine
  // the threads run on these only (affinity.h); empty: anywhere
  std::vector<int> cpus{};
};

struct Batch {
  Tensor images;  // u8 [N, size, size, 3]; undefined with boxes
  Tensor labels;  // i32 [N]; undefined: the epoch is over
  // boxes, for input_pass: u8 [all their bytes], u8 [N sizeof(Picture)]
  Tensor bytes{}, pictures{};
  i64 room = 0;  // boxes: bytes that any batch of this loader may have
  i64 size = 0;  // boxes: side of what they become
  i64 count() const { return labels.defined() ? labels.shape(0) : 0; }
  i64 side() const { return images.defined() ? images.shape(1) : size; }
};

struct LoaderStats {
  i64 images = 0, damaged = 0;
  double wait_s = 0;  // time next() waited for data
  // time the threads waited for next(), summed over them: back-pressure
  double idle_s = 0;
  int ready = 0;  // whole batches that wait for next() now
};

class Loader {
 public:
  Loader(std::shared_ptr<const Dataset>, LoaderOptions);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // batches an epoch, for this rank; 0: a shard without images (drop_last = false)
  i64 steps() const;
  // the next batch is this one; order and augmentation follow (seed, epoch, rank, index) alone
  void seek(i64 epoch, i64 step = 0);
  i64 epoch() const;
  // Images come out as size x size from the next batch on; at most options.size, for which there is
  // memory. Batches made ahead are made again, and order and augmentation stay those of (seed,
  // epoch, rank, index): progressive resolution.
  void set_size(int size);
  int size() const;
  // waits for data; after the last batch of an epoch: an empty Batch once, then the next epoch
  // begins
  Batch next();
  LoaderStats stats() const;
  std::vector<std::string> damaged() const;  // "name: what is wrong", each once

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The order of one worker's epoch: pure function. Every index appears exactly once over an epoch
// (shard: over all ranks).
std::vector<i64> epoch_order(i64 size, std::uint64_t seed, i64 epoch, int rank, int world,
                             bool shard, bool shuffle);

}  // namespace gossamer::data
