// Windows are read when their batch is asked for: that is one read of the file each, and nothing
// has to be kept.
#include "gossamer/data/text/window_loader.h"

#include <algorithm>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/data/loader/epoch.h"
#include "gossamer/data/mix.h"
#include "gossamer/data/text/batch_tensor.h"

namespace gossamer::data {
namespace {

struct Range {
  i64 begin = 0, end = 0;
  i64 size() const { return end - begin; }
};

// The position behind the end mark that is nearest to `at`; -1: there is none.
i64 nearest_cut(const TokenFiles& tokens, i64 at, std::int32_t mark) {
  constexpr i64 kChunk = 1 << 16;
  std::vector<std::int32_t> ids;
  const auto find = [&](i64 begin, i64 end, bool last) -> i64 {
    ids.resize(static_cast<std::size_t>(end - begin));
    tokens.read(begin, ids);
    i64 found = -1;
    for (std::size_t i = 0; i < ids.size() && (last || found < 0); ++i)
      if (ids[i] == mark) found = begin + static_cast<i64>(i) + 1;
    return found;
  };
  i64 before = -1, after = -1;
  i64 left = at, right = at;  // what lies between has no mark
  while (before < 0 && after < 0 && (left > 0 || right < tokens.size())) {
    if (left > 0) {
      before = find(std::max<i64>(0, left - kChunk), left, true);
      left = std::max<i64>(0, left - kChunk);
    }
    if (right < tokens.size()) {
      const i64 end = std::min(tokens.size(), right + kChunk);
      after = find(right, end, false);
      right = end;
    }
  }
  return before < 0 || (after >= 0 && after - at < at - before) ? after : before;
}

// The documents of every worker: about equally many ids.
std::vector<Range> ranges_of_documents(const TokenFiles& tokens, const Marks& marks, int world) {
  check<ConfigError>(marks.end >= 0,
                     "windows: the documents cannot be shared out, because the vocabulary has no "
                     "mark of their ends; share windows instead");
  std::vector<Range> ranges;
  i64 begin = 0;
  for (int rank = 0; rank < world; ++rank) {
    const i64 nominal = tokens.size() / world * (rank + 1);
    const i64 end = rank + 1 == world ? tokens.size() : nearest_cut(tokens, nominal, marks.end);
    check<ConfigError>(end > begin, "windows: the text has too few documents to share them out to ",
                       world, " workers; share windows instead");
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

}  // namespace

struct WindowLoader::Impl {
  Impl(std::shared_ptr<const TokenFiles> files, const Marks& marks, const WindowLoaderOptions& o)
      : tokens(std::move(files)), options(o) {
    check<ConfigError>(tokens != nullptr, "windows: no text");
    check<ConfigError>(o.batch >= 1 && o.batch <= 1 << 20, "windows: batch ", o.batch,
                       "; use 1 … 1048576");
    check<ConfigError>(o.length >= 1 && o.length <= 1 << 20, "windows: length ", o.length,
                       "; use 1 … 1048576 ids");
    check_epoch_options("windows", o.epoch, true);
    const auto [rank, world, share, shuffle, drop_last, seed] = o.epoch;
    std::vector<Range> ranges{{0, tokens->size()}};
    if (share == Share::documents && world > 1) ranges = ranges_of_documents(*tokens, marks, world);
    range = ranges[ranges.size() == 1 ? 0 : static_cast<std::size_t>(rank)];
    windows = windows_of(range);
    i64 mine = number_of_share(windows, o.epoch);
    // The same number of steps for every rank: synchronous methods wait for each other.
    if (drop_last)
      for (const Range& each : ranges) mine = std::min(mine, windows_of(each));
    steps = batches_of(mine, o.batch, o.epoch);
    check<DataError>(steps > 0 || (!drop_last && share != Share::all), "windows: ", tokens->size(),
                     " ids do not fill one batch of ", o.batch, " windows of ", o.length,
                     world > 1 && share != Share::all ? " for each worker" : "",
                     "; use more text, a smaller batch or shorter windows");
  }

  // The last id of the text is a label only.
  i64 windows_of(const Range& r) const {
    const i64 inputs = r.size() - (r.end == tokens->size() ? 1 : 0);
    if (!options.epoch.drop_last) return (inputs + options.length - 1) / options.length;
    // shuffled, the first window begins up to length - 1 ids later
    return std::max<i64>(0, inputs - (options.epoch.shuffle ? options.length - 1 : 0)) /
           options.length;
  }

  // Where the windows of this epoch begin.
  void begin_epoch() {
    const i64 epoch = position.epoch;
    if (known_epoch == epoch) return;
    const EpochOptions& o = options.epoch;
    const bool own = o.share != Share::parts;
    offset = 0;
    if (o.shuffle && o.drop_last)
      offset =
          Rng(mix(o.seed, 0x6f6666736574 /* "offset" */),
              mix(static_cast<std::uint64_t>(epoch), own ? static_cast<std::uint64_t>(o.rank) : 0u))
              .below(static_cast<std::uint32_t>(options.length));
    order = epoch_order(windows, o, epoch);
    known_epoch = epoch;
  }

  std::shared_ptr<const TokenFiles> tokens;
  WindowLoaderOptions options;
  Range range;      // the ids of this worker
  i64 windows = 0;  // in it
  i64 steps = 0;
  Position position;
  i64 known_epoch = -1;  // of what follows
  i64 offset = 0;
  std::vector<i64> order;
  std::vector<std::int32_t> ids;
};

WindowLoader::WindowLoader(std::shared_ptr<const TokenFiles> tokens, Marks marks,
                           WindowLoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(tokens), marks, options)) {}
WindowLoader::~WindowLoader() = default;

i64 WindowLoader::steps() const { return impl_->steps; }
i64 WindowLoader::epoch() const { return impl_->position.epoch; }

void WindowLoader::seek(i64 epoch, i64 step) {
  check_seek("windows", {epoch, step}, impl_->steps);
  impl_->position = {epoch, step};
}

WindowBatch WindowLoader::next() {
  Impl& s = *impl_;
  if (s.position.epoch_is_over(s.steps)) return {};
  s.begin_epoch();
  const i64 length = s.options.length, first = s.position.step * s.options.batch;
  const i64 rows = std::min(s.options.batch, static_cast<i64>(s.order.size()) - first);
  WindowBatch out;
  out.inputs = make_id_tensor({rows, length}, s.options.pinned);
  out.labels = make_id_tensor({rows, length}, s.options.pinned);
  for (i64 row = 0; row < rows; ++row) {
    const i64 begin =
        s.range.begin + s.offset + s.order[static_cast<std::size_t>(first + row)] * length;
    // An id behind the window is its last label.
    const i64 inputs = std::min(length, s.range.end - begin);
    const i64 held = std::min(inputs + 1, s.tokens->size() - begin);
    s.ids.assign(static_cast<std::size_t>(length + 1), kNoLabel);
    s.tokens->read(begin, std::span(s.ids).first(static_cast<std::size_t>(held)));
    std::int32_t* const input = out.inputs.as<std::int32_t>() + row * length;
    std::copy_n(s.ids.begin(), length, input);
    std::copy_n(s.ids.begin() + 1, length, out.labels.as<std::int32_t>() + row * length);
    std::replace(input, input + length, kNoLabel, 0);
    out.labelled += held - 1;
  }
  ++s.position.step;
  return out;
}

}  // namespace gossamer::data
