// See translation_task.h.
#include "gossamer/apps/train/translation_task.h"

#include <cmath>

#include <fmt/format.h>

#include "gossamer/apps/report/progress.h"
#include "gossamer/apps/train/fitting_batch.h"
#include "gossamer/apps/train/language_model.h"
#include "gossamer/apps/train/text_task.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/data/mix.h"
#include "gossamer/data/text/pair_loader.h"
#include "gossamer/models/transformer.h"
#include "gossamer/models/transformer_file.h"

namespace gossamer::apps {
namespace {

// Lengths that batches are padded to are multiples of it, so that there are fewer shapes.
constexpr int kMultiple = 8;

data::TextSet open_pairs(const Config& c) {
  check<ConfigError>(c.data.train.size() == 1, "data.train has ", c.data.train.size(),
                     " paths; pairs are one folder, made by `gossamer data tokenize --target`");
  data::TextSet set = data::open_text(c.data.train[0]);
  check<DataError>(set.pairs && !set.train.empty() && set.tokenizer, set.path,
                   ": has no pairs of sentences to train on; `gossamer data tokenize SOURCE "
                   "--target TARGET` makes them");
  return set;
}

data::TextPart validation_pairs(const Config& c, const data::TextSet& train) {
  const std::string& name = c.data.val[0];
  if (name == "none") return {};
  if (name == "auto") {
    check<ConfigError>(!train.val.empty(), "data.train = ", train.path,
                       " comes without validation pairs. Give them to `gossamer data tokenize` "
                       "(--val, --val-target), name another folder (data.val=DIR), or do without "
                       "(data.val=none)");
    return train.val;
  }
  const data::TextSet other = data::open_text(name);
  check<DataError>(other.pairs && other.tokenizer, name, ": holds no pairs of sentences");
  check<DataError>(other.tokenizer->same_ids(*train.tokenizer), name,
                   ": was made with another tokenizer than ", train.path,
                   "; tokenize it with --tokenizer ", train.path);
  return other.val.empty() ? other.train : other.val;
}

// Which ids these are: their numbers, and the tokenizer that made them.
std::uint64_t identity(const data::TextPart& part, const data::Tokenizer& tokenizer) {
  return data::mix(data::mix(static_cast<std::uint64_t>(part.tokens->size()),
                             static_cast<std::uint64_t>(part.targets->size())),
                   tokenizer.hash());
}

nn::StepBatch step_batch(const data::PairBatch& b) {
  return {{b.source, b.source_lengths, b.inputs, b.labels},
          {b.room.source, b.room.rows, b.room.target, b.room.target},
          Shape{b.source.shape(0), b.source.shape(1), b.inputs.shape(1)}};
}

// And back.
struct PairTensors {
  Tensor source, lengths, inputs, labels;
};
PairTensors pair_tensors(const nn::StepBatch& b) {
  const auto part = [&](std::size_t i, const Shape& shape) {
    return b.tensors[i].reshape({-1}).slice(0, shape.numel()).reshape(shape);
  };
  const i64 rows = b.shape[0];
  const Shape target{rows, b.shape[2]};
  return {part(0, {rows, b.shape[1]}), part(1, {rows}), part(2, target), part(3, target)};
}

data::PairLoaderOptions loader_options(const Config& c, const dist::LaunchInfo& place,
                                       i64 positions, Device device) {
  const std::string& shard = c.data.shard;
  check<ConfigError>(!shard.starts_with("dirichlet"), "data.shard = ", shard,
                     ": pairs have no classes; use true, false or auto");
  return {.tokens = c.train.batch,
          .max_length = positions,
          .multiple = kMultiple,
          .epoch = epoch_options(c, place),
          .pinned = !device.is_cpu()};
}

std::unique_ptr<data::PairLoader> validation_loader(const data::TextPart& pairs,
                                                    const data::Marks& marks, i64 positions,
                                                    const PairEvaluation& how, Device device,
                                                    const TaskMetrics::Share& share) {
  return std::make_unique<data::PairLoader>(
      pairs, marks,
      data::PairLoaderOptions{// Any pair that the model can read fits in.
                              .tokens = std::max(how.tokens, positions + kMultiple),
                              .rows = how.rows,
                              .max_length = positions,
                              .multiple = kMultiple,
                              .epoch = data::in_order(share.part, share.parts),
                              .pinned = !device.is_cpu()});
}

// Adds the model's translations of a batch.
void count_translations(models::Translator& translator, const data::Tokenizer& tokenizer,
                        const data::PairBatch& pairs, i64 extra, TranslationCounts& counts) {
  const auto row_of = [](const Tensor& ids, i64 row, i64 length) {
    return std::span(ids.as<std::int32_t>() + row * ids.shape(1), static_cast<std::size_t>(length));
  };
  const i64 rows = pairs.source.shape(0);
  std::vector<Sentence> sources;
  for (i64 row = 0; row < rows; ++row) {
    const auto ids = row_of(pairs.source, row, pairs.source_lengths.as<std::int32_t>()[row]);
    sources.emplace_back(ids.begin(), ids.end());
  }
  const auto found = translate_sentences(translator, sources, extra);
  for (i64 row = 0; row < rows; ++row) {
    const std::string reference =
        sentence_text(tokenizer, row_of(pairs.labels, row, pairs.labels.shape(1)));
    const std::string translation = sentence_text(tokenizer, found[static_cast<std::size_t>(row)]);
    counts.bleu.add(translation, {&reference, 1});
    counts.chrf->add(translation, {&reference, 1});
  }
}

std::vector<Counts> evaluate_in_batches(std::span<nn::Module* const> nets,
                                        const data::TextPart& pairs,
                                        const data::Tokenizer& tokenizer, const PairEvaluation& how,
                                        Device device, const TaskMetrics::Share& share) {
  const NoGrad no_grad;
  const auto& options = static_cast<models::Transformer*>(nets[0])->options();
  const auto loader =
      validation_loader(pairs, tokenizer.marks(), how.length > 0 ? how.length : options.positions,
                        how, device, share);
  nn::StepInputs inputs(device);
  std::vector<Counts> all(nets.size(), Counts{.batch = how.rows});
  std::vector<TranslationCounts> counted(nets.size());
  std::string no_graph;
  std::vector<models::Translator> translators;
  for (nn::Module* net : nets)
    translators.push_back(translator_of(static_cast<models::Transformer&>(*net), tokenizer.marks(),
                                        how.search,
                                        [&](const std::string& why) { no_graph = why; }));
  i64 pairs_seen = 0;
  for (i64 step = 0; share.max_batches == 0 || step < share.max_batches; ++step) {
    const data::PairBatch batch = loader->next();
    if (!batch.source.defined()) break;
    const PairTensors in = pair_tensors(inputs.put(step_batch(batch), {}).batch);
    for (std::size_t i = 0; i < nets.size(); ++i) {
      auto& net = static_cast<models::Transformer&>(*nets[i]);
      const double loss =
          static_cast<double>(net.loss(in.source, in.lengths, in.inputs, in.labels).item());
      all[i].items += static_cast<double>(batch.labelled);
      all[i].loss += static_cast<double>(batch.labelled) * loss;
      // A model that is no number translates nothing; the loss says why.
      if (std::isfinite(loss))
        count_translations(translators[i], tokenizer, batch, how.search.extra, counted[i]);
    }
    inputs.step_ends();
    if (share.progress) share.progress(pairs_seen += batch.source.shape(0));
  }
  for (std::size_t i = 0; i < nets.size(); ++i)
    all[i].more = counted[i].numbers(), all[i].no_graph = no_graph;
  return all;
}

}  // namespace

std::vector<double> TranslationCounts::numbers() const {
  std::vector<double> out = bleu.numbers();
  if (!chrf) return out;
  const std::vector<double> more = chrf->numbers();
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

TranslationCounts TranslationCounts::of(const std::vector<double>& numbers) {
  const std::size_t of_bleu = data::BleuCounts().numbers().size();
  const std::span all(numbers);
  TranslationCounts out{.bleu = data::BleuCounts::of(all.first(std::min(of_bleu, all.size()))),
                        .chrf = {}};
  if (all.size() > of_bleu) out.chrf = data::ChrfCounts::of(all.subspan(of_bleu));
  return out;
}

std::vector<Counts> evaluate_pairs(std::span<nn::Module* const> nets, const data::TextPart& pairs,
                                   const data::Tokenizer& tokenizer, const PairEvaluation& how,
                                   Device device, const TaskMetrics::Share& share) {
  const EvalMode eval(nets);
  return with_fitting_batch(how.rows, device, [&](i64 rows) {
    PairEvaluation fitting = how;
    fitting.rows = rows;
    fitting.tokens = how.tokens * rows / how.rows;
    return evaluate_in_batches(nets, pairs, tokenizer, fitting, device, share);
  });
}

// --- the data

namespace {

class Data final : public TextData<data::PairLoader> {
 public:
  Data(const Config& config, const dist::LaunchInfo& place, Device device)
      : TextData(config, place, open_pairs(config), validation_pairs),
        model(translation_options(config, set.vocabulary)) {
    check_tokenizer_of_init(config, set, notes_);
    loader_ = std::make_unique<data::PairLoader>(
        set.train, set.marks, loader_options(config, place, model.positions, device));
    // Pairs that are too long are found now, not at the first evaluation.
    if (validates())
      validation_loader(val, set.marks, model.positions, {.tokens = config.train.batch}, device,
                        {});
  }

  i64 output_count() const override { return model.vocabulary; }
  double epoch() const override {
    return static_cast<double>(loader_->batches() * config_.train.batch);
  }
  std::string val_hash() const override {
    return fmt::format("{:016x}", identity(val, *set.tokenizer));
  }
  std::string description() const override {
    return fmt::format(
        "{}: {} pairs to train, {} to validate, {} ids, {} batches, {:.0f} % full", set.path,
        loader_->size(), validates() ? std::to_string(val.items) : "none", model.vocabulary,
        loader_->batches(),
        50 * static_cast<double>(set.train.tokens->size() + loader_->labelled()) / epoch());
  }
  void add_facts(JsonObject& facts) const override {
    facts.add("vocabulary", model.vocabulary)
        .add("train_pairs", loader_->size())
        .add("source_tokens", set.train.tokens->size())
        .add("target_tokens", loader_->labelled());
    if (validates()) facts.add("val_pairs", val.items).add("val_hash", val_hash());
  }
  std::vector<std::string> open_loader() override { return {}; }
  // The number of ids of a batch is part of what the pairs are: it decides which are a batch.
  data::SampleOrder order() const override {
    data::SampleOrder order =
        data::sample_order(config_.train.batch, epoch_options(config_, place_),
                           data::mix(identity(set.train, *set.tokenizer),
                                     static_cast<std::uint64_t>(config_.train.batch)));
    order.tokenizer = set.tokenizer->hash();
    return order;
  }

  const models::TransformerOptions model;

 private:
  nn::DrawnBatch draw() override {
    const data::PairBatch batch = loader_->next();
    return batch.source.defined() ? nn::DrawnBatch{step_batch(batch), {}} : nn::DrawnBatch();
  }
};

// --- the model

class Model final : public TextModel<models::Transformer, Data> {
 public:
  using TextModel::TextModel;

  std::map<std::string, std::string> header() const override {
    return models::metadata_of(data_.model);
  }
  Tensor loss(nn::Module& net, const nn::StepBatch& b, const Tensor&) const override {
    const PairTensors in = pair_tensors(b);
    return static_cast<models::Transformer&>(net).loss(
        in.source, in.lengths, in.inputs, in.labels,
        static_cast<float>(config_.optim.label_smoothing));
  }
  void run(nn::Module& net, const nn::StepBatch& b) const override {
    auto& model = static_cast<models::Transformer&>(net);
    const PairTensors in = pair_tensors(b);
    const Tensor lengths = in.lengths.to(device_);
    model.decode(model.encode(in.source.to(device_), lengths), lengths, in.inputs.to(device_));
  }

 private:
  std::unique_ptr<models::Transformer> make_net() const override {
    return std::make_unique<models::Transformer>(data_.model);
  }
};

// --- evaluation

class Metrics final : public TaskMetrics {
 public:
  Metrics(const Config& config, const Data& data, Device device)
      : config_(config), data_(data), device_(device) {}

  // Translates greedily, for the BLEU.
  std::vector<Counts> evaluate(std::span<nn::Module* const> nets, const Share& share,
                               bool) override {
    return evaluate_pairs(nets, data_.val, *data_.set.tokenizer,
                          {.tokens = config_.train.batch, .rows = config_.eval.batch}, device_,
                          share);
  }
  Numbers numbers(const Score& s) const override {
    Numbers out{{"loss", s.loss}, {"perplexity", std::exp(s.loss)}};
    if (s.more.empty()) return out;
    const TranslationCounts counted = TranslationCounts::of(s.more);
    out.emplace_back("bleu", counted.bleu.bleu().score);
    if (counted.chrf) out.emplace_back("chrf", counted.chrf->score());
    return out;
  }
  std::string sentence(const Score& s) const override {
    std::string out =
        fmt::format("loss {:.4f}, perplexity {}", s.loss, perplexity_text(std::exp(s.loss)));
    if (s.more.empty()) return out;
    const TranslationCounts counted = TranslationCounts::of(s.more);
    out += fmt::format(", BLEU {:.2f}", counted.bleu.bleu().score);
    return counted.chrf ? out + fmt::format(", chrF2 {:.2f}", counted.chrf->score()) : out;
  }

 private:
  const Config& config_;
  const Data& data_;
  const Device device_;
};

}  // namespace

Task translation_task(const Config& config, const dist::LaunchInfo& place, Device device) {
  auto data = std::make_unique<Data>(config, place, device);
  auto model = std::make_unique<Model>(config, *data, device);
  auto metrics = std::make_unique<Metrics>(config, *data, device);
  return {std::move(data), std::move(model), std::move(metrics)};
}

}  // namespace gossamer::apps
