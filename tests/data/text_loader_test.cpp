// Batches of text: every id is a label once, order and contents depend on (seed, epoch, rank,
// position) alone, workers' shares are disjoint, and any step can be the next.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include <gmock/gmock.h>

#include "data/helpers.h"
#include "data/text.h"
#include "gossamer/data/loader/deal.h"
#include "gossamer/data/text/pair_loader.h"
#include "gossamer/data/text/window_loader.h"

namespace gossamer::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::int32_t>;

class TextLoaders : public ::testing::Test {
 protected:
  std::shared_ptr<const TokenFiles> stored(const std::string& name, const Ids& ids, i64 shard = 7) {
    TokenWriter writer(folder_ / name, TokenFormat::llmc, 60'000, shard);
    writer.add(ids);
    std::vector<std::string> paths;
    for (const std::string& file : writer.close()) paths.push_back(folder_ / file);
    return std::make_shared<const TokenFiles>(paths, 60'000);
  }
  // 0, 1, 2 …: every id says where it stands.
  std::shared_ptr<const TokenFiles> numbers(int n) {
    Ids ids(static_cast<std::size_t>(n));
    for (int i = 0; i < n; ++i) ids[static_cast<std::size_t>(i)] = i;
    return stored("numbers", ids, 50);
  }
  TempFolder folder_;
};

Ids ids_in(const Tensor& tensor) {
  const auto span = tensor.span<std::int32_t>();
  return {span.begin(), span.end()};
}

// All rows of an epoch.
struct Rows {
  std::vector<Ids> inputs, labels;
};
Rows epoch_of(WindowLoader& loader) {
  Rows rows;
  for (WindowBatch b = loader.next(); b.inputs.defined(); b = loader.next())
    for (i64 i = 0; i < b.inputs.shape(0); ++i) {
      rows.inputs.push_back(ids_in(b.inputs.slice(i, i + 1)));
      rows.labels.push_back(ids_in(b.labels.slice(i, i + 1)));
    }
  return rows;
}

TEST_F(TextLoaders, ALabelIsTheNextId) {
  WindowLoader loader(numbers(103), {}, {.batch = 3, .length = 10, .epoch = {.seed = 4}});
  EXPECT_EQ(loader.steps(), 3);
  for (int epoch = 0; epoch < 4; ++epoch) {
    EXPECT_EQ(loader.epoch(), epoch);
    const Rows rows = epoch_of(loader);
    ASSERT_EQ(rows.inputs.size(), 9u);
    std::set<std::int32_t> seen;
    for (std::size_t r = 0; r < rows.inputs.size(); ++r)
      for (std::size_t i = 0; i < 10; ++i) {
        EXPECT_EQ(rows.inputs[r][i], rows.inputs[r][0] + static_cast<int>(i));
        EXPECT_EQ(rows.labels[r][i], rows.inputs[r][i] + 1);
        EXPECT_TRUE(seen.insert(rows.inputs[r][i]).second);
      }
  }
}

TEST_F(TextLoaders, EpochsDifferInOrderAndInWhereWindowsBegin) {
  WindowLoader loader(numbers(1000), {}, {.batch = 4, .length = 16, .epoch = {.seed = 4}});
  std::set<Ids> first_windows;
  std::set<int> offsets;
  for (int epoch = 0; epoch < 6; ++epoch) {
    const Rows rows = epoch_of(loader);
    first_windows.insert(rows.inputs[0]);
    offsets.insert(rows.inputs[0][0] % 16);
  }
  EXPECT_GT(first_windows.size(), 4u);
  EXPECT_GT(offsets.size(), 2u);
}

TEST_F(TextLoaders, EvaluationPredictsEveryIdButTheFirstOnce) {
  for (const int world : {1, 3})
    for (const Share share : {Share::parts, Share::documents}) {
      if (share == Share::documents && world == 3) continue;  // numbers() has no documents
      std::multiset<std::int32_t> labels;
      i64 labelled = 0;
      for (int rank = 0; rank < world; ++rank) {
        WindowLoader loader(numbers(103), {.end = 1000},
                            {.batch = 3,
                             .length = 10,
                             .epoch = {.rank = rank,
                                       .world = world,
                                       .share = share,
                                       .shuffle = false,
                                       .drop_last = false}});
        for (WindowBatch b = loader.next(); b.inputs.defined(); b = loader.next()) {
          labelled += b.labelled;
          const Ids inputs = ids_in(b.inputs), next = ids_in(b.labels);
          for (std::size_t i = 0; i < next.size(); ++i)
            if (next[i] != kNoLabel) {
              labels.insert(next[i]);
              EXPECT_EQ(next[i], inputs[i] + 1);
            }
        }
      }
      EXPECT_EQ(labelled, 102);
      EXPECT_EQ(labels.size(), 102u);
      EXPECT_EQ(std::set(labels.begin(), labels.end()).size(), 102u);
    }
}

TEST_F(TextLoaders, ABatchDependsOnItsPlaceAlone) {
  const auto text = numbers(500);
  const WindowLoaderOptions options{
      .batch = 4, .length = 8, .epoch = {.rank = 1, .world = 2, .seed = 9}};
  WindowLoader whole(text, {}, options);
  std::vector<std::vector<Ids>> epochs;
  for (int epoch = 0; epoch < 3; ++epoch) {
    epochs.emplace_back();
    for (WindowBatch b = whole.next(); b.inputs.defined(); b = whole.next())
      epochs.back().push_back(ids_in(b.inputs));
  }
  WindowLoader other(text, {}, options);
  for (const auto& [epoch, step] : {std::pair{2, 5}, {0, 3}, {1, 0}, {0, 0}}) {
    other.seek(epoch, step);
    EXPECT_EQ(other.epoch(), epoch);
    EXPECT_EQ(ids_in(other.next().inputs),
              epochs[static_cast<std::size_t>(epoch)][static_cast<std::size_t>(step)]);
  }
  other.seek(0, other.steps());
  EXPECT_FALSE(other.next().inputs.defined());
  EXPECT_EQ(other.epoch(), 1);
  EXPECT_EQ(ids_in(other.next().inputs), epochs[1][0]);
  EXPECT_THAT(error_of<ConfigError>([&] { other.seek(0, other.steps() + 1); }),
              HasSubstr("seek to epoch 0"));
  WindowLoader seed(text, {},
                    {.batch = 4, .length = 8, .epoch = {.rank = 1, .world = 2, .seed = 10}});
  EXPECT_NE(ids_in(seed.next().inputs), epochs[0][0]);
}

TEST_F(TextLoaders, WorkersReadAllOrDisjointWindows) {
  const auto text = numbers(1000);
  for (const Share share : {Share::all, Share::parts}) {
    std::map<std::int32_t, int> seen;
    std::set<i64> steps;
    for (int rank = 0; rank < 3; ++rank) {
      WindowLoader loader(
          text, {}, {.batch = 5, .length = 8, .epoch = {.rank = rank, .world = 3, .share = share}});
      steps.insert(loader.steps());
      for (const Ids& row : epoch_of(loader).inputs) ++seen[row[0] / 8 * 8];
    }
    EXPECT_EQ(steps.size(), 1u);
    const int most =
        std::ranges::max_element(seen, {}, [](const auto& each) { return each.second; })->second;
    EXPECT_EQ(most, share == Share::all ? 3 : 1);
  }
}

TEST_F(TextLoaders, DocumentsAreSharedOutWhole) {
  // Documents of 1 to 30 ids of one number each; 50 ends them.
  Ids ids;
  for (int d = 0; d < 40; ++d) {
    ids.insert(ids.end(), static_cast<std::size_t>(1 + d * 7 % 30), 1000 + d);
    ids.push_back(50);
  }
  const auto text = stored("documents", ids);
  std::map<std::int32_t, std::set<int>> readers;
  std::set<i64> steps;
  for (int rank = 0; rank < 4; ++rank) {
    WindowLoader loader(
        text, {.end = 50},
        {.batch = 2,
         .length = 4,
         .epoch = {.rank = rank, .world = 4, .share = Share::documents, .shuffle = false}});
    steps.insert(loader.steps());
    for (const Ids& row : epoch_of(loader).inputs)
      for (const std::int32_t id : row) readers[id].insert(rank);
  }
  EXPECT_EQ(steps.size(), 1u);
  EXPECT_GT(*steps.begin(), 5);
  readers.erase(50);
  EXPECT_GT(readers.size(), 30u);
  for (const auto& [document, ranks] : readers) EXPECT_EQ(ranks.size(), 1u) << document;

  const WindowLoaderOptions many{
      .batch = 1, .length = 1, .epoch = {.world = 8, .share = Share::documents}};
  EXPECT_THAT(error_of<ConfigError>([&] { WindowLoader(text, {}, many); }),
              HasSubstr("no mark of their ends; share windows instead"));
  EXPECT_THAT(error_of<ConfigError>([&] {
                WindowLoader(stored("two", {1, 50, 2, 2, 2, 2, 2, 50}), {.end = 50}, many);
              }),
              HasSubstr("too few documents"));
}

// --- several texts

// Text t holds the ids 10,000 t + 0, 1, 2 …
class Mixtures : public TextLoaders {
 protected:
  std::vector<WindowSource> texts(const std::vector<int>& sizes,
                                  const std::vector<double>& weights = {}) {
    std::vector<WindowSource> out;
    for (std::size_t t = 0; t < sizes.size(); ++t) {
      Ids ids(static_cast<std::size_t>(sizes[t]));
      for (std::size_t i = 0; i < ids.size(); ++i)
        ids[i] = static_cast<std::int32_t>(10'000 * t + i);
      out.push_back({stored("text" + std::to_string(t), ids, 100)});
      if (!weights.empty()) out.back().weight = weights[t];
    }
    return out;
  }
  static std::size_t text_of(const Ids& row) { return static_cast<std::size_t>(row[0] / 10'000); }
};

TEST_F(Mixtures, EveryWindowOfEachTextComesOnceInAnEpoch) {
  for (const Share share : {Share::all, Share::parts}) {
    std::multiset<std::int32_t> seen;
    std::vector<std::size_t> order;
    for (int rank = 0; rank < 2; ++rank) {
      WindowLoader loader(
          texts({403, 203, 1003}), {},
          {.batch = 1, .length = 10, .epoch = {.rank = rank, .world = 2, .share = share}});
      EXPECT_EQ(loader.steps(), (39 + 19 + 99) / (share == Share::parts ? 2 : 1));
      const Rows rows = epoch_of(loader);
      for (std::size_t r = 0; r < rows.inputs.size(); ++r) {
        order.push_back(text_of(rows.inputs[r]));
        for (std::size_t i = 0; i < 10; ++i) {
          EXPECT_EQ(rows.inputs[r][i], rows.inputs[r][0] + static_cast<int>(i));
          EXPECT_EQ(rows.labels[r][i], rows.inputs[r][i] + 1);
          seen.insert(rows.inputs[r][i]);
        }
      }
    }
    // no text comes in one piece
    EXPECT_GT(std::set(order.begin(), order.begin() + 20).size(), 2u);
    const auto most = static_cast<std::size_t>(share == Share::parts ? 1 : 2);
    for (const std::int32_t id : std::set(seen.begin(), seen.end()))
      EXPECT_LE(seen.count(id), most);
    EXPECT_GE(seen.size(), (39 + 19 + 99 - 1) * 10 * most);
  }
}

TEST_F(Mixtures, WeightsSayHowManyWindowsOfEachTextAnEpochHas) {
  // 39 + 99 windows in an epoch: 103.5 and 34.5 of them
  WindowLoader loader(texts({403, 1003}, {3, 1}), {},
                      {.batch = 1, .length = 10, .epoch = {.seed = 5}, .weighted = true});
  EXPECT_EQ(loader.steps(), 138);
  std::vector<std::vector<std::int32_t>> begins(2);
  for (int epoch = 0; epoch < 6; ++epoch) {
    std::array<int, 2> count{};
    for (const Ids& row : epoch_of(loader).inputs) {
      ++count.at(text_of(row));
      begins[text_of(row)].push_back(row[0]);
    }
    EXPECT_EQ(count[0], 104);  // both remainders are a half, and the first text gets it
    EXPECT_EQ(count[1], 34);
  }
  // Each pass over a text has every window once, though it begins and ends inside epochs.
  for (const auto& [text, windows] : {std::pair{0, 39}, {1, 99}})
    for (std::size_t at = 0;
         at + static_cast<std::size_t>(windows) <= begins[static_cast<std::size_t>(text)].size();
         at += static_cast<std::size_t>(windows)) {
      const auto from =
          begins[static_cast<std::size_t>(text)].begin() + static_cast<std::ptrdiff_t>(at);
      const std::set<std::int32_t> pass(from, from + windows);
      EXPECT_EQ(pass.size(), static_cast<std::size_t>(windows));
      EXPECT_EQ(*pass.rbegin() - *pass.begin(), 10 * (windows - 1));
    }
}

TEST_F(Mixtures, ABatchDependsOnItsPlaceAlone) {
  for (const Share share : {Share::all, Share::parts})
    for (const bool weighted : {false, true}) {
      const WindowLoaderOptions options{.batch = 3,
                                        .length = 8,
                                        .epoch = {.rank = 1, .world = 2, .share = share, .seed = 9},
                                        .weighted = weighted};
      const auto some = texts({300, 900, 120}, {0.5, 0.3, 0.2});
      WindowLoader whole(some, {}, options);
      std::vector<std::vector<Ids>> epochs;
      for (int epoch = 0; epoch < 4; ++epoch) {
        epochs.emplace_back();
        for (WindowBatch b = whole.next(); b.inputs.defined(); b = whole.next())
          epochs.back().push_back(ids_in(b.inputs));
      }
      EXPECT_NE(epochs[0], epochs[1]);
      for (const auto& [epoch, step] : {std::pair{3, 5}, {0, 3}, {2, 0}}) {
        WindowLoader other(some, {}, options);
        other.seek(epoch, step);
        EXPECT_EQ(ids_in(other.next().inputs),
                  epochs[static_cast<std::size_t>(epoch)][static_cast<std::size_t>(step)]);
      }
    }
}

TEST_F(Mixtures, WorkersDifferAndShareOneOrderWithoutRepeats) {
  const auto some = texts({300, 900}, {1, 1});
  const auto first = [&](int rank, Share share) {
    WindowLoader loader(some, {},
                        {.batch = 70,
                         .length = 8,
                         .epoch = {.rank = rank, .world = 2, .share = share},
                         .weighted = true});
    return ids_in(loader.next().inputs);
  };
  EXPECT_NE(first(0, Share::all), first(1, Share::all));
  // of the second text no window comes twice in an epoch: 73 of 110
  std::map<std::int32_t, int> seen;
  for (const int rank : {0, 1})
    for (const std::int32_t id : first(rank, Share::parts))
      if (id >= 10'000) ++seen[id];
  EXPECT_GT(seen.size(), 400u);
  for (const auto& [id, times] : seen) EXPECT_EQ(times, 1) << id;
}

TEST_F(Mixtures, WrongOnesAreNamed) {
  const auto error = [&](std::vector<WindowSource> some, WindowLoaderOptions options) {
    return error_of<Error>([&] { WindowLoader(std::move(some), {}, options); });
  };
  EXPECT_THAT(error({}, {}), HasSubstr("0 texts"));
  EXPECT_THAT(error(texts({300, 9}), {.length = 8}),
              HasSubstr("text 2 of 2 has 9 ids, not enough for a window of 8"));
  for (const double weight : {0.0, -1.0, std::nan("")})
    EXPECT_THAT(error(texts({300, 300}, {1, weight}), {.length = 8, .weighted = true}),
                HasSubstr("weights are above 0"));
  EXPECT_THAT(error(texts({300, 300}, {1, 1e-9}), {.length = 8, .weighted = true}),
              HasSubstr("text 2 of weight 1e-09 has no window"));
  EXPECT_THAT(error(texts({300}), {.documents = Documents::separate}),
              HasSubstr("documents cannot be kept apart"));
  EXPECT_THAT(error_of<ConfigError>([] { parse_documents("apart"); }), HasSubstr("\"apart\""));
}

// --- documents

TEST_F(TextLoaders, DocumentsThatAreKeptApartBeginAnewAndDropTheLabelsBetweenThem) {
  const Ids ids{5, 6, 50, 7, 50, 50, 8, 9, 10, 11, 50, 12};
  const auto text = stored("documents", ids);
  WindowLoader loader(
      text, {.end = 50},
      {.batch = 2, .length = 6, .epoch = in_order(0, 1), .documents = Documents::separate});
  const WindowBatch batch = loader.next();
  EXPECT_THAT(ids_in(batch.inputs), ElementsAre(5, 6, 50, 7, 50, 50, 8, 9, 10, 11, 50, 12));
  EXPECT_THAT(ids_in(batch.labels), ElementsAre(6, 50, -1, 50, -1, -1, 9, 10, 11, 50, -1, -1));
  EXPECT_THAT(ids_in(batch.begins), ElementsAre(0, 0, 0, 3, 3, 5, 0, 0, 0, 0, 0, 5));
  EXPECT_EQ(batch.labelled, 7);
  WindowLoader joined(text, {.end = 50}, {.batch = 2, .length = 6, .epoch = in_order(0, 1)});
  const WindowBatch all = joined.next();
  EXPECT_FALSE(all.begins.defined());
  EXPECT_EQ(all.labelled, 11);
}

TEST_F(TextLoaders, ATextThatIsTooShortIsNamed) {
  EXPECT_THAT(error_of([&] { WindowLoader(numbers(20), {}, {.batch = 2, .length = 64}); }),
              HasSubstr("20 ids do not fill one batch of 2 windows of 64"));
  EXPECT_THAT(error_of<ConfigError>([&] { WindowLoader(numbers(20), {}, {.batch = 0}); }),
              HasSubstr("batch 0"));
  EXPECT_THAT(error_of<ConfigError>([&] { WindowLoader(numbers(20), {}, {.epoch = {.rank = 1}}); }),
              HasSubstr("rank 1 of 1"));
}

// Pairs whose ids are 100 + pair (source) and 20000 + pair (target).
constexpr Marks kMarks{.end = 2, .begin = 1, .pad = 0};
class Pairs : public TextLoaders {
 protected:
  TextPart pairs(int n) {
    Ids source, target;
    for (int i = 0; i < n; ++i) {
      source.insert(source.end(), static_cast<std::size_t>(1 + i * 5 % 11), 100 + i);
      source.push_back(2);
      target.insert(target.end(), static_cast<std::size_t>(i * 3 % 7), 20'000 + i);
      target.push_back(2);
    }
    TextPart part;
    part.tokens = stored("source", source, 100);
    part.targets = stored("target", target, 100);
    part.items = n;
    return part;
  }
};

TEST_F(Pairs, ABatchIsPaddedAndMarked) {
  PairLoader loader(pairs(60), kMarks, {.tokens = 60, .multiple = 4});
  EXPECT_EQ(loader.size(), 60);
  i64 labelled = 0;
  std::set<i64> seen;
  PairBatch::Room room, said;
  for (PairBatch b = loader.next(); b.source.defined(); b = loader.next()) {
    const i64 n = b.source.shape(0), s = b.source.shape(1), t = b.inputs.shape(1);
    room = {std::max(room.rows, n), std::max(room.source, n * s), std::max(room.target, n * t)};
    said = b.room;
    EXPECT_EQ(s % 4, 0);
    EXPECT_LE(n * (s + t), 120);
    ASSERT_EQ(b.labels.shape(), b.inputs.shape());
    for (i64 row = 0; row < n; ++row) {
      const i64 pair = b.pairs[static_cast<std::size_t>(row)];
      EXPECT_TRUE(seen.insert(pair).second);
      Ids source(static_cast<std::size_t>(1 + pair * 5 % 11), static_cast<int>(100 + pair));
      source.push_back(2);
      EXPECT_EQ(b.source_lengths.as<std::int32_t>()[row], static_cast<int>(source.size()));
      source.resize(static_cast<std::size_t>(s), 0);
      EXPECT_EQ(ids_in(b.source.slice(row, row + 1)), source);
      const Ids target(static_cast<std::size_t>(pair * 3 % 7), static_cast<int>(20'000 + pair));
      EXPECT_EQ(b.target_lengths.as<std::int32_t>()[row], static_cast<int>(target.size()) + 1);
      Ids inputs{1}, labels = target;
      inputs.insert(inputs.end(), target.begin(), target.end());
      inputs.resize(static_cast<std::size_t>(t), 0);
      labels.push_back(2);
      labels.resize(static_cast<std::size_t>(t), kNoLabel);
      EXPECT_EQ(ids_in(b.inputs.slice(row, row + 1)), inputs);
      EXPECT_EQ(ids_in(b.labels.slice(row, row + 1)), labels);
    }
    labelled += b.labelled;
  }
  EXPECT_EQ(seen.size(), 60u);
  EXPECT_EQ(labelled, loader.labelled());
  EXPECT_EQ(said.rows, room.rows);
  EXPECT_EQ(said.source, room.source);
  EXPECT_EQ(said.target, room.target);
}

// A model with as many positions reads every batch.
TEST_F(Pairs, RowsAreNotFilledBeyondTheLimit) {
  PairLoader loader(pairs(60), kMarks, {.tokens = 60, .max_length = 13, .multiple = 8});
  i64 longest = 0;
  for (PairBatch b = loader.next(); b.source.defined(); b = loader.next())
    longest = std::max({longest, b.source.shape(1), b.inputs.shape(1)});
  EXPECT_EQ(longest, 13);
}

TEST_F(Pairs, ABatchDependsOnItsPlaceAlone) {
  const TextPart part = pairs(80);
  const PairLoaderOptions options{.tokens = 50, .epoch = {.rank = 1, .world = 2, .seed = 3}};
  PairLoader whole(part, kMarks, options);
  std::vector<std::vector<std::vector<i64>>> epochs;
  std::vector<std::multiset<std::pair<i64, i64>>> shapes;
  for (int epoch = 0; epoch < 3; ++epoch) {
    epochs.emplace_back();
    shapes.emplace_back();
    for (PairBatch b = whole.next(); b.source.defined(); b = whole.next()) {
      epochs.back().push_back(b.pairs);
      shapes.back().insert({b.source.numel(), b.inputs.numel()});
    }
    EXPECT_EQ(static_cast<i64>(epochs.back().size()), whole.steps());
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_EQ(shapes[0], shapes[1]);  // so a step's graph or plan can be used again
  PairLoader other(part, kMarks, options);
  for (const auto& [epoch, step] : {std::pair{2, 5}, {0, 3}, {1, 0}}) {
    other.seek(epoch, step);
    EXPECT_EQ(other.next().pairs,
              epochs[static_cast<std::size_t>(epoch)][static_cast<std::size_t>(step)]);
  }
  EXPECT_THAT(error_of<ConfigError>([&] { other.seek(-1); }), HasSubstr("seek to epoch -1"));
}

TEST_F(Pairs, WorkersReadAllOrDisjointBatches) {
  const TextPart part = pairs(80);
  for (const bool shard : {false, true})
    for (const bool drop_last : {false, true}) {
      std::map<i64, int> seen;
      std::set<i64> steps;
      for (int rank = 0; rank < 3; ++rank) {
        PairLoader loader(part, kMarks,
                          {.tokens = 50,
                           .epoch = {.rank = rank,
                                     .world = 3,
                                     .share = shard ? Share::parts : Share::all,
                                     .drop_last = drop_last}});
        steps.insert(loader.steps());
        for (PairBatch b = loader.next(); b.source.defined(); b = loader.next())
          for (const i64 pair : b.pairs) ++seen[pair];
      }
      if (drop_last || !shard) EXPECT_EQ(steps.size(), 1u);
      if (!drop_last || !shard) EXPECT_EQ(seen.size(), 80u);
      for (const auto& [pair, times] : seen) EXPECT_EQ(times, shard ? 1 : 3) << pair;
    }
}

TEST_F(Pairs, LimitsAndDamageAreNamed) {
  const TextPart part = pairs(30);
  const auto error = [&](const TextPart& of, const Marks& marks, const PairLoaderOptions& options) {
    return error_of([&] { PairLoader(of, marks, options); });
  };
  EXPECT_THAT(error(part, kMarks, {.max_length = 10}),
              HasSubstr("ids with their marks; the limit is 10. Leave long pairs out"));
  EXPECT_THAT(error(part, kMarks, {.tokens = 5}), HasSubstr("more than a batch of 5"));
  EXPECT_THAT(error_of<ConfigError>([&] { PairLoader(part, {.end = 2}, {}); }),
              HasSubstr("lacks one of the marks <s>, </s> and <pad>"));
  TextPart odd = part;
  odd.targets = stored("odd", {5, 2, 5, 2});
  EXPECT_THAT(error(odd, kMarks, {}), HasSubstr("30 source sentences and 2 targets"));
  odd.targets = stored("cut", {5, 2, 5});
  EXPECT_THAT(error(odd, kMarks, {}), HasSubstr("cut-00000.bin: id 2 begins a sentence without"));
  odd.targets = nullptr;
  EXPECT_THAT(error_of<ConfigError>([&] { PairLoader(odd, kMarks, {}); }),
              HasSubstr("no pairs of sentences"));
  PairLoader rows(part, kMarks, {.rows = 4});
  EXPECT_LE(rows.next().source.shape(0), 4);
}

TEST_F(Pairs, AndWindowsAreDealtOutAsPicturesAre) {
  const WindowLoaderOptions options{
      .batch = 2, .length = 5, .epoch = {.share = Share::parts, .seed = 4}};
  const auto tokens = numbers(103);
  WindowLoader whole(tokens, {}, options);
  const i64 steps = whole.steps();
  std::vector<std::vector<Ids>> epochs(8);
  for (auto& batches : epochs)
    for (WindowBatch b = whole.next(); b.inputs.defined(); b = whole.next())
      batches.push_back(ids_in(b.inputs));
  const TextPart part = pairs(80);
  const PairLoaderOptions of_pairs{.tokens = 50, .epoch = {.share = Share::parts, .seed = 3}};
  PairLoader all_pairs(part, kMarks, of_pairs);
  std::vector<std::vector<Ids>> sentences(8);
  for (auto& batches : sentences)
    for (PairBatch b = all_pairs.next(); b.source.defined(); b = all_pairs.next())
      batches.push_back(ids_in(b.source));
  for (int w = 0; w < 3; ++w) {
    const Deal deal({.next = {0, steps - 3}, .again = {{0, 1}}}, steps, 5, w, 3),
        deal_of_pairs({}, all_pairs.steps(), 4, w, 3);
    WindowLoader windows(tokens, {}, options);
    windows.deal(deal);
    PairLoader two(part, kMarks, of_pairs);
    two.deal(deal_of_pairs);
    for (i64 j = 0, epoch = deal.batch(0).epoch; j < 8; ++j) {
      const Position at = deal.batch(j);
      if (std::exchange(epoch, at.epoch) != at.epoch) EXPECT_FALSE(windows.next().inputs.defined());
      EXPECT_EQ(
          ids_in(windows.next().inputs),
          epochs.at(static_cast<std::size_t>(at.epoch)).at(static_cast<std::size_t>(at.step)));
    }
    for (i64 j = 0, epoch = 0; j < 8; ++j) {
      const Position at = deal_of_pairs.batch(j);
      if (std::exchange(epoch, at.epoch) != at.epoch) EXPECT_FALSE(two.next().source.defined());
      EXPECT_EQ(
          ids_in(two.next().source),
          sentences.at(static_cast<std::size_t>(at.epoch)).at(static_cast<std::size_t>(at.step)));
    }
  }
}

}  // namespace
}  // namespace gossamer::data
