// See sample_order.h.
#include "gossamer/data/sample_order.h"

#include <charconv>
#include <string_view>
#include <utility>

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
  if (then->shared != now.shared) return OrderChange::shared;
  return then->common != now.common ? OrderChange::common : OrderChange::none;
}

constexpr const char* kCommon =
    "order.common";  // "epoch:batch epoch:batch …", those that come first

std::string text_of(const std::vector<Position>& all) {
  std::string out;
  for (const Position& p : all)
    out += fmt::format("{}{}:{}", out.empty() ? "" : " ", p.epoch, p.step);
  return out;
}

std::optional<std::vector<Position>> parse_positions(std::string_view text) {
  std::vector<Position> all;
  const char *at = text.data(), *const end = at + text.size();
  while (at < end) {
    Position p;
    const auto epoch = std::from_chars(at, end, p.epoch);
    if (epoch.ec != std::errc() || epoch.ptr == end || *epoch.ptr != ':') return {};
    const auto step = std::from_chars(epoch.ptr + 1, end, p.step);
    if (step.ec != std::errc() || (step.ptr != end && *step.ptr != ' ')) return {};
    if (p.epoch < 0 || p.step < 0) return {};
    all.push_back(p);
    at = step.ptr == end ? end : step.ptr + 1;
  }
  return all;
}

// The batches of another size that hold what these hold, but for those from `next` on.
std::vector<Position> cover(const std::vector<Position>& all, i64 then, i64 now,
                            const Position& next) {
  std::vector<Position> out;
  for (const Position& p : all)
    for (i64 b = p.step * then / now; b * now < (p.step + 1) * then; ++b) {
      const bool follows = p.epoch == next.epoch && b >= next.step;
      const bool twice = !out.empty() && out.back().epoch == p.epoch && out.back().step >= b;
      if (!follows && !twice) out.push_back({p.epoch, b});
    }
  return out;
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
  if (o.common) all[kCommon] = text_of(o.again);
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
  if (const auto at = all.find(kCommon); at != all.end()) {
    auto again = parse_positions(at->second);
    if (!again) return std::nullopt;
    o.common = true, o.again = std::move(*again);
  }
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
  if (saved.step == 0 && (!then || then->again.empty())) return {.at = saved};
  if (const OrderChange change = change_of(then, now); change != OrderChange::none)
    return {.at = {saved.epoch, 0}, .change = change};
  if (then->batch == now.batch) return {.at = saved, .dealt = then->again};
  const i64 samples = saved.step * then->batch, step = samples / now.batch;
  Continued to{.at = {saved.epoch, step}};
  to.dealt = cover(then->again, then->batch, now.batch, to.at);
  to.again = samples - step * now.batch + std::ssize(to.dealt) * now.batch -
             std::ssize(then->again) * then->batch;
  return to;
}

}  // namespace gossamer::data
