// The lengths of all sentences are found once; the sentences are read when their batch is asked
// for.
#include "gossamer/data/text/pair_loader.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/loader/epoch.h"
#include "gossamer/data/loader/walk.h"
#include "gossamer/data/mix.h"
#include "gossamer/data/text/batch_tensor.h"
#include "gossamer/data/text/window_loader.h"

namespace gossamer::data {
namespace {

// Where the sentences of one side begin. Each ends, with its end mark, where the next one begins.
std::vector<i64> begins_of(const TokenFiles& tokens, std::int32_t end) {
  constexpr i64 kChunk = 1 << 20;
  std::vector<i64> begins{0};
  std::vector<std::int32_t> ids;
  for (i64 at = 0; at < tokens.size(); at += static_cast<i64>(ids.size())) {
    ids.resize(static_cast<std::size_t>(std::min(kChunk, tokens.size() - at)));
    tokens.read(at, ids);
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (ids[i] == end) begins.push_back(at + static_cast<i64>(i) + 1);
  }
  check<DataError>(begins.back() == tokens.size(), code::damaged, tokens.place(begins.back()),
                   " begins a sentence without an end; the file was cut short");
  return begins;
}

i64 rounded_up(i64 n, i64 multiple) { return (n + multiple - 1) / multiple * multiple; }

}  // namespace

struct PairLoader::Impl {
  Impl(const TextPart& part, const Marks& m, const PairLoaderOptions& o) : marks(m), options(o) {
    check<ConfigError>(o.tokens >= 1 && o.tokens <= 1 << 24, "pairs: ", o.tokens,
                       " ids a batch; use 1 … 16777216");
    check<ConfigError>(o.rows >= 0 && o.max_length >= 0, "pairs: rows ", o.rows,
                       " and a longest pair of ", o.max_length, "; use 0 for no limit, or more");
    check<ConfigError>(o.multiple >= 1 && o.multiple <= 1024, "pairs: multiple ", o.multiple,
                       "; use 1 … 1024");
    check_epoch_options("pairs", o.epoch);
    check<ConfigError>(part.tokens && part.targets, "pairs: the text is no pairs of sentences");
    check<ConfigError>(m.end >= 0 && m.begin >= 0 && m.pad >= 0,
                       "pairs: the vocabulary lacks one of the marks <s>, </s> and <pad>");
    sides[0] = {part.tokens, begins_of(*part.tokens, m.end)};
    sides[1] = {part.targets, begins_of(*part.targets, m.end)};
    const auto count = sides[0].begins.size();
    check<DataError>(count == sides[1].begins.size(), code::damaged, "pairs: ", count - 1,
                     " source sentences and ", sides[1].begins.size() - 1,
                     " targets; each needs the other");
    check<DataError>(count > 1, code::damaged, "pairs: there are none");
    sort();
    cut();
    const i64 all = static_cast<i64>(cuts.size()) - 1;
    steps = number_of_share(all, o.epoch);
    walk = Walk(steps);
    check<DataError>(steps > 0 || !o.epoch.drop_last, "pairs: ", all, " batches are too few for ",
                     o.epoch.world, " workers; use fewer ids a batch");
  }

  i64 size() const { return static_cast<i64>(sides[0].begins.size()) - 1; }
  // The length of a sentence with its end mark; of a target also that of its inputs, which begin
  // with a mark instead.
  i64 length(int side, i64 pair) const {
    const auto& begins = sides[side].begins;
    return begins[static_cast<std::size_t>(pair) + 1] - begins[static_cast<std::size_t>(pair)];
  }
  // The length that rows are filled up to: a multiple, but no more than a pair may have.
  i64 filled(i64 length) const {
    const i64 up = rounded_up(length, options.multiple);
    return options.max_length > 0 ? std::min(up, options.max_length) : up;
  }
  std::pair<i64, i64> lengths(i64 pair) const { return {length(1, pair), length(0, pair)}; }

  void sort() {
    sorted.resize(static_cast<std::size_t>(size()));
    std::iota(sorted.begin(), sorted.end(), i64{0});
    std::ranges::stable_sort(sorted, {}, [this](i64 pair) { return lengths(pair); });
    for (const i64 pair : sorted) {
      const i64 longer = std::max(length(0, pair), length(1, pair));
      check<DataError>(options.max_length == 0 || longer <= options.max_length, "pairs: pair ",
                       pair, " has ", length(0, pair), " and ", length(1, pair),
                       " ids with their marks; the limit is ", options.max_length,
                       ". Leave long pairs out when the text is tokenized, or raise "
                       "the limit");
    }
  }

  // Batches are runs of `sorted`.
  void cut() {
    cuts = {0};
    i64 source = 0, target = 0;
    const auto end_batch = [&](i64 end) {
      const i64 rows = end - cuts.back();
      room.rows = std::max(room.rows, rows);
      room.source = std::max(room.source, rows * source);
      room.target = std::max(room.target, rows * target);
      cuts.push_back(end);
      source = target = 0;
    };
    for (i64 i = 0; i < size(); ++i) {
      const i64 pair = sorted[static_cast<std::size_t>(i)];
      const i64 s = filled(length(0, pair)), t = filled(length(1, pair));
      check<DataError>(s + t <= 2 * options.tokens, "pairs: pair ", pair, " has ", s, " and ", t,
                       " ids, more than a batch of ", options.tokens,
                       "; leave long pairs out when the text is tokenized, or use "
                       "more ids a batch");
      const i64 rows = i - cuts.back() + 1;
      const bool full = rows * (std::max(source, s) + std::max(target, t)) > 2 * options.tokens ||
                        (options.rows > 0 && rows > options.rows);
      if (full) end_batch(i);
      source = std::max(source, s);
      target = std::max(target, t);
    }
    end_batch(size());
  }

  void begin_epoch(i64 epoch) {
    if (known_epoch == epoch) return;
    mixed = sorted;
    if (options.epoch.shuffle) {
      // Common to all ranks: their batches are parts of one whole.
      Rng rng(mix(options.epoch.seed, 0x7061697273 /* "pairs" */),
              static_cast<std::uint64_t>(epoch));
      for (std::size_t begin = 0, end = 0; begin < mixed.size(); begin = end) {
        while (end < mixed.size() && lengths(mixed[end]) == lengths(mixed[begin])) ++end;
        for (std::size_t i = end - 1; i > begin; --i)
          std::swap(mixed[i], mixed[begin + rng.below(static_cast<std::uint32_t>(i - begin + 1))]);
      }
    }
    order = epoch_order(static_cast<i64>(cuts.size()) - 1, options.epoch, epoch);
    known_epoch = epoch;
  }

  // A side's sentences in rows, with the end mark behind each or the begin mark before it; then
  // `fill`.
  Tensor rows_of(int side, std::span<const i64> pairs, i64 width, bool end_mark,
                 std::int32_t fill) {
    const i64 n = static_cast<i64>(pairs.size());
    Tensor out = make_id_tensor({n, width}, options.pinned);
    std::fill_n(out.as<std::int32_t>(), n * width, fill);
    for (i64 row = 0; row < n; ++row) {
      const i64 pair = pairs[static_cast<std::size_t>(row)];
      std::span<std::int32_t> ids(out.as<std::int32_t>() + row * width,
                                  static_cast<std::size_t>(length(side, pair)));
      if (!end_mark) {  // the begin mark instead
        ids[0] = marks.begin;
        ids = ids.subspan(1);
      }
      sides[side].tokens->read(sides[side].begins[static_cast<std::size_t>(pair)], ids);
    }
    return out;
  }

  struct Side {
    std::shared_ptr<const TokenFiles> tokens;
    std::vector<i64> begins;
  };
  Marks marks;
  PairLoaderOptions options;
  Side sides[2];            // source, target
  std::vector<i64> sorted;  // pairs, by lengths
  std::vector<i64> cuts;    // where in `sorted` the batches begin, and its end
  PairBatch::Room room;
  i64 steps = 0;
  Walk walk{0};
  i64 known_epoch = -1;    // of what follows
  std::vector<i64> mixed;  // `sorted`, with pairs of equal lengths drawn anew
  std::vector<i64> order;  // of batches
};

PairLoader::PairLoader(const TextPart& part, Marks marks, PairLoaderOptions options)
    : impl_(std::make_unique<Impl>(part, marks, options)) {}
PairLoader::~PairLoader() = default;

i64 PairLoader::steps() const { return impl_->steps; }
i64 PairLoader::epoch() const { return impl_->walk.epoch(); }
i64 PairLoader::batches() const { return static_cast<i64>(impl_->cuts.size()) - 1; }
i64 PairLoader::size() const { return impl_->size(); }
i64 PairLoader::labelled() const { return impl_->sides[1].tokens->size(); }

void PairLoader::seek(i64 epoch, i64 step) {
  check_seek("pairs", {epoch, step}, impl_->steps);
  impl_->walk.seek({epoch, step});
}

void PairLoader::deal(const Deal& from) {
  check_deal("pairs", impl_->options.epoch, impl_->steps, from);
  impl_->walk.deal(from);
}

PairBatch PairLoader::next() {
  Impl& s = *impl_;
  if (s.walk.epoch_is_over()) return {};
  const Position at = s.walk.next();
  s.begin_epoch(at.epoch);
  const auto b = static_cast<std::size_t>(s.order[static_cast<std::size_t>(at.step)]);
  const std::span pairs = std::span(s.mixed).subspan(
      static_cast<std::size_t>(s.cuts[b]), static_cast<std::size_t>(s.cuts[b + 1] - s.cuts[b]));
  const i64 n = static_cast<i64>(pairs.size());
  PairBatch out;
  out.room = s.room;
  out.source_lengths = make_id_tensor({n}, s.options.pinned);
  out.target_lengths = make_id_tensor({n}, s.options.pinned);
  i64 longest[2] = {};
  for (i64 row = 0; row < n; ++row)
    for (const int side : {0, 1}) {
      const i64 length = s.length(side, pairs[static_cast<std::size_t>(row)]);
      longest[side] = std::max(longest[side], length);
      (side ? out.target_lengths : out.source_lengths).as<std::int32_t>()[row] =
          static_cast<std::int32_t>(length);
      if (side) out.labelled += length;
    }
  const i64 source = s.filled(longest[0]), target = s.filled(longest[1]);
  out.source = s.rows_of(0, pairs, source, true, s.marks.pad);
  out.inputs = s.rows_of(1, pairs, target, false, s.marks.pad);
  out.labels = s.rows_of(1, pairs, target, true, kNoLabel);
  out.pairs.assign(pairs.begin(), pairs.end());
  s.walk.advance();
  return out;
}

}  // namespace gossamer::data
