// Turns any data set into packed shards (formats/packed.h), for `gossamer data pack`.
// Threads: one at a time for a folder; tick is called by the calling thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gossamer/core/parallel.h"
#include "gossamer/data/dataset.h"

namespace gossamer::data {

struct PackOptions {
  // Larger pictures are shrunk. All are encoded again as JPEG: 4:2:0, optimised Huffman tables.
  int max_side = 500, quality = 90;
  bool copy = false;  // keep the files as they are
  // a damaged picture is a DataError instead of being left out
  bool strict = false;
  int threads = 2;
  i64 shard_images = 8192;
};

struct PackReport {
  i64 images = 0, shards = 0, kept_shards = 0;  // kept: complete from an earlier run
  i64 reencoded = 0;                            // PNG, GIF, BMP; now JPEG called NAME.png.jpg
  std::uint64_t bytes = 0;                      // of all shards
  std::vector<std::string> left_out;            // "name: what is wrong"
  // false: stopped early; finished shards stay, and the same call continues after them
  bool whole = true;
};

// Writes FOLDER/NAME-00000-of-NNNNN.pack, where NAME is the folder's own name. The samples keep
// their order, and the bytes do not depend on the number of threads. Every picture is decoded
// before it is written; every shard is put in place in one step and read back. Shards of an earlier
// call stay if they read back and the bytes of their sources are the same as then. tick(done): see
// for_each_sample(). IoError: disk. ConfigError: the folder holds other things, shards of another
// data set, or of pictures that have changed. DataError: strict, or a set of raw pixels.
PackReport pack(const Dataset&, const std::string& folder, const PackOptions&,
                FunctionRef<bool(i64)> tick);

}  // namespace gossamer::data
