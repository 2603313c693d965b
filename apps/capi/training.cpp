// Training a model of the table: gradients, one's own loss, an optimizer or a decentralized method.
#include <algorithm>
#include <cmath>

#include "gossamer/apps/capi/workers.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/update.h"
#include "gossamer/models/model_file.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/optim.h"
#include "gossamer/nn/train/classification.h"
#include "gossamer/nn/train/gradient_step.h"

using namespace gossamer;
using namespace gossamer::capi;

namespace {

struct Images {
  const void* pixels;
  i64 n, height, width;
  Tensor tensor(DType type) const {
    return Tensor::wrap(const_cast<void*>(pixels), {n, height, width, 3}, type);
  }
};

nn::OptimizerOptions optimizer_options(const gsm_trainer_options& o) {
  nn::OptimizerOptions options;
  check<ArgumentError>(std::isfinite(o.momentum), "gsm_trainer_options.momentum is ", o.momentum,
                       "; wanted below 1, 0 for the default, or below 0 for none");
  check<ArgumentError>(nn::weight_decays().holds(o.weight_decay),
                       "gsm_trainer_options.weight_decay is ", o.weight_decay, "; wanted ",
                       nn::weight_decays().wanted);
  if (o.momentum != 0) options.momentum = std::max(o.momentum, 0.0);
  options.weight_decay = o.weight_decay;
  return options;
}

class Trainer final : public Object {
 public:
  Trainer(const char* model, i64 classes, const gsm_trainer_options& options)
      : name_(models::info(model, "pictures").name),
        classes_(classes ? classes : models::info(name_).classes),
        net_(models::make(name_, {.classes = classes_, .seed = options.seed})),
        pictures_(models::usual_preprocessing(name_)),
        params_(net_->parameters(), net_->buffers()),
        optimizer_(nn::make_optimizer(options.optimizer ? options.optimizer : "sgd", params_,
                                      optimizer_options(options))),
        step_({.net = *net_,
               .params = params_,
               .loss_of = [this](const nn::StepBatch& batch, const Tensor&) {
                 return cross_entropy((*net_)(pictures_(batch.tensors[0])), batch.tensors[1]);
               }}) {}

  i64 classes() const { return classes_; }
  FlatParams& params() { return params_; }
  Optimizer& optimizer() { return *optimizer_; }

  float gradient(const Images& images, const int32_t* labels) {
    net_->train();
    const Tensor pixels = images.tensor(DType::u8);
    step_.compute({{{pixels, labels_of(labels, images.n)}, {}, pixels.shape()}, {}});
    step_.step_ends();
    fresh_ = true;
    return static_cast<float>(step_.losses().take());
  }
  // Records a tape, which lasts until backward().
  void forward(const Images& images, float* logits) {
    // The running statistics would keep what is not finite.
    check_finite("images", static_cast<const float*>(images.pixels),
                 images.n * images.height * images.width * 3);
    net_->train();
    // The tape may keep its input, which is the caller's.
    outputs_ = (*net_)(images.tensor(DType::f32).clone());
    std::ranges::copy(outputs_.span<float>(), logits);
  }
  void backward(const float* gradient) {
    check<ConfigError>(outputs_.defined(), "gsm_trainer_backward without gsm_trainer_forward");
    check_finite("gradient", gradient, outputs_.numel());
    params_.zero_grad();
    const Tensor g = Tensor::from(std::span(gradient, static_cast<std::size_t>(outputs_.numel())),
                                  outputs_.shape());
    params_.backward(sum(mul(outputs_, g)));
    outputs_ = {};
    fresh_ = true;
  }
  // ConfigError: there is no gradient for this step. ArgumentError: it would end the model, and
  // that of other workers.
  void take_gradient() {
    check<ConfigError>(fresh_,
                       "there is no new gradient; call gsm_trainer_gradient or "
                       "gsm_trainer_backward first");
    fresh_ = false;
    params_.settle_grads();
    check<ArgumentError>(all_finite(params_.grads()),
                         "the gradient is infinite or not a number somewhere; nothing was sent, "
                         "and the model is as it was. A smaller learning rate may help");
  }
  void evaluate(const Images& images, const int32_t* labels, int64_t* correct, float* loss) {
    const NoGrad no_grad;
    net_->eval();
    const Tensor y = (*net_)(pictures_(images.tensor(DType::u8)));
    const Tensor scores = nn::classification_scores(y, labels_of(labels, images.n), 1);
    *loss = scores.as<float>()[0];
    *correct = static_cast<int64_t>(scores.as<float>()[1]);
  }
  void save(const char* path, const char* const* names) const {
    models::ModelHeader header{name_, {}, pictures_};
    for (i64 i = 0; i < classes_; ++i) {
      check<ArgumentError>(!names || names[i], "the name of class ", i, " is NULL");
      header.classes.push_back(names ? names[i] : std::to_string(i));
      check<ArgumentError>(!header.classes.back().empty(), "the name of class ", i,
                           " is empty; give each class a name, or NULL for numbers");
      check<ArgumentError>(header.classes.back().find('\n') == std::string::npos,
                           "the name of class ", i, " has two lines");
    }
    nn::save(path, *net_, params_, params_.values(), models::metadata_of(header));
  }
  void load(const char* path) {
    nn::load(path, *net_, params_);
    // What was computed with other weights is not of these.
    outputs_ = {};
    fresh_ = false;
    for (NamedTensor& of_optimizer : optimizer_->state()) of_optimizer.tensor.fill(0);
  }
  // While a method exchanges the parameters, they are not the caller's.
  void check_own() const {
    check<ConfigError>(!exchanging_,
                       "a method exchanges this model's parameters; call "
                       "gsm_method_step, and the rest after gsm_method_finish, or gsm_method_free "
                       "if that has failed");
  }
  void exchanging(bool on) { exchanging_ = on; }

 private:
  Tensor labels_of(const int32_t* labels, i64 n) const {
    for (i64 i = 0; i < n; ++i)
      check<ArgumentError>(labels[i] >= 0 && labels[i] < classes_, "label ", i, " is ", labels[i],
                           "; wanted 0 to ", classes_ - 1);
    return Tensor::from(std::span(labels, static_cast<std::size_t>(n)), {n});
  }

  std::string name_;
  i64 classes_;
  std::unique_ptr<nn::Module> net_;
  models::Preprocessing pictures_;
  FlatParams params_;
  std::unique_ptr<Optimizer> optimizer_;
  nn::GradientStep step_;
  Tensor outputs_;
  bool fresh_ = false;  // a gradient that no step has taken
  bool exchanging_ = false;
};

class Method final : public Object {
 public:
  Method(std::shared_ptr<Trainer> trainer, std::shared_ptr<Workers> workers, const char* method,
         const char* graph, const gsm_gossip_options& options)
      : trainer_(std::move(trainer)),
        training_(std::move(workers), trainer_->params(), trainer_->optimizer(), method, graph,
                  options) {
    trainer_->exchanging(true);
  }
  bool has_threads() const override { return true; }
  ~Method() override { trainer_->exchanging(false); }
  void finish() {
    training_.finish();
    trainer_->exchanging(false);
  }
  Training& training() { return training_; }
  const std::shared_ptr<Trainer>& trainer() const { return trainer_; }

 private:
  std::shared_ptr<Trainer> trainer_;
  Training training_;
};

template <class T>
Images checked(const T* images, i64 n, i64 height, i64 width) {
  check_given("images", images);
  check_images(n, height, width);
  return {images, n, height, width};
}

}  // namespace

gsm_status gsm_trainer_new(const char* model, int64_t classes, const gsm_trainer_options* options,
                           gsm_trainer** trainer) {
  return guarded([&] {
    check_given("model or trainer", model, trainer);
    check<ArgumentError>(classes >= 0 && classes <= 1 << 20, classes,
                         " classes; wanted 1 to 1048576, or 0 for as many as the model has");
    *trainer = static_cast<gsm_trainer*>(add_object(
        std::make_shared<Trainer>(model, classes, options_of(options, "gsm_trainer_options"))));
  });
}

gsm_status gsm_trainer_gradient(gsm_trainer* trainer, const uint8_t* images, const int32_t* labels,
                                int64_t n, int64_t height, int64_t width, float* loss) {
  return guarded([&] {
    const Exclusive<Trainer> t(trainer);
    check_given("labels or loss", labels, loss);
    *loss = t->gradient(checked(images, n, height, width), labels);
  });
}

gsm_status gsm_trainer_forward(gsm_trainer* trainer, const float* images, int64_t n, int64_t height,
                               int64_t width, float* logits) {
  return guarded([&] {
    const Exclusive<Trainer> t(trainer);
    check_given("logits", logits);
    t->forward(checked(images, n, height, width), logits);
  });
}

gsm_status gsm_trainer_backward(gsm_trainer* trainer, const float* gradient) {
  return guarded([&] {
    const Exclusive<Trainer> t(trainer);
    check_given("gradient", gradient);
    t->backward(gradient);
  });
}

gsm_status gsm_trainer_step(gsm_trainer* trainer, double learning_rate) {
  return guarded([&] {
    const Exclusive<Trainer> t(trainer);
    check_rate(learning_rate);
    t->check_own();
    t->take_gradient();
    t->optimizer().step(static_cast<float>(learning_rate));
  });
}

gsm_status gsm_trainer_evaluate(gsm_trainer* trainer, const uint8_t* images, const int32_t* labels,
                                int64_t n, int64_t height, int64_t width, int64_t* correct,
                                float* loss) {
  return guarded([&] {
    const Exclusive<Trainer> t(trainer);
    check_given("labels, correct or loss", labels, correct, loss);
    t->evaluate(checked(images, n, height, width), labels, correct, loss);
  });
}

gsm_status gsm_trainer_save(gsm_trainer* trainer, const char* path, const char* const* names) {
  return guarded([&] {
    const Exclusive<Trainer> t(trainer);
    check_path(path);
    t->check_own();
    t->save(path, names);
  });
}

gsm_status gsm_trainer_load(gsm_trainer* trainer, const char* path) {
  return guarded([&] {
    const Exclusive<Trainer> t(trainer);
    check_path(path);
    t->check_own();
    t->load(path);
  });
}

gsm_status gsm_trainer_free(gsm_trainer* trainer) {
  return guarded([&] { free_object<Trainer>(trainer); });
}

gsm_status gsm_method_new(gsm_trainer* trainer, gsm_group* group, const char* method,
                          const char* graph, const gsm_gossip_options* options, gsm_method** made) {
  return guarded([&] {
    const Exclusive<Trainer> t(trainer);
    const Exclusive<Workers> workers(group);
    check_given("method, graph or made", method, graph, made);
    t->check_own();
    *made = static_cast<gsm_method*>(add_object(std::make_shared<Method>(
        t.object(), workers.object(), method, graph, options_of(options, "gsm_gossip_options"))));
  });
}

gsm_status gsm_method_step(gsm_method* method, double learning_rate) {
  return guarded([&] {
    const Exclusive<Method> m(method);
    const std::unique_lock lock(m->trainer()->use, std::try_to_lock);
    check<BusyError>(lock.owns_lock(), "another thread uses the trainer");
    check_rate(learning_rate);
    m->trainer()->take_gradient();
    m->training().step(learning_rate);
  });
}

gsm_status gsm_method_done(gsm_method* method, int32_t* done) {
  return guarded([&] {
    const Exclusive<Method> m(method);
    check_given("done", done);
    *done = m->training().done();
  });
}

gsm_status gsm_method_finish(gsm_method* method) {
  return guarded([&] {
    const Exclusive<Method> m(method);
    const std::unique_lock lock(m->trainer()->use, std::try_to_lock);
    check<BusyError>(lock.owns_lock(), "another thread uses the trainer");
    m->finish();
  });
}

gsm_status gsm_method_stats(gsm_method* method, gsm_gossip_stats_t* stats) {
  return guarded(
      [&] { give(Exclusive<Method>(method)->training().stats(), stats, "gsm_gossip_stats_t"); });
}

gsm_status gsm_method_free(gsm_method* method) {
  return guarded([&] { free_object<Method>(method); });
}
