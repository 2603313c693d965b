// See image_order.h.
#include "gossamer/apps/train/image_order.h"

#include <charconv>

#include <fmt/format.h>

namespace gossamer::apps {
namespace {

using Metadata = std::map<std::string, std::string>;

template <class T>
bool read(const Metadata& all, const std::string& key, T& value, int base = 10) {
  const auto at = all.find(key);
  if (at == all.end()) return false;
  const char* end = at->second.data() + at->second.size();
  const auto [stopped, error] = std::from_chars(at->second.data(), end, value, base);
  return error == std::errc() && stopped == end;
}

std::string difference(const std::optional<ImageOrder>& then, const ImageOrder& now) {
  if (!then) return "the checkpoint does not say in which order its images came";
  if (then->set != now.set)
    return "the training images are others now (their names, labels or number)";
  if (then->seed != now.seed)
    return fmt::format("train.seed was {} and is {}", then->seed, now.seed);
  if (then->shared != now.shared)
    return fmt::format("data.shard was {} and is {}", then->shared, now.shared);
  return {};
}

}  // namespace

ImageOrder image_order(const data::Dataset& set, const data::LoaderOptions& options) {
  return {.batch = options.batch,
          .seed = options.seed,
          .shared = options.shard,
          .set = data::fingerprint(set)};
}

Metadata to_metadata(const ImageOrder& o) {
  return {{"order.batch", std::to_string(o.batch)},
          {"order.seed", std::to_string(o.seed)},
          {"order.shared", o.shared ? "1" : "0"},
          {"order.set", fmt::format("{:016x}", o.set)}};
}

std::optional<ImageOrder> parse_order(const Metadata& all) {
  ImageOrder o;
  int shared = 0;
  if (!read(all, "order.batch", o.batch) || o.batch < 1 || !read(all, "order.seed", o.seed) ||
      !read(all, "order.shared", shared) || !read(all, "order.set", o.set, 16))
    return std::nullopt;
  o.shared = shared != 0;
  return o;
}

Continuation go_on(const Position& saved, const std::optional<ImageOrder>& then,
                   const ImageOrder& now) {
  // an epoch begins: whatever its order, it is a whole one
  if (saved.step == 0) return {saved, {}};
  const std::string why = difference(then, now);
  if (!why.empty())
    return {{saved.samples, saved.epoch, 0},
            fmt::format("epoch {} begins anew, what it had seen comes again: {}", saved.epoch + 1,
                        why)};
  const i64 images = saved.step * then->batch, step = images / now.batch,
            again = images - step * now.batch;
  return {{saved.samples, saved.epoch, step},
          again == 0
              ? std::string()
              : fmt::format("{} images come twice: batches of {} end elsewhere than those of {}",
                            again, now.batch, then->batch)};
}

}  // namespace gossamer::apps
