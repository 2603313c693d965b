// See loader_options.h.
#include "gossamer/apps/train/loader_options.h"

#include <algorithm>
#include <cmath>

#include "gossamer/core/error.h"
#include "gossamer/data/loader/affinity.h"

namespace gossamer::apps {
namespace {

data::Augment crop_of(const Config& c, const Pictures& p) {
  const std::string name = c.data.augment[0] == "auto"
                               ? (p.train_size <= 64 ? "pad-crop-flip" : "resized-crop-flip")
                               : c.data.augment[0];
  return name == "none"            ? data::Augment::none
         : name == "pad-crop-flip" ? data::Augment::pad_crop_flip
                                   : data::Augment::resized_crop_flip;
}

// Mixup and CutMix do not mind: they are done there anyway, after it.
bool resizes_on_device(const Config& c, data::Augment crop, Device device) {
  const bool shifts = crop == data::Augment::pad_crop_flip, steps = c.data.augment.size() > 1,
             area = c.data.filter == "area";
  const bool device_can = !shifts && !steps && !area;
  check<ConfigError>(c.data.resize_on != "device" || !area,
                     "data.resize_on=device: a device resizes bilinearly; use "
                     "data.filter=bilinear, or data.resize_on=auto");
  check<ConfigError>(c.data.resize_on != "device" || device_can,
                     "data.resize_on=device: ", shifts ? "pad-crop-flip" : c.data.augment.back(),
                     " changes pictures after their resize, which is done on the host; use "
                     "data.resize_on=auto, or leave ",
                     shifts ? "it for data.augment=resized-crop-flip" : "it out of data.augment");
  return c.data.resize_on == "device" ||
         (c.data.resize_on == "auto" && !device.is_cpu() && device_can);
}

}  // namespace

bool shares_epochs(const Config& c) {
  return c.data.shard == "auto" ? c.train.method == "allreduce" : c.data.shard == "true";
}

data::LoaderOptions loader_options(const Config& c, const Pictures& p,
                                   const dist::LaunchInfo& place, Device device) {
  const data::Augment crop = crop_of(c, p);
  const int threads_here = place.local_size * (compute_threads_for(c, place.local_size) +
                                               data_threads_for(c, place.local_size));
  data::LoaderOptions o{.batch = c.train.batch,
                        .size = p.train_size,
                        .resize = p.size == p.train_size ? p.resize : 0,
                        .augment = crop,
                        .pad = std::max(1, p.train_size / 8),
                        .filter = p.filter,
                        .threads = data_threads_for(c, place.local_size),
                        .rank = place.rank,
                        .world = place.size,
                        .shard = shares_epochs(c),
                        .seed = static_cast<std::uint64_t>(c.train.seed),
                        .strict = c.data.strict_images,
                        .pinned = !device.is_cpu(),
                        .boxes = resizes_on_device(c, crop, device),
                        // With a core for everybody nobody has to give way, and other programs
                        // can't starve the data threads.
                        .background = threads_here > cores()};
  for (std::size_t i = 1; i < c.data.augment.size(); ++i) {
    o.steps.push_back(data::parse_pixel_step(c.data.augment[i]));
    // becomes 0 once normalized
    if (auto* erasing = std::get_if<data::RandomErasing>(&o.steps.back()))
      for (std::size_t k = 0; k < 3; ++k)
        erasing->fill[k] =
            static_cast<std::uint8_t>(std::lround(std::clamp(p.mean[k], 0.0f, 1.0f) * 255));
  }
  if (!c.data.cpus.empty()) o.cpus = data::parse_cpus(c.data.cpus);
  return o;
}

}  // namespace gossamer::apps
