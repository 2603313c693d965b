// Reads and prepares an image. A damaged one is replaced or left out, or ends the run.
#include "gossamer/data/loader/image_maker.h"

#include <algorithm>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/inner_error.h"
#include "gossamer/data/loader/checked_options.h"
#include "gossamer/data/mix.h"

namespace gossamer::data {
namespace {

constexpr int kTries = 64;

// Alternating: keyed by the image, not by its place, so that it is another way round each time.
Mirror mirror_of(const LoaderOptions& o, i64 index, i64 epoch) {
  if (!o.alternating) return Mirror::drawn;
  const std::uint64_t first = mix(o.epoch.seed, static_cast<std::uint64_t>(index));
  return ((first ^ static_cast<std::uint64_t>(epoch)) & 1) != 0 ? Mirror::yes : Mirror::no;
}

}  // namespace

ImageMaker::ImageMaker(std::shared_ptr<const Dataset> set, const LoaderOptions& o)
    : set_(std::move(set)),
      options_(o),
      raw_{set_->raw().width, set_->raw().height},
      box_bytes_(box_bytes_of(o)) {}

void ImageMaker::give_up(i64 count, const std::string& first) {
  fail<DataError>(code::damaged_images, count, " images in a row are damaged, the first: ", first,
                  ". Is the data set complete and the disk readable?");
}

// A worker's part of a set may be a few images only: when those are damaged the set is not.
i64 ImageMaker::too_many(i64 n) const {
  return !options_.replace_damaged && options_.epoch.world > 1 ? kTries : std::min<i64>(kTries, n);
}

void ImageMaker::make(const ImagePlace& at, const Recipe& recipe, ImageInHand& out) const {
  out.damaged.clear();
  out.absent = false;
  const i64 n = static_cast<i64>(at.order.size());
  for (int attempt = 0; attempt < too_many(n); ++attempt) {
    const i64 index = at.order[static_cast<std::size_t>((at.position + attempt) % n)];
    // Keyed by the place in the epoch, so that neither threads nor a restart change what is drawn.
    Rng rng(mix(options_.epoch.seed, mix(static_cast<std::uint64_t>(at.epoch),
                                         static_cast<std::uint64_t>(options_.epoch.rank))),
            static_cast<std::uint64_t>(at.position));
    try {
      out.label = set_->label(index);
      const Sample sample{set_->bytes(index, out.file), set_->name(index), raw_,
                          mirror_of(options_, index, at.epoch)};
      if (box_bytes_)
        out.picture = out.preparer.read_box(sample, recipe, rng, box_bytes_, out.pixels);
      else
        out.preparer.read(sample, recipe, rng);
      return;
    } catch (const DataError& error) {
      out.damaged.push_back({index, error.what()});
      if (options_.strict)
        fail<DataError>(code::damaged_images, without_code(error.what()),
                        ". The run stops because damaged images are errors (strict); without that "
                        "option they are replaced.");
      if (!options_.replace_damaged) {
        out.absent = true;
        return;
      }
    }
  }
  give_up(static_cast<i64>(out.damaged.size()), out.damaged.front().text);
}

}  // namespace gossamer::data
