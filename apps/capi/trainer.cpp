// See trainer.h.
#include "gossamer/apps/capi/trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "gossamer/apps/capi/cancel.h"
#include "gossamer/apps/capi/groups.h"
#include "gossamer/apps/capi/workers.h"
#include "gossamer/apps/train/language_source.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/ops/normalize.h"
#include "gossamer/core/text/shortest.h"
#include "gossamer/models/language_file.h"
#include "gossamer/models/lora_file.h"
#include "gossamer/models/onnx.h"
#include "gossamer/models/transformer.h"
#include "gossamer/models/transformer_file.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/layers.h"
#include "gossamer/nn/optim.h"
#include "gossamer/nn/train/classification.h"
#include "gossamer/nn/train/freezing.h"

namespace gossamer::capi {
namespace {

constexpr const char* kPictures = "pictures";
constexpr i64 kFrozen = -1;
constexpr const char* kHead = "fc.";  // models::picture_weights()

template <class F>
void naming(const char* option, F&& f) {
  try {
    f();
  } catch (const ConfigError& e) {
    fail<ConfigError>("gsm_trainer_options.", option, ": ", e.what());
  }
}

models::ModelOptions model_options(const gsm_trainer_options& o, i64 classes) {
  models::ModelOptions options = read_settings(o.model_options, "gsm_trainer_options.model_options")
                                     .as<models::ModelOptions>("gsm_trainer_options.model_options");
  if (classes) options.classes = classes;
  if (o.channels) options.channels = o.channels;
  options.seed = o.seed;
  return options;
}

models::Preprocessing pictures_of(const gsm_trainer_options& o, const models::Family& family,
                                  const Trainer::Start& start) {
  const std::string& name = start.model;
  const i64 channels = start.options.channels;
  check<ArgumentError>(channels >= 1 && channels <= kMostChannels, "images of ", channels,
                       " channels; wanted 1 to ", kMostChannels);
  const bool given = o.mean || o.std;
  if (family.task != kPictures) {
    check<ConfigError>(!given && !o.image_size && !o.resize, "gsm_trainer_options: ", name,
                       " reads ids, so it takes no mean, std, image_size or resize");
    return {};
  }
  models::Preprocessing p = start.pictures ? *start.pictures : models::usual_preprocessing(name);
  check<ArgumentError>(
      o.image_size >= 0 && o.image_size <= 4096 && o.resize >= 0 && o.resize <= 8192,
      "gsm_trainer_options: image_size ", o.image_size, " and resize ", o.resize,
      "; wanted up to 4096 and 8192, or 0 for what is usual");
  if (o.image_size) {
    p.resize = std::max(o.image_size, p.resize * o.image_size / p.size);
    p.size = o.image_size;
  }
  if (o.resize) p.resize = o.resize;
  check<ArgumentError>(p.resize >= p.size, "gsm_trainer_options: resize ", p.resize,
                       " is below image_size ", p.size);
  check<ArgumentError>((o.mean != nullptr) == (o.std != nullptr),
                       "gsm_trainer_options: give mean and std, or neither");
  check<ConfigError>(given || channels == p.channels(), "gsm_trainer_options: of images with ",
                     channels, " channels no mean and std are usual; give them");
  if (!given) return p;
  check<ArgumentError>(aligned(o.mean) && aligned(o.std),
                       "gsm_trainer_options: mean or std is misaligned");
  check_finite("gsm_trainer_options.mean", o.mean, channels);
  check_finite("gsm_trainer_options.std", o.std, channels);
  check<ArgumentError>(std::all_of(o.std, o.std + channels, [](float s) { return s > 0; }),
                       "gsm_trainer_options.std: wanted numbers above 0");
  p.mean.assign(o.mean, o.mean + channels);
  p.std.assign(o.std, o.std + channels);
  return p;
}

nn::OptimizerOptions optimizer_options(const gsm_trainer_options& o) {
  check<ArgumentError>(std::isfinite(o.momentum), "gsm_trainer_options.momentum is ", o.momentum,
                       "; wanted below 1, 0 for the default, or below 0 for none");
  check<ArgumentError>(nn::weight_decays().holds(o.weight_decay),
                       "gsm_trainer_options.weight_decay is ", o.weight_decay, "; wanted ",
                       nn::weight_decays().wanted);
  nn::OptimizerOptions options;
  if (o.momentum != 0) options.momentum = std::max(o.momentum, 0.0);
  options.weight_decay = o.weight_decay;
  options.nesterov = o.nesterov != 0;
  if (o.beta1 != 0) options.beta1 = o.beta1;
  if (o.beta2 != 0) options.beta2 = o.beta2;
  if (o.epsilon != 0) options.epsilon = o.epsilon;
  if (o.period != 0) options.period = o.period;
  naming("rates", [&] { options.factors = read_rates(o.rates); });
  naming("decays", [&] { options.decays = read_decays(o.decays); });
  return options;
}

nn::WeightsOptions weights_options(const gsm_trainer_options& o) {
  nn::WeightsOptions options;
  if (o.init_key) options.key = o.init_key;
  for (const std::string& part : parts_of(o.init_rename)) {
    const std::size_t equals = part.find('=');
    check<ConfigError>(
        equals != part.npos && equals > 0 &&
            options.rename.emplace(part.substr(0, equals), part.substr(equals + 1)).second,
        "gsm_trainer_options.init_rename: \"", part,
        "\" must be NAME=NEW, each NAME once, e.g. linear=fc");
  }
  return options;
}

nn::Weights initial_weights(const gsm_trainer_options& o) {
  if (o.init) return apps::read_model(apps::find_model(o.init, weights_options(o)));
  check_given("gsm_trainer_options.init_bytes", o.init_bytes);
  return nn::read_weights(std::span(static_cast<const std::byte*>(o.init_bytes), o.init_size),
                          "gsm_trainer_options.init_bytes", weights_options(o));
}

// The model that a file of weights is of, with as many classes or ids.
Trainer::Start start_of(const gsm_trainer_options& o, i64 classes) {
  check<ArgumentError>(o.init || o.init_bytes,
                       "the model is NULL; name one, or give initial weights that say which it is");
  Trainer::Start start{.options = model_options(o, classes)};
  const nn::Weights given = initial_weights(o);
  nn::Weights file;
  if (!models::is_language(given)) {
    file = models::picture_weights(given);
    start.model = models::model_of(file);
    if (const auto header = models::header_of(file)) start.pictures = header->pictures;
    if (!start.options.classes) start.options.classes = models::head_of(file).shape(0);
    if (!o.channels)
      if (const Tensor* const stem = file.find("conv1.weight"))
        start.options.channels = stem->shape(1);
  } else {
    apps::LanguageSource source =
        apps::language_of(given, o.init ? apps::find_model(o.init, weights_options(o)).beside : "");
    for (const std::string& note : source.notes) log_line(note);
    check<ConfigError>(
        models::given_options(start.options).empty() ||
            models::given_options(start.options) == std::vector<std::string>{"dropout"},
        "gsm_trainer_options.model_options: the initial weights say all but "
        "dropout; leave the rest out, and classes 0");
    models::set_dropout(source.options, static_cast<float>(start.options.dropout));
    start.model = models::family_of(source.options);
    start.options.classes = models::vocabulary_of(source.options);
    start.language = source.options;
    file = std::move(source.weights);
    file.notes.clear();  // they were logged
  }
  start.weights = std::move(file);
  return start;
}

std::vector<Parameter> list_of(const nn::Module& net, const FlatParams& params) {
  std::vector<Parameter> out;
  for (const NamedTensor& p : net.parameters()) {
    const auto at = std::ranges::find(params.entries(), p.name, &FlatParams::Entry::name);
    const bool trained = at != params.entries().end();
    out.push_back({p.name, p.tensor.shape(), trained ? GSM_TRAINED : GSM_FROZEN,
                   trained ? at->offset : kFrozen});
  }
  for (const FlatParams::Entry& e : params.buffer_entries())
    out.push_back({e.name, e.shape, GSM_STATISTIC, e.offset});
  // Of layers of which all is frozen; counters are none.
  for (const NamedTensor& t : params.frozen())
    if (t.tensor.dtype() == DType::f32 &&
        std::ranges::find(out, t.name, &Parameter::name) == out.end())
      out.push_back({t.name, t.tensor.shape(), GSM_STATISTIC, kFrozen});
  return out;
}

}  // namespace

std::shared_ptr<Trainer> Trainer::make(const char* model, i64 classes,
                                       const gsm_trainer_options& o) {
  check_numbers("gsm_trainer_options", {{"label_smoothing", o.label_smoothing},
                                        {"clip_norm", o.clip_norm},
                                        {"ema", o.ema},
                                        {"accumulate", o.accumulate},
                                        {"channels", o.channels},
                                        {"lora_rank", static_cast<double>(o.lora_rank)},
                                        {"lora_alpha", o.lora_alpha},
                                        {"period", static_cast<double>(o.period)}});
  for (const auto& [name, value] :
       {std::pair("label_smoothing", o.label_smoothing), {"ema", o.ema}})
    check<ArgumentError>(value < 1, "gsm_trainer_options.", name, " is ", value,
                         "; it must be below 1");
  check<ArgumentError>(!o.init || !o.init_bytes,
                       "gsm_trainer_options: init and init_bytes are both given");
  check<ConfigError>(o.lora_rank != 0 || (o.lora_alpha == 0 && !o.lora_targets),
                     "gsm_trainer_options: lora_alpha and lora_targets need lora_rank");
  check<ConfigError>(o.lora_rank == 0 || o.init || o.init_bytes,
                     "gsm_trainer_options.lora_rank: an adapter is for initial weights; give init");
  if (!model) return std::make_shared<Trainer>(start_of(o, classes), o);
  Start start{.model = model, .options = model_options(o, classes)};
  const models::Family& family = models::family_of(model);
  if (!start.options.classes) start.options.classes = models::info(model).classes;
  if (o.init || o.init_bytes) {
    start.weights = family.weights(initial_weights(o));
    if (family.task == kPictures)
      if (const auto header = models::header_of(*start.weights)) start.pictures = header->pictures;
  }
  return std::make_shared<Trainer>(std::move(start), o);
}

Trainer::Trainer(Start start, const gsm_trainer_options& o)
    : family_(models::family_of(start.model)),
      name_(start.model),
      options_(start.options),
      device_(device_of(o.device)),
      type_(type_of(o.type, "gsm_trainer_options.type")),
      smoothing_(static_cast<float>(o.label_smoothing)),
      clip_norm_(o.clip_norm),
      accumulate_(std::max(1, o.accumulate)),
      pictures_(pictures_of(o, family_, start)) {
  if (start.language) {
    nn::seed_initialisation(options_.seed);
    net_ = models::make_language(*start.language);
  } else {
    net_ = models::make(name_, options_);
  }
  if (start.weights) load_initial(std::move(*start.weights), o.new_head != 0);
  adapt(o);
  if (o.freeze) naming("freeze", [&] { nn::freeze(*net_, o.freeze); });
  put_together(o);
}

Trainer::~Trainer() {
  if (locked_) unlock();
}

void Trainer::load_initial(nn::Weights file, bool new_head) {
  nn::check_finite(file);
  if (new_head) {
    check<ConfigError>(task() == kPictures, "gsm_trainer_options.new_head: the head of ", name_,
                       " is its table of ids; leave new_head out");
    std::erase_if(file.tensors, [](const NamedTensor& t) { return t.name.starts_with(kHead); });
  }
  fit_ = nn::load_what_fits(file, *net_);
  left_ = fit_.misshapen;
  for (const std::string& name : fit_.missing)
    left_.push_back(name + (new_head && name.starts_with(kHead) ? " is drawn anew, as new_head says"
                                                                : " is not in the file"));
  for (const std::string& name : fit_.extra) left_.push_back(name + " is not in the model");
  for (const std::string& note : file.notes) log_line(note);
}

void Trainer::adapt(const gsm_trainer_options& o) {
  if (o.lora_rank == 0) return;
  auto* const llama = dynamic_cast<models::Llama*>(net_.get());
  check<ConfigError>(llama != nullptr, "gsm_trainer_options.lora_rank: ", name_,
                     " takes no adapter; models of LLaMA's kind do");
  nn::LoraOptions lora{.rank = o.lora_rank};
  if (o.lora_alpha != 0) lora.alpha = o.lora_alpha;
  if (o.lora_targets) {
    lora.targets.clear();
    std::string name;
    for (const char* at = o.lora_targets;; ++at) {
      if (*at != ',' && *at != 0) {
        if (*at != ' ') name += *at;
        continue;
      }
      if (!name.empty()) lora.targets.push_back(std::exchange(name, {}));
      if (*at == 0) break;
    }
  }
  naming("lora_targets", [&] { llama->adapt(lora); });
  if (o.init) base_ = o.init;
}

void Trainer::save_adapter(const std::string& folder, const char* base) const {
  const auto* const llama = dynamic_cast<const models::Llama*>(net_.get());
  check<ConfigError>(llama && llama->lora(),
                     "the trainer has no adapter; gsm_trainer_options.lora_rank makes one");
  check<ArgumentError>(base || !base_.empty(),
                       "base is NULL, and the initial weights came as bytes; say where they are");
  models::save_adapter(folder, *llama, params_.get(), base ? base : base_);
}

void Trainer::put_together(const gsm_trainer_options& o) {
  net_->to(device_);
  nn::Module::Parts parts = net_->parts();
  params_ = std::make_unique<FlatParams>(std::move(parts.parameters), std::move(parts.buffers),
                                         FlatOptions{.compute = type_}, std::move(parts.frozen));
  optimizer_ =
      nn::make_optimizer(o.optimizer ? o.optimizer : "sgd", *params_, optimizer_options(o));
  if (o.ema > 0) ema_ = std::make_unique<nn::Ema>(*params_, o.ema);
  step_ = std::make_unique<nn::GradientStep>(nn::GradientStep::Parts{
      .net = *net_,
      .params = *params_,
      .loss_of = [this](const nn::StepBatch& batch, const Tensor&) { return loss(batch); },
      .batches = accumulate_});
  parameters_ = list_of(*net_, *params_);
}

void Trainer::check_task(const char* task) const {
  check<ConfigError>(family_.task == task, "the model ", name_, " is for ", family_.task,
                     ", and this call is for ", task);
}

Tensor Trainer::loss(const nn::StepBatch& batch) const {
  const std::vector<Tensor>& t = batch.tensors;
  if (auto* const language = dynamic_cast<models::LanguageNet*>(net_.get()))
    return language->loss(t[0], t[1], smoothing_);
  if (auto* const transformer = dynamic_cast<models::Transformer*>(net_.get()))
    return transformer->loss(t[0], t[1], t[2], t[3], smoothing_);
  return cross_entropy((*net_)(pictures_(t[0], type_)), t[1], {.label_smoothing = smoothing_});
}

float Trainer::gradient(nn::StepBatch batch) {
  if (batches_ > 0) forget_gradient();
  net_->train();
  bool whole = false;
  try {
    const Computing computing;
    whole = step_->compute({std::move(batch), {}});
  } catch (const Cancelled&) {
    forget_gradient();
    throw;
  }
  step_->step_ends();
  fresh_ = whole;
  return static_cast<float>(step_->losses().take() * accumulate_);  // they are shares
}

Tensor Trainer::forward(const Tensor& input) {
  net_->train();
  const Computing computing;
  // The tape may keep its input, which is the caller's.
  Tensor x = device_.is_cpu() ? input.clone() : input.to(device_);
  if (is_floating(x.dtype()) && type_ != DType::f32) x = cast(x, type_);
  outputs_ = cast((*net_)(x), DType::f32);
  return outputs_.detach().to(Device::cpu());
}

void Trainer::backward(const float* gradient) {
  check<ConfigError>(outputs_.defined(), "gsm_trainer_backward without gsm_trainer_forward");
  check_finite("gradient", gradient, outputs_.numel());
  step_->abandon();
  if (batches_ == 0) params_->zero_grad();
  const Tensor g = Tensor::from(std::span(gradient, static_cast<std::size_t>(outputs_.numel())),
                                outputs_.shape())
                       .to(device_);
  try {
    const Computing computing;
    params_->backward(sum(mul(outputs_, g)), 1.0F / static_cast<float>(accumulate_));
  } catch (const Cancelled&) {
    forget_gradient();
    throw;
  }
  outputs_ = {};
  batches_ = (batches_ + 1) % accumulate_;
  fresh_ = batches_ == 0;
}

void Trainer::check_gradient() const {
  check<ConfigError>(fresh_, step_->begun() || batches_ > 0
                                 ? "the gradient has not all batches yet that "
                                   "gsm_trainer_options.accumulate asks for"
                                 : "there is no new gradient; call gsm_trainer_gradient or "
                                   "gsm_trainer_backward first");
}

void Trainer::take_gradient() {
  check_gradient();
  fresh_ = false;
  params_->settle_grads();
  check_gradients(*params_);
}

void Trainer::step(double learning_rate) {
  optimizer_->step(static_cast<float>(learning_rate), nullptr, {.clip = clip_norm_});
  stepped();
}

void Trainer::stepped() {
  ++steps_;
  method_state_.reset();
  if (ema_) read([&] { ema_->update(*params_); });
}

double Trainer::gradient_norm() {
  check_gradient();
  params_->settle_grads();
  return std::sqrt(squared_norm(params_->grads()));
}

Trainer::Score Trainer::evaluate(const nn::StepBatch& batch, bool average) {
  check<ConfigError>(!average || ema_,
                     "there is no average; gsm_trainer_options.ema says how it is made");
  const NoGrad no_grad;
  Score score;
  nn::StepBatch here = batch;
  for (Tensor& t : here.tensors) t = t.to(device_);
  const auto measure = [&] {
    const Computing computing;
    net_->eval();
    if (task() != kPictures) {
      score.loss = loss(here).item();
      return;
    }
    const Tensor y = cast((*net_)(pictures_(here.tensors[0], type_)), DType::f32);
    const Tensor scores = nn::classification_scores(y, here.tensors[1], 1).to(Device::cpu());
    score.loss = scores.as<float>()[0];
    score.right = static_cast<i64>(scores.as<float>()[1]);
  };
  if (!average) {
    measure();
  } else {
    quiet([&] {
      const nn::EmaInPlace in_place(*ema_, *params_);
      measure();
    });
  }
  return score;
}

std::vector<std::string> Trainer::class_names(const char* const* names) const {
  std::vector<std::string> out;
  for (i64 i = 0; i < outputs(); ++i) {
    check<ArgumentError>(!names || names[i], "the name of class ", i, " is NULL");
    out.push_back(names ? names[i] : std::to_string(i));
    check<ArgumentError>(!out.back().empty(), "the name of class ", i,
                         " is empty; give each class a name, or NULL for numbers");
    check<ArgumentError>(out.back().find('\n') == std::string::npos, "the name of class ", i,
                         " has two lines");
  }
  return out;
}

Trainer::File Trainer::file(const char* const* names) const {
  check<ArgumentError>(!names || task() == kPictures, "the model ", name_,
                       " has no classes; give NULL for their names");
  File out;
  if (const auto* const language = dynamic_cast<const models::LanguageNet*>(net_.get())) {
    out = {models::language_tensors(*language, *params_),
           models::language_header(name_, models::options_of(*language))};
    if (const auto* const llama = dynamic_cast<const models::Llama*>(language);
        llama && llama->lora())
      out.metadata["lora_scale"] = shortest(llama->lora()->scale());
  } else {
    out.tensors = nn::tensors_of_file(*net_, *params_, params_->values());
    if (const auto* const transformer = dynamic_cast<const models::Transformer*>(net_.get())) {
      out.metadata = models::metadata_of(transformer->options());
    } else {
      // Not inside the braces below: where an initializer throws, GCC 12 ends those before it
      // twice.
      const std::vector<std::string> classes = class_names(names);
      out.metadata = models::metadata_of(models::ModelHeader{name_, classes, pictures_});
    }
  }
  out.metadata.emplace("format", "pt");  // Hugging Face's tools look for it
  return out;
}

std::string Trainer::onnx(const char* const* names, const gsm_onnx_options& o) const {
  check_task(kPictures);
  models::OnnxOptions options{.keep_batch_norm = o.keep_batch_norm != 0};
  if (o.input) options.input = models::onnx_input("gsm_onnx_options.input:", o.input);
  const std::vector<std::string> classes = class_names(names);
  return models::onnx_bytes(nn::tensors_of_file(*net_, *params_, params_->values()),
                            {name_, classes, pictures_}, options);
}

void Trainer::load(const nn::Weights& file) {
  const auto* const llama = dynamic_cast<const models::Llama*>(net_.get());
  check<ConfigError>(!llama || !llama->lora(),
                     "the trainer has an adapter, which belongs to its initial weights; make "
                     "another trainer with these");
  const nn::Weights weights = family_.weights(file);
  if (const auto* const language = dynamic_cast<const models::LanguageNet*>(net_.get()))
    nn::load(models::fitting_weights(weights, *language), *net_, *params_);
  else
    nn::load(weights, *net_, *params_);
  // What was computed with other weights is not of these.
  forget_gradient();
  method_state_.reset();
  for (NamedTensor& of_optimizer : optimizer_->state()) of_optimizer.tensor.zero();
  if (ema_) ema_->restart(*params_);
}

void Trainer::forget_gradient() {
  outputs_ = {};
  step_->abandon();
  batches_ = 0;
  fresh_ = false;
}

Tensor Trainer::window(const Parameter& p, gsm_part part, bool to_write) {
  const auto slice = [&](const Tensor& block) {
    return block.slice(p.offset, p.offset + p.shape.numel());
  };
  if (part == GSM_VALUE) {
    if (p.offset != kFrozen)
      return slice(p.kind == GSM_TRAINED ? params_->values() : params_->buffers());
    return std::ranges::find(params_->frozen(), p.name, &NamedTensor::name)
        ->tensor.reshape({p.shape.numel()});
  }
  if (part == GSM_GRADIENT) {
    check<ConfigError>(p.kind == GSM_TRAINED, p.name, " is not trained, so it has no gradient");
    check_gradient();
    params_->settle_grads();
    return slice(params_->grads());
  }
  check<ArgumentError>(part == GSM_AVERAGE, "there is no part ", static_cast<int>(part),
                       "; there are values, gradients and averages");
  check<ConfigError>(ema_ != nullptr,
                     "there is no average; gsm_trainer_options.ema says how it is made");
  if (p.offset == kFrozen) {
    check<ConfigError>(!to_write, p.name, " is frozen, so its average is its value; use GSM_VALUE");
    return window(p, GSM_VALUE, false);
  }
  return slice(p.kind == GSM_TRAINED ? ema_->values() : ema_->buffers());
}

void Trainer::wrote(gsm_part part) {
  if (part != GSM_VALUE) return;
  params_->refresh();
  outputs_ = {};  // the tape was recorded with other values
}

nn::TrainSnapshot Trainer::state() {
  check<ConfigError>(!step_->begun() && batches_ == 0,
                     "a gradient of several batches is begun; save the state between two steps");
  return snapshot({net_->buffers(), *params_, *optimizer_, ema_.get()}, steps_, {{"model", name_}},
                  {{"seed", std::to_string(options_.seed)}}, method_);
}

void Trainer::restore(const SafeTensors& file, const std::string& name) {
  const auto seed = file.metadata.find("seed");
  check<ConfigError>(
      options_.dropout == 0 ||
          (seed != file.metadata.end() && seed->second == std::to_string(options_.seed)),
      name, ": what dropout draws depends on the seed, which was ",
      seed == file.metadata.end() ? "not said" : seed->second, "; make the trainer with it");
  std::optional<MethodState> of_method = method_in(file, name);
  steps_ = capi::restore({net_->buffers(), *params_, *optimizer_, ema_.get()}, file, name).step;
  method_state_ = std::move(of_method);
  forget_gradient();
}

void Trainer::check_own() const {
  check<ConfigError>(!method_,
                     "a method exchanges this model's parameters; call "
                     "gsm_method_step, and the rest after gsm_method_finish, or gsm_method_free "
                     "if that has failed");
}

void Trainer::exchanging(Training* method) {
  method_ = method;
  if (method) nn::draw_for(*net_, method->rank());
}

void Trainer::quiet(const std::function<void()>& f) {
  if (method_)
    method_->quiet(f);
  else
    f();
}

void Trainer::read(const std::function<void()>& f) {
  if (method_)
    method_->read(f);
  else
    f();
}

}  // namespace gossamer::capi
