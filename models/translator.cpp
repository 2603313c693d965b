// See translator.h.
#include "gossamer/models/translator.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/random.h"
#include "gossamer/models/sampling.h"

namespace gossamer::models {
namespace {

constexpr i64 kMultiple = 16;  // of the lengths that graphs see

double log_p_of(std::span<const float> logits, std::int32_t id) {
  const double top = static_cast<double>(*std::ranges::max_element(logits));
  double sum = 0;
  for (const float v : logits) sum += std::exp(static_cast<double>(v) - top);
  return static_cast<double>(logits[static_cast<std::size_t>(id)]) - top - std::log(sum);
}

i64 next_multiple(i64 n) { return (n + kMultiple - 1) / kMultiple * kMultiple; }

}  // namespace

Translator::Translator(Transformer& net, const BeamOptions& options, GraphOptions graphs)
    : net_(net),
      options_(options),
      device_(net.parameters().front().tensor.device()),
      fixed_(graphs.capture != nullptr),
      step_({.graphs = std::move(graphs)}),
      positions_(options.beam, device_) {}

// A number of sentences. Graphs see powers of two only.
i64 Translator::rounded(i64 n, i64 most) const {
  return fixed_ ? std::min(most, static_cast<i64>(std::bit_ceil(static_cast<std::uint64_t>(n))))
                : n;
}

// The first elements of the room, which grows where they do not fit, with zeros.
Tensor Translator::in_room(Tensor& room, const Shape& shape, DType type) const {
  if (!room.defined() || room.numel() < shape.numel() || room.dtype() != type)
    room = Tensor::zeros({shape.numel()}, type, device_);
  return room.slice(0, shape.numel()).reshape(shape);
}

Tensor Translator::all_rows(const Tensor& room, const Tensor& view) {
  const i64 row = view.numel() / view.shape(0), rows = room.numel() / row;
  return room.slice(0, rows * row).reshape({rows, view.shape(1), view.shape(2)});
}

// Behind a source, and in place of one, stand end marks; who reads a source sees its length.
Translator::Padded Translator::padded(const std::vector<Ids>& sources, i64 count,
                                      i64 longest) const {
  Tensor ids = Tensor::full({count, longest}, static_cast<float>(options_.end), DType::i32),
         lengths = Tensor::full({count}, 1, DType::i32);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    std::ranges::copy(sources[i], ids.as<std::int32_t>() + static_cast<i64>(i) * longest);
    lengths.as<std::int32_t>()[i] = static_cast<std::int32_t>(sources[i].size());
  }
  return {ids.to(device_), lengths.to(device_)};
}

void Translator::begin(const std::vector<Ids>& sources, i64 capacity) {
  const i64 positions = net_.options().positions, sentences = static_cast<i64>(sources.size()),
            count = rounded(sentences, INT64_MAX);
  i64 longest = static_cast<i64>(std::ranges::max_element(sources, {}, &Ids::size)->size());
  if (fixed_) {
    longest = std::min(positions, next_multiple(longest));
    capacity = std::min(positions, next_multiple(capacity));
  }
  const Padded source = padded(sources, count, longest);
  const Tensor memory = net_.encode(source.ids, source.lengths), lengths = source.lengths;
  const i64 each = fixed_ ? options_.beam : 1;
  if (fixed_) {
    const std::vector<Tensor> kv = net_.keys_values(memory);
    rooms_.own.resize(kv.size()), rooms_.memory.resize(kv.size());
    cache_ = {};
    for (std::size_t i = 0; i < kv.size(); ++i) {
      cache_.memory.push_back(in_room(rooms_.memory[i], kv[i].shape(), kv[i].dtype()));
      cache_.memory[i].copy_from(kv[i]);
      cache_.own.push_back(
          in_room(rooms_.own[i], {count * each, capacity, kv[i].shape(2)}, kv[i].dtype()));
    }
    cache_.lengths = in_room(rooms_.lengths, {count}, DType::i32);
    cache_.lengths.copy_from(lengths);
  } else {
    cache_ = net_.cache(memory, lengths, each, capacity);
  }
  if (positions_.texts() < count * options_.beam)
    positions_ = TextPositions(count * options_.beam, device_);
  positions_.move_to(0);
  places_.assign(static_cast<std::size_t>(count), -1);
  std::iota(places_.begin(), places_.begin() + sentences, 0);
  row_at_.clear();
  for (i64 i = 0; i < sentences; ++i) row_at_.push_back(i * each);
}

// Sources whose sentences are done leave where fewer places suffice.
void Translator::keep_sources(const std::vector<i64>& sentences) {
  const i64 count = rounded(static_cast<i64>(sentences.size()), static_cast<i64>(places_.size()));
  if (count == static_cast<i64>(places_.size())) return;
  std::vector<std::int32_t> from;
  for (const i64 sentence : sentences)
    from.push_back(
        static_cast<std::int32_t>(std::ranges::find(places_, sentence) - places_.begin()));
  from.resize(static_cast<std::size_t>(count), from[0]);
  places_ = sentences;
  places_.resize(static_cast<std::size_t>(count), -1);
  const Tensor rows = Tensor::from(from, {count}).to(device_);
  const auto keep = [&](Tensor& view) {
    const Tensor kept = take_rows(view, rows);
    if (!fixed_) {
      view = kept;
      return;
    }
    view = view.slice(0, count);
    view.copy_from(kept);
  };
  for (Tensor& kv : cache_.memory) keep(kv);
  keep(cache_.lengths);
}

Translator::Rows Translator::arrange(const std::vector<BeamSearch::Row>& rows) {
  std::vector<i64> sentences;
  i64 each = options_.beam, run = 0, longest = 0;
  for (const BeamSearch::Row& row : rows) {
    run = !sentences.empty() && sentences.back() == row.sentence ? run + 1 : 1;
    if (run == 1) sentences.push_back(row.sentence);
    longest = std::max(longest, run);
  }
  if (!fixed_) each = longest;
  keep_sources(sentences);
  // A place without a row of the search does as another one, and nobody looks at what it finds.
  const auto count = places_.size() * static_cast<std::size_t>(each);
  Rows out{Ids(count, 0), Ids(count, options_.begin), false};
  std::vector<i64> row_at;
  auto row = rows.begin();
  for (std::size_t place = 0; place < places_.size(); ++place)
    for (std::size_t k = 0; k < static_cast<std::size_t>(each); ++k) {
      const std::size_t at = place * static_cast<std::size_t>(each) + k;
      if (row != rows.end() && row->sentence == places_[place]) {
        out.parents[at] = static_cast<std::int32_t>(row_at_[static_cast<std::size_t>(row->parent)]);
        out.ids[at] = row->id;
        row_at.push_back(static_cast<i64>(at));
        ++row;
      } else if (k > 0) {
        out.parents[at] = out.parents[at - 1];
      }
    }
  check(row == rows.end(), "Translator: rows of a sentence that is done");
  for (std::size_t i = 0; i < row_at.size(); ++i) {
    const auto at = static_cast<std::size_t>(row_at[i]);
    out.moved = out.moved || out.parents[at] != static_cast<std::int32_t>(at);
  }
  row_at_ = std::move(row_at);
  return out;
}

void Translator::step(const Rows& rows, i64 candidates) {
  const i64 count = static_cast<i64>(rows.ids.size());
  Tensor both = Tensor::empty({2, count}, DType::i32);
  std::ranges::copy(rows.parents, both.as<std::int32_t>());
  std::ranges::copy(rows.ids, both.as<std::int32_t>() + count);
  Tensor inputs = in_room(rooms_.inputs, both.shape(), DType::i32);
  inputs.copy_from(both);
  const Tensor parents = inputs.slice(0, 1).reshape({count}),
               ids = inputs.slice(1, 2).reshape({count});
  ids_ = in_room(rooms_.ids, {count, candidates}, DType::i32);
  log_p_ = in_room(rooms_.log_p, {count, candidates}, DType::f32);
  std::vector<std::pair<Tensor, Tensor>> moves;  // from all rows, to those of this step
  for (std::size_t i = 0; i < cache_.own.size(); ++i) {
    Tensor& kv = cache_.own[i];
    if (fixed_) {
      kv = in_room(rooms_.own[i], {count, kv.shape(1), kv.shape(2)}, kv.dtype());
      if (rows.moved) moves.emplace_back(all_rows(rooms_.own[i], kv), kv);
    } else if (rows.moved || kv.shape(0) != count) {
      kv = take_rows(kv, parents);
    }
  }
  std::vector<Tensor> tensors{inputs, ids_, log_p_, cache_.lengths, positions_.at()};
  for (const auto* views : {&cache_.own, &cache_.memory})
    tensors.insert(tensors.end(), views->begin(), views->end());
  const Tensor& memory = cache_.memory[0];
  step_.run({{count, memory.shape(0), memory.shape(1), cache_.own[0].shape(1), candidates,
              rows.moved ? 1 : 0},
             tensors},
            [this, parents, ids, moves, candidates, cache = cache_, at = positions_.first(count),
             found = ids_, log_p = log_p_] {
              for (const auto& [from, to] : moves) Tensor(to).copy_from(take_rows(from, parents));
              const Likeliest next = likeliest(net_.step(ids, cache, at), candidates);
              Tensor(found).copy_from(next.ids);
              Tensor(log_p).copy_from(next.log_p);
              positions_.advance();
            });
}

std::vector<Translator::Hypotheses> Translator::search(const std::vector<Ids>& sources,
                                                       const std::vector<i64>& limits) {
  const NoGrad no_grad;
  BeamSearch search(options_, limits);
  if (sources.empty()) return {};
  begin(sources, *std::ranges::max_element(limits));
  const i64 candidates = search.candidates(net_.options().vocabulary);
  while (!search.rows().empty()) {
    step(arrange(search.rows()), candidates);
    const Tensor ids = ids_.to(Device::cpu()), log_p = log_p_.to(Device::cpu());
    Ids its_ids;
    std::vector<float> its_log_p;
    for (const i64 row : row_at_) {
      const auto of = [&](const auto& all) {
        return all.subspan(static_cast<std::size_t>(row * candidates),
                           static_cast<std::size_t>(candidates));
      };
      std::ranges::copy(of(ids.span<std::int32_t>()), std::back_inserter(its_ids));
      std::ranges::copy(of(log_p.span<float>()), std::back_inserter(its_log_p));
    }
    search.advance(its_ids, its_log_p);
  }
  return std::move(search).results();
}

Translator::Hypotheses Translator::translate(const std::vector<Ids>& sources,
                                             const std::vector<i64>& limits) {
  Hypotheses out;
  for (Hypotheses& found : search(sources, limits)) out.push_back(std::move(found.front()));
  return out;
}

std::vector<Translator::Hypotheses> Translator::sample(const std::vector<Ids>& sources,
                                                       const std::vector<i64>& limits,
                                                       const Choice& choice,
                                                       std::span<const std::uint64_t> seeds) {
  const NoGrad no_grad;
  if (sources.empty()) return {};
  const auto each = static_cast<i64>(seeds.size()), count = static_cast<i64>(sources.size()),
             rows = count * each;
  const auto longest = std::ranges::max_element(sources, {}, &Ids::size)->size();
  const Padded source = padded(sources, count, static_cast<i64>(longest));
  const i64 capacity = *std::ranges::max_element(limits);
  const Transformer::Cache cache =
      net_.cache(net_.encode(source.ids, source.lengths), source.lengths, each, capacity);
  TextPositions positions(rows, device_);
  positions.move_to(0);

  struct Drawn {
    Rng random;
    Ids ids{};
    double log_p = 0;
    bool ended = false;
  };
  std::vector<Drawn> all;
  for (i64 row = 0; row < rows; ++row)
    all.push_back({Rng(seeds[static_cast<std::size_t>(row % each)])});
  Ids last(all.size(), options_.begin);
  while (!std::ranges::all_of(all, &Drawn::ended)) {
    const Tensor given = Tensor::from(last, {rows}).to(device_);
    const Tensor logits = cast(net_.step(given, cache, positions), DType::f32).to(Device::cpu());
    positions.advance();
    for (std::size_t row = 0; row < all.size(); ++row) {
      Drawn& text = all[row];
      if (text.ended) continue;
      const std::span<const float> its =
          logits.span<float>().subspan(row * static_cast<std::size_t>(logits.shape(1)),
                                       static_cast<std::size_t>(logits.shape(1)));
      last[row] =
          static_cast<std::int32_t>(models::sample(its, choice, text.random.uniform53(), text.ids));
      text.ids.push_back(last[row]);
      text.log_p += log_p_of(its, last[row]);
      text.ended = last[row] == options_.end || static_cast<i64>(text.ids.size()) ==
                                                    limits[row / static_cast<std::size_t>(each)];
    }
  }
  std::vector<Hypotheses> out(sources.size());
  for (std::size_t row = 0; row < all.size(); ++row) {
    const double score =
        hypothesis_score(all[row].log_p, all[row].ids.size(), options_.length_penalty);
    out[row / static_cast<std::size_t>(each)].push_back({std::move(all[row].ids), score});
  }
  return out;
}

}  // namespace gossamer::models
