// See language_task.h.
#include "gossamer/apps/train/language_task.h"

#include <cmath>
#include <deque>

#include <fmt/format.h>

#include "gossamer/apps/config_keys.h"
#include "gossamer/apps/report/progress.h"
#include "gossamer/apps/train/fitting_batch.h"
#include "gossamer/apps/train/language_model.h"
#include "gossamer/apps/train/text_task.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/data/loader/deal.h"
#include "gossamer/data/mix.h"
#include "gossamer/data/text/chat.h"
#include "gossamer/data/text/examples.h"
#include "gossamer/data/text/window_loader.h"
#include "gossamer/models/language_file.h"
#include "gossamer/models/lora_file.h"

namespace gossamer::apps {
namespace {

nn::LoraOptions lora_options(const Config& c) {
  return {.rank = c.model.lora_rank, .alpha = c.model.lora_alpha, .targets = c.model.lora_targets};
}

data::TextSet open_one(const Config& c, const std::string& path) {
  data::TextSet set = data::open_text(path, c.model.classes.value_or(0));
  check<DataError>(!set.pairs, set.path, ": holds pairs of sentences, for translation");
  check<DataError>(!set.train.empty(), set.path, ": has no training text");
  check<DataError>(set.vocabulary > 0 || c.model.classes, set.path,
                   ": does not say how many ids its vocabulary has; give model.classes=N");
  return set;
}

// The first text of data.train, with the validation text of all that have some, joined, and the
// first chat template of examples.
data::TextSet open_training(const Config& c) {
  data::TextSet first = open_one(c, c.data.train[0]);
  if (c.data.train.size() == 1) return first;
  data::TextPart all;
  std::vector<std::string> paths, learnt;
  bool bytes_known = true;
  for (const std::string& path : c.data.train) {
    const data::TextSet set = open_one(c, path);
    const bool same = first.tokenizer && set.tokenizer ? first.tokenizer->same_ids(*set.tokenizer)
                                                       : first.tokenizer == set.tokenizer;
    check<DataError>(same && first.vocabulary == set.vocabulary, set.path,
                     ": was made with another tokenizer than ", first.path,
                     "; tokenize it with --tokenizer ", first.path);
    if (first.chat.empty()) first.chat = set.chat;
    if (set.val.empty()) continue;
    check<DataError>(paths.empty() || learnt.empty() == !set.val.learnt, set.path,
                     ": only some of the texts hold examples, so their validation data do not fit "
                     "together; name those to use (data.val=DIR), or none (data.val=none)");
    const auto add = [](std::vector<std::string>& to, const data::TokenFiles& files) {
      to.insert(to.end(), files.paths().begin(), files.paths().end());
    };
    add(paths, *set.val.tokens);
    if (set.val.learnt) add(learnt, *set.val.learnt);
    all.learnt_ids += set.val.learnt_ids;
    all.items += set.val.items;
    all.text_bytes += set.val.text_bytes;
    bytes_known = bytes_known && set.val.text_bytes > 0;
  }
  if (!paths.empty())
    all.tokens = std::make_shared<const data::TokenFiles>(paths, first.train.tokens->vocabulary());
  if (!learnt.empty())
    all.learnt = std::make_shared<const data::TokenFiles>(learnt, data::kLearntValues);
  if (!bytes_known) all.text_bytes = 0;
  first.val = std::move(all);
  first.path = paths_text(c.data.train);
  return first;
}

std::vector<data::WindowSource> training_texts(const Config& c, const data::TextSet& first) {
  const i64 length = c.data.length;
  std::vector<data::WindowSource> out{data::window_source(first.train, length, true)};
  for (std::size_t i = 1; i < c.data.train.size(); ++i)
    out.push_back(data::window_source(open_one(c, c.data.train[i]).train, length, true));
  for (std::size_t i = 0; i < c.data.weights.size(); ++i) out[i].weight = c.data.weights[i];
  return out;
}

bool of_examples(const data::WindowSource& text) { return text.examples != nullptr; }

// Which ids these are: their number, and the tokenizer that made them.
std::uint64_t identity(const data::TokenFiles& tokens, const data::Tokenizer* tokenizer,
                       i64 length) {
  return data::mix(
      data::mix(static_cast<std::uint64_t>(tokens.size()), static_cast<std::uint64_t>(length)),
      tokenizer ? tokenizer->hash() : 0);
}

// weight: of its mean loss in that of several batches; undefined: 1. [inputs, labels], then
// [begins, positions] where documents are apart, then [weight].
nn::StepBatch batch_of(const data::WindowBatch& b, const Tensor& weight = {}) {
  std::vector<Tensor> tensors{b.inputs, b.labels};
  if (b.begins.defined()) {
    tensors.push_back(b.begins);
    tensors.push_back(models::positions_in(b.begins));
  }
  if (weight.defined()) tensors.push_back(weight);
  return {std::move(tensors), {}, b.inputs.shape()};
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
      data::open_text(name, train.vocabulary > 0 ? train.vocabulary : c.model.classes.value_or(0));
  check<DataError>(!other.pairs, name, ": holds pairs of sentences, for translation");
  check<DataError>(
      !train.tokenizer || !other.tokenizer || train.tokenizer->same_ids(*other.tokenizer), name,
      ": was made with another tokenizer than ", train.path, "; tokenize it with --tokenizer ",
      train.path);
  const data::TextPart& text = other.val.empty() ? other.train : other.val;
  check_predicts(name, text);
  return text;
}

namespace {

std::vector<Counts> evaluate_in_batches(std::span<nn::Module* const> nets,
                                        const data::TextPart& text, const data::Marks& marks,
                                        i64 length, i64 batch, Device device,
                                        const TaskMetrics::Share& share) {
  const NoGrad no_grad;
  data::WindowLoader loader({data::window_source(text, length, false)}, marks,
                            {.batch = batch,
                             .length = length,
                             .epoch = data::in_order(share.part, share.parts),
                             .pinned = !device.is_cpu()});
  nn::StepInputs inputs(device);
  std::vector<Counts> all(nets.size(), Counts{.batch = batch});
  for (i64 step = 0; share.max_batches == 0 || step < share.max_batches; ++step) {
    const data::WindowBatch windows = loader.next();
    if (!windows.inputs.defined()) break;
    const nn::StepBatch in = inputs.put(batch_of(windows), {}).batch;
    for (std::size_t i = 0; i < nets.size(); ++i) {
      const Tensor loss =
          static_cast<models::LanguageNet*>(nets[i])->loss(in.tensors[0], in.tensors[1]);
      all[i].items += static_cast<double>(windows.labelled);
      all[i].loss += static_cast<double>(windows.labelled) * static_cast<double>(loss.item());
    }
    inputs.step_ends();
    if (share.progress) share.progress(static_cast<i64>(all[0].items));
  }
  return all;
}

}  // namespace

std::vector<Counts> evaluate_text(std::span<nn::Module* const> nets, const data::TextPart& text,
                                  const data::Marks& marks, i64 length, i64 batch, Device device,
                                  const TaskMetrics::Share& share) {
  const EvalMode eval(nets);
  return with_fitting_batch(batch, device, [&](i64 fitting) {
    return evaluate_in_batches(nets, text, marks, length, fitting, device, share);
  });
}

// --- the data

namespace {

class Data final : public TextData<data::WindowLoader> {
 public:
  Data(const Config& config, const dist::LaunchInfo& place, bool pinned)
      : TextData(config, place, open_training(config), validation_text),
        model(language_options(config, set.vocabulary, notes_)),
        texts_(training_texts(config, set)),
        pinned_(pinned),
        batches_(config.train.accumulate) {
    check_tokenizer_of_init(config, set, notes_);
    for (const data::WindowSource& text : texts_)
      if (text.examples && text.examples->cut > 0)
        notes_.push_back(
            "data     " + text.learnt->paths()[0] + ": " + std::to_string(text.examples->cut) +
            " examples are longer than data.length=" + std::to_string(config.data.length) +
            "; only their beginnings are read");
  }

  i64 output_count() const override { return models::vocabulary_of(model); }
  // Of examples what their windows have room for.
  double epoch() const override {
    i64 all = 0;
    for (const data::WindowSource& text : texts_)
      all += text.examples ? static_cast<i64>(text.examples->windows.size()) * config_.data.length
                           : text.tokens->size();
    return static_cast<double>(all);
  }
  std::string val_hash() const override {
    return fmt::format("{:016x}", identity(*val.tokens, set.tokenizer.get(), config_.data.length));
  }
  std::string description() const override {
    return fmt::format("{}: {} tokens to train, {} to validate, {} ids, {} at once", set.path,
                       ids(), validates() ? std::to_string(val.tokens->size()) : "none",
                       output_count(), config_.data.length);
  }
  void add_facts(JsonObject& facts) const override {
    facts.add("vocabulary", output_count()).add("train_tokens", ids());
    if (validates()) facts.add("val_tokens", val.tokens->size()).add("val_hash", val_hash());
  }
  void check_loader() const override { make_loader(); }
  std::vector<std::string> open_loader() override {
    loader_ = make_loader();
    return {};
  }
  void seek(const nn::Position& at, double progress) override {
    ahead_.clear();  // an update begins there
    TextData::seek(at, progress);
  }
  void deal(const data::Deal& from, double progress) override {
    ahead_.clear();
    batches_ = from.own();
    TextData::deal(from, progress);
  }
  // With other weights or documents the place in the epoch, and in each text, means other windows.
  void check_resume(const ResumePoint& from) const override {
    TextData::check_resume(from);
    const auto then = data::parse_order(nn::read_metadata(from.files[0]));
    const data::SampleOrder now = order();
    if (!then) return;
    const auto same = [&](const char* key, const std::optional<std::string>& trained,
                          const std::optional<std::string>& given) {
      check<ConfigError>(!trained || *trained == *given, key, " = ", value_text(config_, key), ": ",
                         from.run_folder.string(), " was trained with ",
                         trained && !trained->empty() ? *trained : "none", "; leave ", key,
                         " out, or train anew, without --resume");
    };
    same("data.weights", then->weights, now.weights);
    same("data.documents", then->documents, now.documents);
  }
  data::SampleOrder order() const override {
    std::uint64_t texts = 0;
    for (const data::WindowSource& text : texts_) {
      const std::uint64_t id = identity(*text.tokens, set.tokenizer.get(), config_.data.length);
      texts = &text == &texts_[0] ? id : data::mix(texts, id);
    }
    data::SampleOrder order =
        data::sample_order(config_.train.batch, epoch_options(config_, place_), texts);
    if (set.tokenizer) order.tokenizer = set.tokenizer->hash();
    order.documents = config_.data.documents;
    order.weights = config_.data.weights.empty() ? "" : value_text(config_, "data.weights");
    return order;
  }

  const models::LanguageOptions model;

 private:
  i64 ids() const {
    i64 all = 0;
    for (const data::WindowSource& text : texts_) all += text.tokens->size();
    return all;
  }
  std::unique_ptr<data::WindowLoader> make_loader() const {
    check<ConfigError>(config_.data.documents == "joined" || set.marks.end >= 0 ||
                           std::ranges::all_of(texts_, of_examples),
                       "data.documents = ", config_.data.documents, ": the vocabulary of ",
                       set.path, " has no mark of the ends of documents; use joined");
    const data::WindowLoaderOptions options = loader_options();
    if (!options.weighted) return std::make_unique<data::WindowLoader>(texts_, set.marks, options);
    try {
      return std::make_unique<data::WindowLoader>(texts_, set.marks, options);
    } catch (const ConfigError& e) {
      fail<ConfigError>("data.weights = ", value_text(config_, "data.weights"), ": ", e.what());
    }
  }
  data::WindowLoaderOptions loader_options() const {
    const std::string& shard = config_.data.shard;
    check<ConfigError>(!shard.starts_with("dirichlet"), "data.shard = ", shard,
                       ": text has no classes; use documents, so that workers have unlike data");
    return {.batch = config_.train.batch,
            .length = config_.data.length,
            .epoch = epoch_options(config_, place_),
            .documents = data::parse_documents(config_.data.documents),
            .weighted = !config_.data.weights.empty(),
            .pinned = pinned_};
  }
  nn::DrawnBatch draw() override {
    if (ahead_.empty()) read_update();
    nn::DrawnBatch batch = std::move(ahead_.front());
    ahead_.pop_front();
    return batch;
  }
  // An update is the mean over all its labels. Where batches differ in their number, the mean loss
  // of each is weighed by it, so all of an update are read before the first is computed.
  void read_update() {
    const bool differ =
        config_.data.documents == "separate" || std::ranges::any_of(texts_, of_examples);
    const i64 count = differ ? batches_ : 1;
    if (count == 1) {
      const data::WindowBatch batch = loader_->next();
      ahead_.push_back(batch.inputs.defined() ? nn::DrawnBatch{batch_of(batch), {}}
                                              : nn::DrawnBatch());
      return;
    }
    std::vector<data::WindowBatch> batches;  // also the empty one of an epoch's end
    i64 labelled = 0;
    for (i64 read = 0; read < count; read += batches.back().inputs.defined()) {
      batches.push_back(loader_->next());
      labelled += batches.back().labelled;
    }
    for (const data::WindowBatch& b : batches) {
      nn::DrawnBatch& drawn = ahead_.emplace_back();
      if (!b.inputs.defined()) continue;
      const float weight =
          static_cast<float>(b.labelled * count) / static_cast<float>(std::max<i64>(labelled, 1));
      drawn.batch = batch_of(b, Tensor::from(std::vector<float>{weight}, {1}));
    }
  }

  const std::vector<data::WindowSource> texts_;
  const bool pinned_;
  i64 batches_;                       // of an update, of this worker
  std::deque<nn::DrawnBatch> ahead_;  // of the update that is read
};

// --- the model

class Model final : public TextModel<models::LanguageNet, Data> {
 public:
  using TextModel::TextModel;

  std::map<std::string, std::string> header() const override {
    auto header = models::language_header(config_.model.name, data_.model);
    if (const nn::LoraOptions lora = lora_options(config_); lora.rank > 0)
      header["lora_scale"] = shortest(lora.scale());
    return header;
  }
  void save_beside(const std::filesystem::path& folder) const override {
    write_file(folder / "config.json", hugging_face_config(data_.model, data_.set.marks));
    TextModel::save_beside(folder);
    if (!data_.set.tokenizer) return;
    const std::string config = hugging_face_tokenizer_config(*data_.set.tokenizer);
    if (!config.empty()) write_file(folder / "tokenizer_config.json", config);
    if (data::is_chat(data_.set.chat))
      write_file(folder / "chat_template.jinja", data::chat_jinja(data_.set.chat));
  }
  Tensor loss(nn::Module& net, const nn::StepBatch& batch, const Tensor&) const override {
    const std::vector<Tensor>& in = batch.tensors;
    const auto smoothing = static_cast<float>(config_.optim.label_smoothing);
    auto& language = static_cast<models::LanguageNet&>(net);
    const bool apart = in.size() >= 4;
    const Tensor hidden = apart ? dynamic_cast<models::Llama&>(net).hidden(in[0], in[2], in[3])
                                : language.hidden(in[0]);
    const Tensor loss = language.loss_of(hidden, in[1], smoothing);
    return in.size() % 2 == 0 ? loss : mul(loss, in.back().reshape({}));
  }
  void run(nn::Module& net, const nn::StepBatch& batch) const override {
    static_cast<models::LanguageNet&>(net).hidden(batch.tensors[0].to(device_));
  }

 private:
  std::unique_ptr<models::LanguageNet> make_net() const override {
    return models::make_language(data_.model);
  }
  void adapt(models::LanguageNet& net, std::vector<std::string>& notes) const override {
    const nn::LoraOptions lora = lora_options(config_);
    if (lora.rank == 0) return;
    i64 all = 0, trained = 0;
    for (const NamedTensor& p : net.parameters()) all += p.tensor.numel();
    dynamic_cast<models::Llama&>(net).adapt(lora);
    for (const NamedTensor& p : net.parts().parameters) trained += p.tensor.numel();
    notes.push_back(
        fmt::format("adapter  {} numbers are trained beside {}; an exchange sends {} "
                    "bytes in place of {} (f32)",
                    trained, all, 4 * trained, 4 * all));
  }
  void load(const nn::Weights& file, models::LanguageNet& net) const override {
    models::load_language(file, net);
  }
  void write(const std::filesystem::path& path, nn::Module& net, const FlatParams& params,
             const std::map<std::string, std::string>& header) const override {
    models::save_language(path, static_cast<const models::LanguageNet&>(net), &params, header);
    if (config_.model.lora_rank > 0)  // which can be taken elsewhere without the model
      models::save_adapter(path.parent_path() / (path.stem().string() + "-adapter"),
                           dynamic_cast<const models::Llama&>(net), &params, config_.model.init);
  }
};

// --- evaluation

class Metrics final : public TaskMetrics {
 public:
  Metrics(const Config& config, const Data& data, Device device)
      : config_(config), data_(data), device_(device) {}

  std::vector<Counts> evaluate(std::span<nn::Module* const> nets, const Share& share,
                               bool) override {
    return evaluate_text(nets, data_.val, data_.set.marks, config_.data.length, config_.eval.batch,
                         device_, share);
  }
  Numbers numbers(const Score& s) const override {
    const TextScore text = score(s);
    return {{"loss", text.loss},
            {"perplexity", text.perplexity},
            {"bits_per_byte", text.bits_per_byte}};
  }
  std::string sentence(const Score& s) const override {
    const TextScore text = score(s);
    return fmt::format("loss {:.4f}, perplexity {}{}", text.loss, perplexity_text(text.perplexity),
                       std::isfinite(text.bits_per_byte)
                           ? fmt::format(", {:.4f} bits per byte", text.bits_per_byte)
                           : "");
  }

 private:
  // A share of the text has as many bytes an id as all of it.
  TextScore score(const Score& s) const {
    return text_score(s.loss, static_cast<double>(data_.val.labels()),
                      static_cast<double>(data_.val.text_bytes));
  }

  const Config& config_;
  const Data& data_;
  const Device device_;
};

}  // namespace

Task language_task(const Config& config, const dist::LaunchInfo& place, Device device) {
  auto data = std::make_unique<Data>(config, place, !device.is_cpu());
  auto model = std::make_unique<Model>(config, *data, device);
  auto metrics = std::make_unique<Metrics>(config, *data, device);
  return {std::move(data), std::move(model), std::move(metrics)};
}

}  // namespace gossamer::apps
