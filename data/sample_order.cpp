// See sample_order.h.
#include "gossamer/data/sample_order.h"

#include <algorithm>
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
  return then->common.has_value() != now.common.has_value() ? OrderChange::common
                                                            : OrderChange::none;
}

constexpr const char *kCommon = "order.common",  // "batches of an epoch:of a step"
    *kAgain = "order.again",                     // "epoch:batch epoch:batch …"
        *kDone = "order.done";                   // "place:steps place:steps …"

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

std::optional<CommonOrder> parse_common(const Metadata& all) {
  const auto list = [&](const char* key) {
    const auto at = all.find(key);
    return at == all.end() ? std::nullopt : parse_positions(at->second);
  };
  const auto sizes = list(kCommon), again = list(kAgain), done = list(kDone);
  if (!sizes || sizes->size() != 1 || !again || !done || done->empty()) return std::nullopt;
  CommonOrder out{(*sizes)[0].epoch, (*sizes)[0].step, *again, {}};
  // More than a run has: what is computed with them must end, and not overflow.
  constexpr i64 kMostOfStep = i64{1} << 24, kMostSteps = i64{1} << 36, kMostApart = i64{1} << 26;
  if (out.batches < 1 || out.batches_of_step < 1 || out.batches_of_step > kMostOfStep)
    return std::nullopt;
  for (const Position& p : *again)
    if (p.step >= out.batches) return std::nullopt;
  for (const Position& p : *done) {
    if (p.epoch != std::ssize(out.done) || p.step > kMostSteps) return std::nullopt;
    out.done.push_back(p.step);
  }
  const auto [least, most] = std::ranges::minmax(out.done);
  if (most - least > kMostApart / out.batches_of_step) return std::nullopt;
  return out;
}

// Where a common order stands.
Dealt left_of(const Position& saved, const CommonOrder& c) {
  return Deal({.next = saved, .again = c.again}, c.batches, c.batches_of_step, 0,
              static_cast<int>(c.done.size()))
      .after(c.done);
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
  if (o.common) {
    std::vector<Position> done;
    for (const i64 steps : o.common->done) done.push_back({std::ssize(done), steps});
    all[kCommon] = text_of({{o.common->batches, o.common->batches_of_step}});
    all[kAgain] = text_of(o.common->again);
    all[kDone] = text_of(done);
  }
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
  if (all.contains(kCommon)) {
    o.common = parse_common(all);
    if (!o.common) return std::nullopt;
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
  Position at = saved;
  std::vector<Position> again;
  if (then && then->common) {
    Dealt left = left_of(saved, *then->common);
    at = left.next, again = std::move(left.again);
  }
  // At the beginning of an epoch its order does not matter.
  if (at.step == 0 && again.empty()) return {.at = at};
  if (const OrderChange change = change_of(then, now); change != OrderChange::none)
    return {.at = {at.epoch, 0}, .change = change};
  if (then->batch == now.batch) return {.at = at, .dealt = std::move(again)};
  const i64 samples = at.step * then->batch, step = samples / now.batch;
  Continued to{.at = {at.epoch, step}};
  to.dealt = cover(again, then->batch, now.batch, to.at);
  to.again = samples - step * now.batch + std::ssize(to.dealt) * now.batch -
             std::ssize(again) * then->batch;
  return to;
}

Saved together(const std::vector<Saved>& all) {
  const auto place = [](const Saved& s) { return std::pair(s.at.epoch, s.at.step); };
  // Those that share have begun together, so at equal places all else is equal, too.
  Saved out = *std::ranges::max_element(all, {}, place);
  for (const Saved& other : all)
    if (place(other) == place(out) && other.order.common &&
        other.order.common->again == out.order.common->again &&
        other.order.common->done.size() == out.order.common->done.size())
      for (std::size_t i = 0; i < out.order.common->done.size(); ++i) {
        i64& done = out.order.common->done[i];
        done = std::max(done, other.order.common->done[i]);
      }
  return out;
}

}  // namespace gossamer::data
