// The order of a worker's images: what it is a function of beside epoch and rank. With it, a step
// in a checkpoint is an exact position; without, "step 812" of another batch size or another data
// set would repeat images or leave some out, and nobody would know.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "gossamer/data/dataset.h"
#include "gossamer/data/loader.h"

namespace gossamer::apps {

struct Position {
  double samples = 0;       // seen by all workers
  i64 epoch = 0, step = 0;  // next batch of this worker's loader
};

struct ImageOrder {
  i64 batch = 0;
  std::uint64_t seed = 0;
  bool shared = false;    // the workers share an epoch (data.shard)
  std::uint64_t set = 0;  // data::fingerprint() of this worker's images
};
ImageOrder image_order(const data::Dataset&, const data::LoaderOptions&);

// As text in the header of a checkpoint, and back; nullopt if it is not there.
std::map<std::string, std::string> to_metadata(const ImageOrder&);
std::optional<ImageOrder> parse_order(const std::map<std::string, std::string>& metadata);

// Where a run of order `now` goes on that was saved at `saved` with order `then`. Exactly there if
// they are the same; at the same image, or up to a batch before it, if only the batch size differs;
// else at the beginning of that epoch. note: what comes twice and why, empty if nothing does.
struct Continuation {
  Position at;
  std::string note;
};
Continuation go_on(const Position& saved, const std::optional<ImageOrder>& then,
                   const ImageOrder& now);

}  // namespace gossamer::apps
