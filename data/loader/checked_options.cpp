// Checks of a loader's options.
#include "gossamer/data/loader/checked_options.h"

#include "gossamer/core/error.h"
#include "gossamer/core/input_pass.h"
#include "gossamer/data/loader/epoch.h"

namespace gossamer::data {

i64 steps_of(const Dataset& dataset, const LoaderOptions& o) {
  check<ConfigError>(o.batch >= 1 && o.batch <= 1 << 20, "loader: batch ", o.batch,
                     "; use 1 … 1048576 images");
  check<ConfigError>(o.threads >= 1 && o.threads <= 1024, "loader: ", o.threads,
                     " threads; use 1 … 1024");
  check<ConfigError>(o.ahead >= 1, "loader: ", o.ahead, " batches ahead; use 1 or more");
  const i64 total = dataset.size();
  check<DataError>(total > 0, "loader: the data set holds no images");
  check_epoch_options("loader", o.epoch);
  const bool drop_last = o.epoch.drop_last, parts = o.epoch.share == Share::parts;
  // The same number of steps for every rank: synchronous methods wait for each other.
  const i64 mine = number_of_share(total, o.epoch);
  const i64 steps = batches_of(mine, o.batch, o.epoch);
  // more workers than images: some have nothing to do
  const bool may_be_empty = parts && !drop_last;
  check<ConfigError>(
      steps > 0 || may_be_empty, "loader: ", mine, " images", parts ? " for each worker" : "",
      " don't fill one batch of ", o.batch,
      "; use a smaller batch, or keep a last one that is smaller (drop_last = false; "
      "in C: in_order = 1)");
  return steps;
}

Recipe recipe_of(const LoaderOptions& o, int size) {
  check<ConfigError>(o.size >= 1 && o.size <= 4096, "loader: size ", o.size,
                     "; images come out with a side of 1 … 4096 pixels");
  check<ConfigError>(size >= 1 && size <= o.size, "loader: size ", size,
                     " after the start; it must be 1 … ", o.size, ", for which there is memory");
  check<ConfigError>(o.pad >= 0 && o.pad <= 4096, "loader: pad ", o.pad,
                     " is not a number of pixels");
  check<ConfigError>(!o.reflect || o.pad < o.size, "loader: pad ", o.pad,
                     " reflects more than the ", o.size,
                     " pixels of a picture; pad must be smaller");
  check<ConfigError>(o.min_area > 0 && o.min_area <= 1, "loader: min_area ", o.min_area,
                     "; it must be above 0 and at most 1");
  const int whole = o.resize ? o.resize : usual_resize(o.size);
  check<ConfigError>(whole >= o.size && whole <= 1 << 16, "loader: resize ", whole,
                     " is smaller than size ", o.size,
                     "; the centre crop needs resize >= size (0: chosen from size)");
  for (const PixelStep& step : o.steps) check_step(step);
  // smaller pictures, the same view
  const auto scaled = [&](int full) {
    return static_cast<int>((i64{full} * size + o.size / 2) / o.size);
  };
  return {o.augment, size,     std::max(size, scaled(whole)), scaled(o.pad), o.min_area, o.filter,
          o.steps,   o.reflect};
}

std::size_t box_bytes_of(const LoaderOptions& o) {
  if (!o.boxes) return 0;
  check<ConfigError>(o.augment != Augment::pad_crop_flip && o.steps.empty(),
                     "loader: boxes leave the resize to a device, but ",
                     o.steps.empty() ? "pad_crop_flip shifts" : "augmentation steps change",
                     " pictures that are resized already; boxes = false resizes here");
  check<ConfigError>(o.filter == Shrink::bilinear,
                     "loader: boxes leave the resize to a device, which resizes bilinearly only; "
                     "boxes = false resizes by area here");
  check<ConfigError>(o.box_room >= 1 && o.box_room <= 64, "loader: box_room ", o.box_room,
                     "; an image has room for 1 … 64 pictures of its final size");
  return static_cast<std::size_t>(o.box_room) * static_cast<std::size_t>(o.size) *
         static_cast<std::size_t>(o.size) * 3;
}

}  // namespace gossamer::data
