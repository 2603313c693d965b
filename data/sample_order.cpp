// See sample_order.h.
#include "gossamer/data/sample_order.h"

#include <charconv>

#include <fmt/format.h>

namespace gossamer::data {
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

OrderChange change_of(const std::optional<SampleOrder>& then, const SampleOrder& now) {
  if (!then) return OrderChange::unknown;
  if (then->set != now.set) return OrderChange::set;
  if (then->seed != now.seed) return OrderChange::seed;
  return then->shared != now.shared ? OrderChange::shared : OrderChange::none;
}

}  // namespace

SampleOrder sample_order(i64 batch, const EpochOptions& epoch, std::uint64_t set) {
  return {.batch = batch, .seed = epoch.seed, .shared = epoch.share != Share::all, .set = set};
}

Metadata to_metadata(const SampleOrder& o) {
  Metadata all{{"order.batch", std::to_string(o.batch)},
               {"order.seed", std::to_string(o.seed)},
               {"order.shared", o.shared ? "1" : "0"},
               {"order.set", fmt::format("{:016x}", o.set)}};
  if (o.tokenizer) all["tokenizer"] = fmt::format("{:016x}", *o.tokenizer);
  if (o.documents) all["order.documents"] = *o.documents;
  if (o.weights) all["order.weights"] = *o.weights;
  return all;
}

std::optional<SampleOrder> parse_order(const Metadata& all) {
  SampleOrder o;
  int shared = 0;
  if (!read(all, "order.batch", o.batch) || o.batch < 1 || !read(all, "order.seed", o.seed) ||
      !read(all, "order.shared", shared) || !read(all, "order.set", o.set, 16))
    return std::nullopt;
  o.shared = shared != 0;
  if (std::uint64_t hash = 0; read(all, "tokenizer", hash, 16)) o.tokenizer = hash;
  const auto text = [&](const char* key, std::optional<std::string>& value) {
    if (const auto at = all.find(key); at != all.end()) value = at->second;
  };
  text("order.documents", o.documents);
  text("order.weights", o.weights);
  return o;
}

Continued continue_order(const Position& saved, const std::optional<SampleOrder>& then,
                         const SampleOrder& now) {
  // At the beginning of an epoch its order does not matter.
  if (saved.step == 0) return {saved};
  if (const OrderChange change = change_of(then, now); change != OrderChange::none)
    return {{saved.epoch, 0}, change};
  const i64 samples = saved.step * then->batch, step = samples / now.batch;
  return {{saved.epoch, step}, OrderChange::none, samples - step * now.batch};
}

}  // namespace gossamer::data
