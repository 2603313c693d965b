// Where a training goes on in the epochs of its data.
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gossamer/data/loader/epoch.h"
#include "gossamer/data/source.h"

namespace gossamer::data {

// Where an order stands that all workers have and that is dealt out (loader/deal.h).
struct CommonOrder {
  i64 batches = 1, batches_of_step = 1;  // of an epoch, of a step
  // Beside the position where those began who share it: what comes first, and the steps since then
  // that each of them had done, as far as the worker knew that saved it.
  std::vector<Position> again = {};
  std::vector<i64> done = {};
};

// What the order of a worker's samples depends on, besides epoch and rank. A checkpoint stores it:
// "step 812" of another batch size or another data set would repeat samples or leave some out
// without notice.
struct SampleOrder {
  i64 batch = 0;
  std::uint64_t seed = 0;
  bool shared = false;                     // the workers share an epoch
  std::optional<CommonOrder> common = {};  // it is dealt out, so a position is that of CommonOrder
  std::uint64_t set = 0;                   // of this worker's data: fingerprint() of images
  // The hash of the tokenizer, for text; older checkpoints do not have it.
  std::optional<std::uint64_t> tokenizer = {};
  // Of several texts: "joined" or "separate" documents, and their weights, as text, "" for none.
  // Older checkpoints do not have them.
  std::optional<std::string> documents = {}, weights = {};
};
// set: see SampleOrder.
SampleOrder sample_order(i64 batch, const EpochOptions&, std::uint64_t set);

// The order as text in the header of a checkpoint, and back; nullopt if it is missing or damaged.
std::map<std::string, std::string> to_metadata(const SampleOrder&);
std::optional<SampleOrder> parse_order(const std::map<std::string, std::string>& metadata);

// Why the samples of an epoch come in another order. unknown: it isn't known in which they came.
enum class OrderChange { none, unknown, set, seed, shared, common };

// Where a source of order `now` goes on after it stood at `saved` with order `then`: exactly there
// if both orders are equal; at the same sample, or less than a batch before it, if only the batch
// size differs; otherwise at the beginning of that epoch.
struct Continued {
  Position at;
  std::vector<Position> dealt = {};        // of a common order: to come before it
  OrderChange change = OrderChange::none;  // not none: the epoch begins again
  i64 again = 0;                           // samples that come twice, as batches end elsewhere
};
// What several workers have saved of a common order is put together: the last that some know of it.
struct Saved {
  Position at;
  SampleOrder order;
};
Saved together(const std::vector<Saved>&);

Continued continue_order(const Position& saved, const std::optional<SampleOrder>& then,
                         const SampleOrder& now);

}  // namespace gossamer::data
