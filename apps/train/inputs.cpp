// See inputs.h.
#include "gossamer/apps/train/inputs.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <set>

#include <fmt/format.h>

#include "gossamer/apps/machine.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/core/error.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/loader/affinity.h"
#include "gossamer/data/split.h"
#include "gossamer/data/text/text_set.h"
#include "gossamer/data/unequal.h"

namespace gossamer::apps {

// --- the data sets

namespace {

bool unequal(const Config& c) { return c.data.shard.starts_with("dirichlet"); }

std::vector<std::vector<i64>> parts_of(const Config& c, const data::Dataset& set, int workers) {
  return data::dirichlet_parts(set, data::parse_dirichlet(c.data.shard), workers,
                               static_cast<std::uint64_t>(c.train.seed));
}

}  // namespace

std::string paths_text(const std::vector<std::string>& paths) {
  return paths.size() == 1 ? paths[0] : fmt::format("{} (+{} more)", paths[0], paths.size() - 1);
}

namespace {

void check_default_set(const std::string& path) {
  check<DataError>(!path.starts_with("data-cache/shapes10") || std::filesystem::exists(path),
                   data::code::nothing, path,
                   ": the default data set is not there yet. It is made with: gossamer data "
                   "make-shapes data-cache/shapes10. Other data are named with data.train=DIR "
                   "data.val=DIR");
}

std::shared_ptr<const data::Dataset> open_part(const Config& c,
                                               const std::vector<std::string>& paths,
                                               data::Part part, DataSets& sets) {
  check_default_set(paths[0]);
  for (const std::string& path : paths)
    check<DataError>(!data::is_text_set(path), data::code::nothing, path,
                     ": holds ids of text, and this run is on pictures; say task=language or "
                     "task=translation");
  auto set = data::open(paths, part, data::parse_label_base(c.data.label_base));
  std::ranges::move(set->notes(), std::back_inserter(sets.notes));
  std::ranges::move(set->left_out(), std::back_inserter(sets.left_out));
  return set;
}

// Opens the training set and makes both sets of it (data.val_split).
void split_training_set(const Config& c, DataSets& sets) {
  const auto whole = open_part(c, c.data.train, data::Part::train, sets);
  data::Split split =
      data::stratified_split(*whole, c.data.val_split, static_cast<std::uint64_t>(c.train.seed));
  check<DataError>(!split.val.empty(), "data.val_split = ", c.data.val_split, ": each class of ",
                   paths_text(c.data.train), " has one image, so none can validate");
  sets.train = data::part_of(whole, std::move(split.train));
  sets.val = data::part_of(whole, std::move(split.val));
}

void open_val(const Config& c, DataSets& sets) {
  if (c.data.val[0] == "none") return;
  std::vector<std::string> paths = c.data.val;
  if (paths[0] == "auto") {
    check_default_set(c.data.train[0]);
    paths = data::validation_beside(c.data.train);
    check<ConfigError>(!paths.empty(), "data.train = ", paths_text(c.data.train),
                       " comes without validation data, which would be beside it, or in it as val/ "
                       "beside train/. Give it (data.val=DIR), hold a part of the training set "
                       "back (data.val_split=0.1), or do without (data.val=none)");
  }
  const std::vector<std::string> sources = data::sources_of(paths, data::Part::val);
  if (sources != c.data.val) {
    std::string note = "validated with " + paths_text(sources);
    if (std::filesystem::path(sources[0]).filename() == "test")
      note +=
          ", since there is no val/; it chooses the best model, so it cannot test that model "
          "any more; data.val_split=0.1 validates with a part of the training data instead";
    sets.notes.push_back(note);
  }
  sets.val = open_part(c, paths, data::Part::val, sets);
  sets.val_sources = sources;
}

// What is named twice is no error, but seldom meant.
void note_overlaps(const Config& c, DataSets& sets) {
  const auto place = [](const std::string& path) {
    return std::filesystem::weakly_canonical(path).string();
  };
  std::set<std::string> trained, said;
  for (const std::string& path : data::sources_of(c.data.train, data::Part::train))
    if (!trained.insert(place(path)).second && said.insert(path).second)
      sets.notes.push_back(path + " comes twice in data.train, so its images count twice");
  for (const std::string& path : sets.val_sources)
    if (trained.contains(place(path)))
      sets.notes.push_back(path +
                           " is both trained on and validated with, so the validation says "
                           "nothing about new images");
}

}  // namespace

DataSets open_validation(const Config& c) {
  DataSets sets;
  if (c.data.val_split > 0)
    split_training_set(c, sets);
  else
    open_val(c, sets);
  sets.train = nullptr;
  return sets;
}

DataSets open_data(const Config& c, int workers) {
  DataSets sets;
  if (c.data.val_split > 0) {
    split_training_set(c, sets);
  } else {
    sets.train = open_part(c, c.data.train, data::Part::train, sets);
    open_val(c, sets);
  }
  note_overlaps(c, sets);
  if (sets.val) data::check_same_classes(*sets.train, *sets.val);
  const auto have = static_cast<i64>(sets.train->classes().size());
  check<DataError>(c.model.classes.value_or(have) == have, data::code::other_classes,
                   "the data has ", have, " classes, model.classes = ", c.model.classes.value_or(0),
                   "; use model.classes=auto");
  std::string training = paths_text(c.data.train);
  if (c.data.val_split > 0)
    training += fmt::format(", less the {} images that data.val_split = {} holds back,",
                            sets.val->size(), c.data.val_split);
  check<DataError>(sets.train->size() >= c.gradient_samples() || c.train.accumulate == 1, training,
                   " has ", sets.train->size(),
                   " images, fewer than one gradient takes (train.batch x train.accumulate = ",
                   c.gradient_samples(), "); use a smaller train.accumulate");
  check<DataError>(sets.train->size() >= c.train.global_batch, training, " has ",
                   sets.train->size(),
                   " images, fewer than a step of all workers takes (train.global_batch = ",
                   c.train.global_batch, "); use a smaller one");
  check<DataError>(sets.train->size() >= c.train.batch, training, " has ", sets.train->size(),
                   " images, fewer than one batch (train.batch = ", c.train.batch,
                   "); use a smaller train.batch");
  check<DataError>(!shares_epochs(c) || sets.train->size() / workers >= c.train.batch,
                   "a worker's share of ", training, " is ", sets.train->size() / workers,
                   " images, fewer than one batch (train.batch = ", c.train.batch,
                   "); use a smaller train.batch, fewer workers or data.shard=false");
  if (unequal(c)) {
    const auto parts = parts_of(c, *sets.train, workers);
    const auto least = std::ranges::min_element(parts, {}, &std::vector<i64>::size);
    check<DataError>(
        static_cast<i64>(least->size()) >= c.train.batch, "data.shard = ", c.data.shard,
        " gives worker ", least - parts.begin(), " ", least->size(), " of ", sets.train->size(),
        " images, fewer than one batch (train.batch = ", c.train.batch,
        "); use a larger alpha, another train.seed, a smaller train.batch or fewer workers");
  }
  return sets;
}

std::shared_ptr<const data::Dataset> own_images(const Config& c,
                                                std::shared_ptr<const data::Dataset> set,
                                                const dist::LaunchInfo& place) {
  if (!unequal(c)) return set;
  const auto rank = static_cast<std::size_t>(place.rank);
  return data::part_of(set, parts_of(c, *set, place.size)[rank]);
}

// --- the loader

namespace {

data::CropChoice crop_of(const Config& c, const Pictures& p) {
  return data::parse_crop(c.data.augment[0] != "auto" ? c.data.augment[0]
                          : p.train_size <= 64        ? "pad-crop-flip"
                                                      : "resized-crop-flip");
}

// Mixup and CutMix run on the device, after the resize, and do not matter here.
bool resizes_on_device(const Config& c, data::Augment crop, Device device) {
  const bool shifts = crop == data::Augment::pad_crop_flip, steps = c.data.augment.size() > 1,
             area = c.data.filter == "area";
  const bool device_can = !shifts && !steps && !area;
  check<ConfigError>(c.data.resize_on != "device" || !area,
                     "data.resize_on=device: a device resizes bilinearly; use "
                     "data.filter=bilinear, or data.resize_on=auto");
  check<ConfigError>(c.data.resize_on != "device" || device_can,
                     "data.resize_on=device: ", shifts ? "pad-crop-flip" : c.data.augment.back(),
                     " changes pictures after their resize, so the host must resize them; use "
                     "data.resize_on=auto, or ",
                     shifts ? "data.augment=resized-crop-flip" : "leave it out of data.augment");
  return c.data.resize_on == "device" ||
         (c.data.resize_on == "auto" && !device.is_cpu() && device_can);
}

}  // namespace

bool deals_one_order(const Config& c) {
  return c.train.global_batch > 0 && dist::method_traits(c.train.method).synchronous;
}

bool shares_epochs(const Config& c) {
  if (deals_one_order(c)) return true;
  return c.data.shard == "auto" ? dist::method_traits(c.train.method).sums_gradients
                                : c.data.shard == "true";
}

data::EpochOptions epoch_options(const Config& c, const dist::LaunchInfo& place) {
  const bool common = deals_one_order(c);  // then all have the whole of it
  return {.rank = common ? 0 : place.rank,
          .world = common ? 1 : place.all_places(),  // they divide nothing where others may join
          .share = c.data.shard == "documents" ? data::Share::documents
                   : shares_epochs(c)          ? data::Share::parts
                                               : data::Share::all,
          .seed = static_cast<std::uint64_t>(c.train.seed)};
}

data::LoaderOptions loader_options(const Config& c, const Pictures& p,
                                   const dist::LaunchInfo& place, Device device) {
  const data::CropChoice crop = crop_of(c, p);
  const int threads_here = place.local_size * (compute_threads_for(c, place.local_size) +
                                               data_threads_for(c, place.local_size));
  data::LoaderOptions o{.batch = c.train.batch,
                        .size = p.train_size,
                        .resize = p.size == p.train_size ? p.resize : 0,
                        .augment = crop.augment,
                        .pad = crop.pad >= 0 ? crop.pad : std::max(1, p.train_size / 8),
                        .reflect = crop.reflect,
                        .filter = p.filter,
                        .alternating = crop.alternating,
                        .threads = data_threads_for(c, place.local_size),
                        .epoch = epoch_options(c, place),
                        .strict = c.data.strict_images,
                        .pinned = !device.is_cpu(),
                        .boxes = resizes_on_device(c, crop.augment, device),
                        // With a core for each thread, low priority would only let other programs
                        // starve the data threads.
                        .background = threads_here > cores()};
  for (std::size_t i = 1; i < c.data.augment.size(); ++i) {
    o.steps.push_back(data::parse_pixel_step(c.data.augment[i]));
    // the mean, which becomes 0 when normalized
    if (auto* erasing = std::get_if<data::RandomErasing>(&o.steps.back()))
      for (std::size_t k = 0; k < 3; ++k)
        erasing->fill[k] =
            static_cast<std::uint8_t>(std::lround(std::clamp(p.mean[k], 0.0f, 1.0f) * 255));
  }
  if (!c.data.cpus.empty()) o.cpus = data::parse_cpus(c.data.cpus);
  return o;
}

// --- their order

namespace {

std::string text_of(data::OrderChange change, const std::optional<data::SampleOrder>& then,
                    const data::SampleOrder& now) {
  switch (change) {
    case data::OrderChange::none:
      return {};
    case data::OrderChange::unknown:
      return "the checkpoint does not say in which order its samples came";
    case data::OrderChange::set:
      return "the training data have changed";
    case data::OrderChange::seed:
      return fmt::format("train.seed was {} and is {}", then->seed, now.seed);
    case data::OrderChange::shared:
      return fmt::format("data.shard was {} and is {}", then->shared, now.shared);
    case data::OrderChange::common:
      return fmt::format("it was begun {} train.global_batch", then->common ? "with" : "without");
  }
  return {};
}

}  // namespace

Continuation continue_from(const nn::Position& saved, const std::optional<data::SampleOrder>& then,
                           const data::SampleOrder& now) {
  const data::Continued from = data::continue_order({saved.epoch, saved.step}, then, now);
  Continuation to{{saved.samples, from.at.epoch, from.at.step}, from.dealt, {}};
  if (from.change != data::OrderChange::none)
    to.note = fmt::format("epoch {} begins again, so some samples come twice: {}", saved.epoch + 1,
                          text_of(from.change, then, now));
  else if (from.again > 0)
    to.note =
        fmt::format("{} samples come twice, because batches of {} end elsewhere than batches of {}",
                    from.again, now.batch, then->batch);
  return to;
}

}  // namespace gossamer::apps
