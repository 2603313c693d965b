// Windows are read when their batch is asked for: that is one read of the file each, and nothing
// has to be kept.
#include "gossamer/data/text/window_loader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/core/random.h"
#include "gossamer/data/loader/epoch.h"
#include "gossamer/data/loader/walk.h"
#include "gossamer/data/mix.h"
#include "gossamer/data/text/batch_tensor.h"
#include "gossamer/data/text/examples.h"

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

// `total` divided by weights; what is left over by rounding down goes to the largest remainders, of
// equal ones to the first.
std::vector<i64> divided(i64 total, const std::vector<double>& weights) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<i64> out;
  std::vector<std::pair<double, std::size_t>> remainders;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = static_cast<double>(total) * (weights[i] / all);
    out.push_back(static_cast<i64>(exact));
    remainders.emplace_back(static_cast<double>(out.back()) - exact, i);
  }
  std::ranges::sort(remainders);
  i64 left = total - std::accumulate(out.begin(), out.end(), i64{0});
  for (std::size_t i = 0; left > 0; i = (i + 1) % out.size(), --left) ++out[remainders[i].second];
  return out;
}

constexpr std::size_t kMostTexts = std::size_t{1} << 16;

// A text as this worker reads it.
struct Source {
  std::shared_ptr<const TokenFiles> tokens, learnt;
  std::shared_ptr<const ExampleWindows> examples;  // null: windows of equal lengths
  i64 first = 0;           // where its ids begin, if all texts lie behind each other
  Range range{};           // the ids of this worker
  i64 windows = 0;         // in it
  i64 taken = 0;           // windows of an epoch
  std::uint64_t seed = 0;  // of its order
};

}  // namespace

Documents parse_documents(const std::string& name) {
  if (name == "joined") return Documents::joined;
  check<ConfigError>(name == "separate", "\"", name,
                     "\" is no way to read documents; use joined or separate");
  return Documents::separate;
}

struct WindowLoader::Impl {
  Impl(std::vector<WindowSource> texts, const Marks& all_marks, const WindowLoaderOptions& o)
      : options(o), marks(all_marks) {
    check_options(texts);
    const EpochOptions& e = o.epoch;
    std::vector<i64> of_ranks(static_cast<std::size_t>(e.world));
    for (WindowSource& text : texts) {
      std::vector<Range> ranges{{0, text.tokens->size()}};
      if (e.share == Share::documents && e.world > 1)
        ranges = ranges_of_documents(*text.tokens, marks, e.world);
      Source s{.tokens = std::move(text.tokens),
               .learnt = std::move(text.learnt),
               .examples = std::move(text.examples),
               .first = ids_of_all,
               // two texts of one length do not come in one order
               .seed = sources.empty() ? e.seed : mix(e.seed, sources.size())};
      s.range = ranges[ranges.size() == 1 ? 0 : static_cast<std::size_t>(e.rank)];
      const auto windows_in = [&](const Range& range) {
        return s.examples ? static_cast<i64>(s.examples->windows.size())
                          : windows_of(*s.tokens, range);
      };
      s.windows = s.taken = windows_in(s.range);
      check<DataError>(s.windows > 0 || texts.size() == 1, "windows: text ", sources.size() + 1,
                       " of ", texts.size(), " has ", s.tokens->size(),
                       " ids, not enough for a window of ", o.length,
                       "; leave it out, or use shorter windows");
      for (std::size_t rank = 0; rank < of_ranks.size(); ++rank)
        of_ranks[rank] += windows_in(ranges[ranges.size() == 1 ? 0 : rank]);
      ids_of_all += s.tokens->size();
      sources.push_back(std::move(s));
    }
    const i64 least = std::ranges::min(of_ranks);
    if (o.weighted) take_by_weight(texts, least);
    windows = 0;
    for (const Source& s : sources) windows += s.taken;
    check<ConfigError>(windows <= std::numeric_limits<std::uint32_t>::max(), "windows: ", windows,
                       " windows; the limit is 4,294,967,295; use longer ones");
    i64 mine = number_of_share(windows, e);
    // The same number of steps for every rank: synchronous methods wait for each other.
    if (e.drop_last && e.share == Share::documents) mine = std::min(mine, least);
    steps = batches_of(mine, o.batch, e);
    walk = Walk(steps);
    check<DataError>(steps > 0 || (!e.drop_last && e.share != Share::all), "windows: ", ids_of_all,
                     " ids do not fill one batch of ", o.batch, " windows of ", o.length,
                     e.world > 1 && e.share != Share::all ? " for each worker" : "",
                     "; use more text, a smaller batch or shorter windows");
  }

  void check_options(const std::vector<WindowSource>& texts) const {
    const WindowLoaderOptions& o = options;
    check<ConfigError>(!texts.empty() && texts.size() <= kMostTexts, "windows: ", texts.size(),
                       " texts; use 1 … ", kMostTexts);
    for (const WindowSource& text : texts) {
      check<ConfigError>(text.tokens != nullptr, "windows: no text");
      check<ConfigError>(!text.learnt == !text.examples &&
                             (!text.learnt || text.learnt->size() == text.tokens->size()),
                         "windows: examples need to say of each id whether it is learnt");
      check<ConfigError>(!text.learnt || o.epoch.share != Share::documents || o.epoch.world == 1,
                         "windows: examples are shared out as windows, not as documents");
      check<ConfigError>(!o.weighted || (text.weight > 0 && std::isfinite(text.weight)),
                         "windows: a text of weight ", text.weight,
                         "; weights are above 0, as 0.7 and 0.3");
    }
    check<ConfigError>(o.batch >= 1 && o.batch <= 1 << 20, "windows: batch ", o.batch,
                       "; use 1 … 1048576");
    check<ConfigError>(o.length >= 1 && o.length <= 1 << 20, "windows: length ", o.length,
                       "; use 1 … 1048576 ids");
    check_epoch_options("windows", o.epoch, true);
    check<ConfigError>(!o.weighted || o.epoch.shuffle,
                       "windows: texts by weights come in a random order");
    const auto is_text = [](const WindowSource& text) { return !text.learnt; };
    check<ConfigError>(
        o.documents == Documents::joined || marks.end >= 0 || std::ranges::none_of(texts, is_text),
        "windows: the documents cannot be kept apart, because the vocabulary has no "
        "mark of their ends; join them");
  }

  // The last id of a text is a label only.
  i64 windows_of(const TokenFiles& tokens, const Range& r) const {
    const i64 inputs = r.size() - (r.end == tokens.size() ? 1 : 0);
    if (!options.epoch.drop_last) return (inputs + options.length - 1) / options.length;
    // shuffled, the first window begins up to length - 1 ids later
    return std::max<i64>(0, inputs - (options.epoch.shuffle ? options.length - 1 : 0)) /
           options.length;
  }

  void take_by_weight(const std::vector<WindowSource>& texts, i64 total) {
    std::vector<double> weights;
    for (const WindowSource& text : texts) weights.push_back(text.weight);
    const std::vector<i64> shares = divided(total, weights);
    for (std::size_t i = 0; i < sources.size(); ++i) {
      sources[i].taken = shares[i];
      check<ConfigError>(shares[i] > 0, "windows: text ", i + 1, " of weight ", weights[i],
                         " has no window among the ", total, " of an epoch; leave it out");
    }
  }

  bool own_order() const { return options.epoch.share != Share::parts; }
  std::uint64_t own_rank() const {
    return own_order() ? static_cast<std::uint64_t>(options.epoch.rank) : 0u;
  }

  // The windows of a text in the order of one pass over it.
  struct Pass {
    i64 number = -1, offset = 0;
    std::vector<i64> order;
  };
  Pass pass_of(const Source& s, i64 number) const {
    const EpochOptions& e = options.epoch;
    Pass pass{.number = number, .offset = 0, .order = {}};
    if (e.shuffle && e.drop_last && !s.examples)
      pass.offset = Rng(mix(s.seed, 0x6f6666736574 /* "offset" */),
                        mix(static_cast<std::uint64_t>(number), own_rank()))
                        .below(static_cast<std::uint32_t>(options.length));
    EpochOptions whole = e;  // shares are of the order of all texts
    whole.seed = s.seed;
    whole.share = Share::all;
    if (!own_order()) whole.rank = 0;
    pass.order = epoch_order(s.windows, whole, number);
    return pass;
  }

  // Of which text each window of this epoch is.
  std::vector<std::uint16_t> texts_of_windows() const {
    std::vector<std::uint16_t> out;
    if (sources.size() == 1) return out;
    out.reserve(static_cast<std::size_t>(windows));
    for (std::size_t i = 0; i < sources.size(); ++i)
      out.insert(out.end(), static_cast<std::size_t>(sources[i].taken),
                 static_cast<std::uint16_t>(i));
    if (!options.epoch.shuffle) return out;
    Rng rng(mix(options.epoch.seed, 0x6d697874757265 /* "mixture" */),
            mix(static_cast<std::uint64_t>(position.epoch), own_rank()));
    for (std::size_t i = out.size(); i-- > 1;)
      std::swap(out[i], out[rng.below(static_cast<std::uint32_t>(i + 1))]);
    return out;
  }

  // Where the windows of this epoch begin.
  void begin_epoch() {
    const i64 epoch = position.epoch;
    if (known_epoch == epoch) return;
    const EpochOptions& e = options.epoch;
    const std::vector<std::uint16_t> texts = texts_of_windows();
    std::vector<i64> used(sources.size());
    std::vector<Pass> passes(sources.size());
    order.clear();
    for (i64 i = 0; i < windows; ++i) {
      const std::size_t text = texts.empty() ? 0 : texts[static_cast<std::size_t>(i)];
      const Source& s = sources[text];
      // counted from the first epoch on, so that a text goes on where the last one left it
      const i64 place = epoch * s.taken + used[text]++;
      if (e.share == Share::parts && i % e.world != e.rank) continue;
      Pass& pass = passes[text];
      if (pass.number != place / s.windows) pass = pass_of(s, place / s.windows);
      const i64 window = pass.order[static_cast<std::size_t>(place % s.windows)];
      order.push_back(s.first + (s.examples
                                     ? s.examples->windows[static_cast<std::size_t>(window)].begin
                                     : s.range.begin + pass.offset + window * options.length));
    }
    known_epoch = epoch;
  }

  static i64 end_of_window(const Source& s, i64 begin) {
    return std::ranges::lower_bound(s.examples->windows, begin, {}, &ExampleWindow::begin)->end;
  }

  // Writes a window and its labels; returns how many labels are ids.
  i64 read(i64 at, std::int32_t* input, std::int32_t* label, std::int32_t* begins) {
    const auto found =
        std::ranges::upper_bound(sources, at, {}, [](const Source& s) { return s.first; }) - 1;
    const Source& s = *found;
    const i64 length = options.length, begin = at - s.first;
    // An id behind the window is its last label.
    const i64 inputs =
        std::min(length, (s.examples ? end_of_window(s, begin) : s.range.end) - begin);
    const i64 held = std::min(inputs + 1, s.tokens->size() - begin);
    ids.assign(static_cast<std::size_t>(length + 1), kNoLabel);
    s.tokens->read(begin, std::span(ids).first(static_cast<std::size_t>(held)));
    std::copy_n(ids.begin(), length, input);
    std::copy_n(ids.begin() + 1, length, label);
    std::replace(input, input + length, kNoLabel, 0);
    if (s.examples) return read_learnt(s, begin, inputs, held, input, label, begins);
    if (!begins) return held - 1;
    i64 labelled = 0;
    std::int32_t document = 0;
    for (i64 i = 0; i < length; ++i) {
      begins[i] = document;
      if (ids[static_cast<std::size_t>(i)] == marks.end) {
        document = static_cast<std::int32_t>(i + 1);
        label[i] = kNoLabel;
      }
      labelled += label[i] != kNoLabel;
    }
    return labelled;
  }

  // The same of examples: what is behind the window's last one is no input, and belongs to none.
  i64 read_learnt(const Source& s, i64 at, i64 inputs, i64 held, std::int32_t* input,
                  std::int32_t* label, std::int32_t* begins) {
    learnt.assign(static_cast<std::size_t>(options.length + 1),
                  static_cast<std::int32_t>(Learnt::no));
    s.learnt->read(at, std::span(learnt).first(static_cast<std::size_t>(held)));
    i64 labelled = 0;
    std::int32_t example = 0;
    for (i64 i = 0; i < options.length; ++i) {
      const bool is_behind = i >= inputs;
      const auto role = [&](i64 id) { return Learnt{learnt[static_cast<std::size_t>(id)]}; };
      if (is_behind) input[i] = 0;
      if (is_behind || role(i + 1) != Learnt::yes) label[i] = kNoLabel;
      labelled += label[i] != kNoLabel;
      if (i == inputs || (!is_behind && role(i) == Learnt::first))
        example = static_cast<std::int32_t>(i);
      if (begins) begins[i] = example;
    }
    return labelled;
  }

  WindowLoaderOptions options;
  Marks marks;
  std::vector<Source> sources;
  i64 ids_of_all = 0;
  i64 windows = 0;  // of an epoch, of this worker's order
  i64 steps = 0;
  Walk walk{0};
  Position position;       // of the batch in hand
  i64 known_epoch = -1;    // of what follows
  std::vector<i64> order;  // where each window begins, if all texts lie behind each other
  std::vector<std::int32_t> ids, learnt;
};

WindowSource window_source(const TextPart& part, i64 length, bool packed) {
  WindowSource out{.tokens = part.tokens, .weight = 1, .learnt = part.learnt, .examples = {}};
  if (part.learnt)
    out.examples =
        std::make_shared<const ExampleWindows>(windows_of_examples(*part.learnt, length, packed));
  return out;
}

WindowLoader::WindowLoader(std::vector<WindowSource> texts, Marks marks,
                           WindowLoaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(texts), marks, options)) {}
WindowLoader::WindowLoader(std::shared_ptr<const TokenFiles> tokens, Marks marks,
                           WindowLoaderOptions options)
    : WindowLoader(std::vector<WindowSource>{{std::move(tokens)}}, marks, options) {}
WindowLoader::~WindowLoader() = default;

i64 WindowLoader::steps() const { return impl_->steps; }
i64 WindowLoader::epoch() const { return impl_->walk.epoch(); }

void WindowLoader::seek(i64 epoch, i64 step) {
  check_seek("windows", {epoch, step}, impl_->steps);
  impl_->walk.seek({epoch, step});
}

void WindowLoader::deal(const Deal& from) {
  check_deal("windows", impl_->options.epoch, impl_->steps, from);
  impl_->walk.deal(from);
}

WindowBatch WindowLoader::next() {
  Impl& s = *impl_;
  if (s.walk.epoch_is_over()) return {};
  s.position = s.walk.next();
  s.begin_epoch();
  const i64 length = s.options.length, first = s.position.step * s.options.batch;
  const i64 rows = std::min(s.options.batch, static_cast<i64>(s.order.size()) - first);
  WindowBatch out;
  out.inputs = make_id_tensor({rows, length}, s.options.pinned);
  out.labels = make_id_tensor({rows, length}, s.options.pinned);
  const bool separate = s.options.documents == Documents::separate;
  if (separate) out.begins = make_id_tensor({rows, length}, s.options.pinned);
  for (i64 row = 0; row < rows; ++row)
    out.labelled += s.read(s.order[static_cast<std::size_t>(first + row)],
                           out.inputs.as<std::int32_t>() + row * length,
                           out.labels.as<std::int32_t>() + row * length,
                           separate ? out.begins.as<std::int32_t>() + row * length : nullptr);
  s.walk.advance();
  return out;
}

}  // namespace gossamer::data
