// See language_task.h.
#include "gossamer/apps/train/language_task.h"

#include <cmath>

#include <fmt/format.h>

#include "gossamer/apps/report/progress.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/language_model.h"
#include "gossamer/apps/train/model_file.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/safetensors.h"
#include "gossamer/data/mix.h"
#include "gossamer/models/gpt2_file.h"
#include "gossamer/nn/init.h"

namespace gossamer::apps {
namespace {

data::TextSet open_training(const Config& c) {
  check<ConfigError>(c.data.train.size() == 1, "data.train has ", c.data.train.size(),
                     " paths; text is one folder, made by `gossamer data tokenize`");
  data::TextSet set = data::open_text(c.data.train[0], c.model.classes.value);
  check<DataError>(!set.pairs, set.path, ": holds pairs of sentences, for translation");
  check<DataError>(!set.train.empty(), set.path, ": has no training text");
  check<DataError>(set.vocabulary > 0 || c.model.classes.value > 0, set.path,
                   ": does not say how many ids its vocabulary has; give model.classes=N");
  return set;
}

// Which ids these are: their number, and the tokenizer that made them.
std::uint64_t identity(const data::TokenFiles& tokens, const data::Tokenizer* tokenizer,
                       i64 length) {
  return data::mix(
      data::mix(static_cast<std::uint64_t>(tokens.size()), static_cast<std::uint64_t>(length)),
      tokenizer ? tokenizer->hash() : 0);
}

StepBatch batch_of(const data::WindowBatch& b) {
  return {{b.inputs, b.labels}, {}, b.inputs.shape()};
}

}  // namespace

TextScore text_score(double loss, double ids, double bytes) {
  return {loss, std::exp(loss), bytes > 0 ? loss * ids / bytes / std::log(2.0) : NAN};
}

void check_predicts(const std::string& path, const data::TextPart& text) {
  check<DataError>(text.tokens->size() > 1, path,
                   ": its validation text is a single id, so there is none to predict; give more "
                   "text to `gossamer data tokenize`, or use data.val=none to train");
}

data::TextPart validation_text(const Config& c, const data::TextSet& train) {
  const std::string& name = c.data.val[0];
  if (name == "none") return {};
  if (name == "auto") {
    check<ConfigError>(!train.val.empty(), "data.train = ", train.path,
                       " comes without validation text. Give it to `gossamer data tokenize` "
                       "(--val, --val-fraction), name another folder (data.val=DIR), or do "
                       "without (data.val=none)");
    check_predicts(train.path, train.val);
    return train.val;
  }
  const data::TextSet other =
      data::open_text(name, train.vocabulary > 0 ? train.vocabulary : c.model.classes.value);
  check<DataError>(!other.pairs, name, ": holds pairs of sentences, for translation");
  check<DataError>(
      !train.tokenizer || !other.tokenizer || train.tokenizer->same_ids(*other.tokenizer), name,
      ": was made with another tokenizer than ", train.path, "; tokenize it with --tokenizer ",
      train.path);
  const data::TextPart& text = other.val.empty() ? other.train : other.val;
  check_predicts(name, text);
  return text;
}

LanguageTask::LanguageTask(const Config& config, const dist::LaunchInfo& place, Device device)
    : TextTask(config, device, open_training(config), validation_text),
      place_(place),
      model_(language_options(config, set_.vocabulary, notes_)) {
  check_tokenizer_of_init(config, set_, notes_);
}

// --- the data

std::string LanguageTask::val_hash() const {
  return fmt::format("{:016x}", identity(*val_.tokens, set_.tokenizer.get(), config_.data.length));
}

std::string LanguageTask::description() const {
  return fmt::format("{}: {} tokens to train, {} to validate, {} ids, {} at once", set_.path,
                     set_.train.tokens->size(),
                     validates() ? std::to_string(val_.tokens->size()) : "none", model_.vocabulary,
                     config_.data.length);
}

void LanguageTask::add_facts(JsonObject& facts) const {
  facts.add("vocabulary", model_.vocabulary).add("train_tokens", set_.train.tokens->size());
  if (validates()) facts.add("val_tokens", val_.tokens->size()).add("val_hash", val_hash());
}

// --- the model

std::unique_ptr<nn::Module> LanguageTask::make_model(bool from_start,
                                                     std::vector<std::string>& notes) const {
  nn::seed_initialisation(static_cast<std::uint64_t>(config_.train.seed));
  auto net = std::make_unique<models::Gpt2>(model_);
  if (!config_.model.init.empty() && from_start) {
    const nn::Weights file = models::gpt2_weights(initial_weights(config_));
    models::load_gpt2(file, *net);
    notes.push_back(fmt::format("init     {}: {} tensors", file.file, file.tensors.size()));
  }
  freeze_and_check(config_, *net, notes);
  return net;
}

std::map<std::string, std::string> LanguageTask::model_header() const {
  return language_metadata(config_.model.name, model_);
}

void LanguageTask::save_model(const std::filesystem::path& path, nn::Module& net,
                              const FlatParams& params,
                              const std::map<std::string, std::string>& more) const {
  auto metadata = model_header();
  metadata.insert(more.begin(), more.end());
  models::save_gpt2(path, static_cast<const models::Gpt2&>(net), &params, metadata);
}

void LanguageTask::save_beside_model(const std::filesystem::path& folder) const {
  write_file(folder / "config.json", hugging_face_config(model_, set_.marks.end));
  if (!set_.tokenizer) return;
  for (const data::Tokenizer::StoredFile& file : set_.tokenizer->files())
    write_file(folder / file.name, file.bytes);
}

// --- training

data::WindowLoaderOptions LanguageTask::loader_options() const {
  const std::string& shard = config_.data.shard;
  check<ConfigError>(!shard.starts_with("dirichlet"), "data.shard = ", shard,
                     ": text has no classes; use documents, so that workers have unlike data");
  return {.batch = config_.train.batch,
          .length = config_.data.length,
          .rank = place_.rank,
          .world = place_.size,
          .share = shard == "documents"     ? data::Share::documents
                   : shares_epochs(config_) ? data::Share::windows
                                            : data::Share::all,
          .seed = static_cast<std::uint64_t>(config_.train.seed),
          .pinned = !device_.is_cpu()};
}

void LanguageTask::check_loader() const {
  data::WindowLoader(set_.train.tokens, set_.marks, loader_options());
}

std::vector<std::string> LanguageTask::open_loader() {
  loader_ = std::make_unique<data::WindowLoader>(set_.train.tokens, set_.marks, loader_options());
  return {};
}

SampleOrder LanguageTask::order() const {
  return {.batch = config_.train.batch,
          .seed = static_cast<std::uint64_t>(config_.train.seed),
          .shared = loader_options().share != data::Share::all,
          .set = identity(*set_.train.tokens, set_.tokenizer.get(), config_.data.length),
          .tokenizer = set_.tokenizer ? std::optional(set_.tokenizer->hash()) : std::nullopt};
}

DrawnBatch LanguageTask::draw() {
  const data::WindowBatch batch = loader_->next();
  return batch.inputs.defined() ? DrawnBatch{batch_of(batch), {}} : DrawnBatch();
}

Tensor LanguageTask::loss(nn::Module& net, const StepBatch& batch, const Tensor&) const {
  return static_cast<models::Gpt2&>(net).loss(batch.tensors[0], batch.tensors[1],
                                              static_cast<float>(config_.optim.label_smoothing));
}

void LanguageTask::run(nn::Module& net, const StepBatch& batch) const {
  static_cast<models::Gpt2&>(net).hidden(batch.tensors[0].to(device_));
}

// --- evaluation

std::vector<Counts> evaluate_text(std::span<nn::Module* const> nets, const data::TextPart& text,
                                  const data::Marks& marks, i64 length, i64 batch, Device device,
                                  const Task::Share& share) {
  const NoGrad no_grad;
  data::WindowLoader loader(text.tokens, marks,
                            {.batch = batch,
                             .length = length,
                             .rank = share.part,
                             .world = share.parts,
                             .share = data::Share::windows,
                             .shuffle = false,
                             .drop_last = false,
                             .pinned = !device.is_cpu()});
  std::vector<bool> was_training;
  for (nn::Module* net : nets) {
    was_training.push_back(net->training());
    net->eval();
  }
  StepInputs inputs(device);
  std::vector<Counts> all(nets.size(), Counts{.batch = batch});
  for (i64 step = 0; share.max_batches == 0 || step < share.max_batches; ++step) {
    const data::WindowBatch windows = loader.next();
    if (!windows.inputs.defined()) break;
    const StepBatch in = inputs.put(batch_of(windows), {}).batch;
    for (std::size_t i = 0; i < nets.size(); ++i) {
      const Tensor loss = static_cast<models::Gpt2*>(nets[i])->loss(in.tensors[0], in.tensors[1]);
      all[i].items += static_cast<double>(windows.labelled);
      all[i].loss += static_cast<double>(windows.labelled) * static_cast<double>(loss.item());
    }
    inputs.step_ends();
  }
  for (std::size_t i = 0; i < nets.size(); ++i) nets[i]->train(was_training[i]);
  return all;
}

std::vector<Counts> LanguageTask::evaluate(std::span<nn::Module* const> nets, const Share& share,
                                           bool) {
  return evaluate_text(nets, val_, set_.marks, config_.data.length, config_.eval.batch, device_,
                       share);
}

// A share of the text has as many bytes an id as all of it.
TextScore LanguageTask::score(const Score& s) const {
  return text_score(s.loss, static_cast<double>(val_.tokens ? val_.tokens->size() - 1 : 0),
                    static_cast<double>(val_.text_bytes));
}

Task::Numbers LanguageTask::numbers(const Score& s) const {
  const TextScore text = score(s);
  return {
      {"loss", text.loss}, {"perplexity", text.perplexity}, {"bits_per_byte", text.bits_per_byte}};
}

std::string LanguageTask::sentence(const Score& s) const {
  const TextScore text = score(s);
  return fmt::format("loss {:.4f}, perplexity {}{}", text.loss, perplexity_text(text.perplexity),
                     std::isfinite(text.bits_per_byte)
                         ? fmt::format(", {:.4f} bits per byte", text.bits_per_byte)
                         : "");
}

}  // namespace gossamer::apps
