// The images of a run: the data sets, a worker's share of them, how they are loaded, and where a
// resumed run goes on in them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "gossamer/apps/config.h"
#include "gossamer/apps/train/pictures.h"
#include "gossamer/data/dataset.h"
#include "gossamer/data/loader.h"
#include "gossamer/data/sample_order.h"
#include "gossamer/dist/net/launch.h"
#include "gossamer/nn/train/train_state.h"

namespace gossamer::apps {

struct DataSets {
  std::shared_ptr<const data::Dataset> train, val;  // val: null if data.val is none
  std::vector<std::string> val_sources;  // what `val` was read from, unless it was held back
  // of both: what the user should know, and "name: what was wrong" of images that are no samples
  std::vector<std::string> notes, left_out;
};
// Opens both and checks what can be checked before any worker is started: equal classes, and enough
// images for a batch of each worker. DataError names the set and the numbers.
DataSets open_data(const Config&, int workers);
// The validation set alone, the same that open_data() gives. `train` is null.
DataSets open_validation(const Config&);

std::string paths_text(const std::vector<std::string>& paths);  // "a" or "a (+2 more)"

// Whether one order of all workers is dealt out (train.global_batch). With gossip each worker has
// its own.
bool deals_one_order(const Config&);
// Whether workers divide one order of the set among themselves; otherwise each draws its own.
bool shares_epochs(const Config&);
// How the epochs of the training data are divided. The texts' tasks refuse data.shard=dirichlet.
data::EpochOptions epoch_options(const Config&, const dist::LaunchInfo&);
// The images that a worker draws from: all of the set, or its part if data.shard is dirichlet.
std::shared_ptr<const data::Dataset> own_images(const Config&, std::shared_ptr<const data::Dataset>,
                                                const dist::LaunchInfo&);
// The options of this worker's loader, for a model on this device. ConfigError: an unknown
// augmentation step, or one that does not go with data.resize_on.
data::LoaderOptions loader_options(const Config&, const Pictures&, const dist::LaunchInfo&, Device);

// Where a run of order `now` continues after it was saved at `saved` with order `then`, as
// data::continue_order(). note: which samples come twice and why, or empty.
struct Continuation {
  nn::Position at;
  std::vector<data::Position> again;  // of the common order, to come before it
  std::string note;
};
Continuation continue_from(const nn::Position& saved, const std::optional<data::SampleOrder>& then,
                           const data::SampleOrder& now);

}  // namespace gossamer::apps
