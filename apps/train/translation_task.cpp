// See translation_task.h.
#include "gossamer/apps/train/translation_task.h"

#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/language_task.h"
#include "gossamer/apps/train/model_file.h"
#include "gossamer/apps/train/translation_model.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/safetensors.h"
#include "gossamer/data/mix.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/init.h"

namespace gossamer::apps {
namespace {

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
  if (c.data.val[0] == "none") return {};
  const data::TextSet set = c.data.val[0] == "auto" ? train : data::open_text(c.data.val[0]);
  check<DataError>(set.pairs && set.tokenizer && set.tokenizer->hash() == train.tokenizer->hash(),
                   set.path, ": has no pairs made with the tokenizer of ", train.path);
  check<ConfigError>(c.data.val[0] != "auto" || !set.val.empty(), "data.train = ", train.path,
                     " comes without validation pairs. Give them to `gossamer data tokenize` "
                     "(--val, --val-target), name another folder (data.val=DIR), or do without "
                     "(data.val=none)");
  return set.val.empty() ? set.train : set.val;
}

std::uint64_t identity(const data::TextPart& part, const data::Tokenizer& tokenizer) {
  return data::mix(data::mix(static_cast<std::uint64_t>(part.tokens->size()),
                             static_cast<std::uint64_t>(part.targets->size())),
                   tokenizer.hash());
}

StepBatch batch_of(const data::PairBatch& b) {
  return {{b.source, b.source_lengths, b.inputs, b.labels},
          {},
          Shape{b.source.shape(0), b.source.shape(1), b.inputs.shape(1)}};
}

std::vector<std::int32_t> text_ids(const std::int32_t* ids, i64 count, const data::Marks& marks) {
  std::vector<std::int32_t> out;
  for (i64 i = 0; i < count && ids[i] != marks.end && ids[i] >= 0; ++i)
    if (ids[i] != marks.begin && ids[i] != marks.pad) out.push_back(ids[i]);
  return out;
}

}  // namespace

TranslationTask::TranslationTask(const Config& config, const dist::LaunchInfo& place, Device device)
    : Task(compute_type(config.train.dtype)),
      config_(config),
      place_(place),
      device_(device),
      set_(open_pairs(config)),
      val_(validation_pairs(config, set_)),
      model_(translation_options(config, set_.vocabulary)) {
  data::PairLoaderOptions all = loader_options();
  all.rank = 0, all.world = 1;
  batches_ = data::PairLoader(set_.train, set_.marks, all).steps();
}

double TranslationTask::epoch() const {
  return static_cast<double>(batches_ * config_.train.batch);
}

std::string TranslationTask::val_hash() const {
  return fmt::format("{:016x}", identity(val_, *set_.tokenizer));
}

std::string TranslationTask::description() const {
  return fmt::format("{}: {} pairs to train, {} to validate, {} ids, batches of {}", set_.path,
                     set_.train.items, validates() ? std::to_string(val_.items) : "none",
                     model_.vocabulary, config_.train.batch);
}

void TranslationTask::add_facts(JsonObject& facts) const {
  facts.add("vocabulary", model_.vocabulary).add("train_pairs", set_.train.items);
  if (validates()) facts.add("val_pairs", val_.items).add("val_hash", val_hash());
}

std::unique_ptr<nn::Module> TranslationTask::make_model(bool from_start,
                                                        std::vector<std::string>& notes) const {
  nn::seed_initialisation(static_cast<std::uint64_t>(config_.train.seed));
  auto net = std::make_unique<models::Transformer>(model_);
  if (!config_.model.init.empty() && from_start) {
    nn::load(initial_weights(config_), *net);
    notes.push_back("init     " + config_.model.init);
  }
  freeze_and_check(config_, *net, notes);
  return net;
}

void TranslationTask::save_model(const std::filesystem::path& path, nn::Module& net,
                                 const FlatParams& params,
                                 const std::map<std::string, std::string>& more) const {
  auto metadata = translation_metadata(model_);
  metadata.insert(more.begin(), more.end());
  nn::save(path, net, params, params.values(), metadata);
}

void TranslationTask::save_beside_model(const std::filesystem::path& folder) const {
  for (const data::Tokenizer::StoredFile& file : set_.tokenizer->files())
    write_file(folder / file.name, file.bytes);
}

data::PairLoaderOptions TranslationTask::loader_options() const {
  check<ConfigError>(
      config_.data.shard != "documents" && !config_.data.shard.starts_with("dirichlet"),
      "data.shard = ", config_.data.shard,
      ": pairs can be divided (true) or drawn by each worker from all (false)");
  return {.tokens = config_.train.batch,
          .max_length = model_.positions,
          .multiple = 8,
          .rank = place_.rank,
          .world = place_.size,
          .shard = shares_epochs(config_),
          .seed = static_cast<std::uint64_t>(config_.train.seed),
          .pinned = !device_.is_cpu()};
}

std::vector<std::string> TranslationTask::open_loader() {
  loader_ = std::make_unique<data::PairLoader>(set_.train, set_.marks, loader_options());
  return {};
}

ImageOrder TranslationTask::order() const {
  return {.batch = config_.train.batch,
          .seed = static_cast<std::uint64_t>(config_.train.seed),
          .shared = loader_options().shard,
          .set = identity(set_.train, *set_.tokenizer)};
}

DrawnBatch TranslationTask::next(const Position&, double) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const data::PairBatch batch = loader_->next();
  wait_s_ += std::chrono::duration<double>(Clock::now() - began).count();
  return batch.source.defined() ? DrawnBatch{batch_of(batch), {}} : DrawnBatch();
}

Tensor TranslationTask::loss(nn::Module& net, const StepBatch& b, const Tensor&) const {
  return static_cast<models::Transformer&>(net).loss(
      b.tensors[0], b.tensors[1], b.tensors[2], b.tensors[3],
      static_cast<float>(config_.optim.label_smoothing));
}

void TranslationTask::run(nn::Module& net, const StepBatch& b) const {
  auto& model = static_cast<models::Transformer&>(net);
  const Tensor lengths = b.tensors[1].to(device_);
  model.decode(model.encode(b.tensors[0].to(device_), lengths), lengths, b.tensors[2].to(device_));
}

std::vector<Counts> TranslationTask::evaluate(std::span<nn::Module* const> nets, const Share& share,
                                              bool final) {
  const NoGrad no_grad;
  data::PairLoader loader(val_, set_.marks,
                          {.tokens = config_.train.batch,
                           .max_length = model_.positions,
                           .multiple = 8,
                           .rank = share.part,
                           .world = share.parts,
                           .shard = true,
                           .shuffle = false,
                           .drop_last = false,
                           .pinned = !device_.is_cpu()});
  if (final) bleu_.emplace();
  std::vector<bool> was_training;
  for (nn::Module* net : nets) {
    was_training.push_back(net->training());
    net->eval();
  }
  StepInputs inputs(device_);
  std::vector<Counts> all(nets.size(), Counts{.batch = config_.eval.batch});
  for (i64 step = 0; share.max_batches == 0 || step < share.max_batches; ++step) {
    const data::PairBatch pairs = loader.next();
    if (!pairs.source.defined()) break;
    const StepBatch in = inputs.put(batch_of(pairs), {}).batch;
    for (std::size_t i = 0; i < nets.size(); ++i) {
      const Tensor loss = static_cast<models::Transformer*>(nets[i])->loss(
          in.tensors[0], in.tensors[1], in.tensors[2], in.tensors[3]);
      all[i].images += static_cast<double>(pairs.labelled);
      all[i].loss += static_cast<double>(pairs.labelled) * static_cast<double>(loss.item());
    }
    inputs.step_ends();
    if (final && device_.is_cpu()) translate(static_cast<models::Transformer&>(*nets[0]), pairs);
  }
  for (std::size_t i = 0; i < nets.size(); ++i) nets[i]->train(was_training[i]);
  return all;
}

void TranslationTask::translate(models::Transformer& net, const data::PairBatch& pairs) {
  const i64 rows = pairs.source.shape(0), width = pairs.source.shape(1),
            length = pairs.labels.shape(1);
  std::vector<Sentence> sources;
  for (i64 row = 0; row < rows; ++row) {
    const auto* ids = pairs.source.as<std::int32_t>() + row * width;
    sources.emplace_back(ids, ids + pairs.source_lengths.as<std::int32_t>()[row]);
  }
  const auto found = translate_ids(net, set_.marks, sources, {.beam = 1});
  for (i64 row = 0; row < rows; ++row) {
    const Sentence& own = found[static_cast<std::size_t>(row)];
    std::string ours, wanted;
    set_.tokenizer->decode(text_ids(own.data(), static_cast<i64>(own.size()), set_.marks), ours);
    set_.tokenizer->decode(
        text_ids(pairs.labels.as<std::int32_t>() + row * length, length, set_.marks), wanted);
    bleu_->add(ours, wanted);
  }
}

std::vector<double> TranslationTask::details() const {
  return bleu_ ? bleu_->numbers() : std::vector<double>();
}

void TranslationTask::set_details(const std::vector<double>& sum) {
  bleu_ = data::BleuCounts::of(sum);
}

Task::Numbers TranslationTask::numbers(const Score& s) const {
  Numbers out{{"loss", s.loss}, {"perplexity", std::exp(s.loss)}};
  if (bleu_ && !s.ema) out.emplace_back("bleu", bleu_->bleu().score);
  return out;
}

std::string TranslationTask::sentence(const Score& s) const {
  return fmt::format("loss {:.4f}, perplexity {:.2f}{}", s.loss, std::exp(s.loss),
                     bleu_ && !s.ema ? fmt::format(", BLEU {:.2f}", bleu_->bleu().score) : "");
}

}  // namespace gossamer::apps
