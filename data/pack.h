// Turns any data set into packed shards (packed.h). Behind `gossamer data pack`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gossamer/core/parallel.h"
#include "gossamer/data/dataset.h"

namespace gossamer::data {

struct PackOptions {
  // larger pictures are shrunk; all are encoded anew: 4:2:0, Huffman tables of their own
  int max_side = 500, quality = 90;
  bool copy = false;  // the files as they are
  // a damaged picture ends it (DataError) instead of being left out
  bool strict = false;
  int threads = 2;
  i64 shard_images = 8192;
};

struct PackReport {
  i64 images = 0, shards = 0, kept_shards = 0;  // kept: found whole from an earlier run
  std::uint64_t bytes = 0;                      // of all shards
  std::vector<std::string> left_out;            // "name: what is wrong"
  // false: ended early; finished shards stay, and the same call goes on behind them
  bool whole = true;
};

// Writes FOLDER/NAME-00000-of-NNNNN.pack, NAME being the folder's own. The samples keep their
// order, the shards are the same bytes whatever the number of threads. Each is decoded before it
// goes in; each shard is put in place whole and read back. tick(done): pictures, see work.h. Shards
// that an earlier call finished stay, if they read back and their sources' bytes are what they
// were. IoError: disk. ConfigError: the folder holds shards of something else, or of pictures that
// have changed. DataError: strict, or a set of raw pixels.
PackReport pack(const Dataset&, const std::string& folder, const PackOptions&,
                FunctionRef<bool(i64)> tick);

}  // namespace gossamer::data
