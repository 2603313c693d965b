// Training a model of the table: gradients, one's own loss, an optimizer or a decentralized method.
#include <algorithm>
#include <cmath>
#include <span>

#include "gossamer/apps/capi/cancel.h"
#include "gossamer/apps/capi/trainer.h"
#include "gossamer/apps/capi/workers.h"
#include "gossamer/nn/schedule.h"

using namespace gossamer;
using namespace gossamer::capi;

namespace {

// The batch of a call, as the trainer's step takes it; it may keep the caller's memory until then.
nn::StepBatch images_of(const Trainer& t, const uint8_t* images, const int32_t* labels, i64 n,
                        i64 height, i64 width) {
  t.check_task("pictures");
  check_given("images", images);
  check_images(n, height, width, t.channels());
  for (i64 i = 0; i < n; ++i)
    check<ArgumentError>(labels[i] >= 0 && labels[i] < t.outputs(), "label ", i, " is ", labels[i],
                         "; wanted 0 to ", t.outputs() - 1);
  const Tensor pixels =
      Tensor::wrap(const_cast<uint8_t*>(images), {n, height, width, t.channels()}, DType::u8);
  return {{pixels, Tensor::from(std::span(labels, static_cast<std::size_t>(n)), {n})},
          {},
          pixels.shape()};
}

void check_ids(const Trainer& t, const char* name, const int32_t* ids, i64 n, int32_t least) {
  for (i64 i = 0; i < n; ++i)
    check<ArgumentError>(ids[i] >= least && ids[i] < t.outputs(), name, "[", i, "] is ", ids[i],
                         "; wanted ", least, " to ", t.outputs() - 1);
}

Tensor ids_of(const Trainer& t, const char* name, const int32_t* ids, i64 n, i64 length,
              int32_t least = 0) {
  constexpr i64 most = i64{1} << 31;
  check_given(name, ids);
  check<ArgumentError>(n >= 1 && length >= 1 && n < most && length < most && n * length < most,
                       name, " of [", n, ", ", length,
                       "]; sizes must be at least 1, and their product below 2^31");
  check_ids(t, name, ids, n * length, least);
  return Tensor::from(std::span(ids, static_cast<std::size_t>(n * length)), {n, length});
}

constexpr int32_t kNoLabel = -1;

nn::StepBatch text_of(const Trainer& t, const int32_t* ids, const int32_t* labels, i64 n,
                      i64 length) {
  t.check_task("language");
  const Tensor x = ids_of(t, "ids", ids, n, length);
  Tensor y;
  if (labels) {
    y = ids_of(t, "labels", labels, n, length, kNoLabel);
  } else {
    y = Tensor::empty({n, length}, DType::i32);
    auto* const out = y.as<int32_t>();
    for (i64 i = 0; i < n * length; ++i) out[i] = (i + 1) % length == 0 ? kNoLabel : ids[i + 1];
  }
  const std::span<const int32_t> all = y.span<int32_t>();
  check<ArgumentError>(std::ranges::any_of(all, [](int32_t label) { return label >= 0; }),
                       "no id has a label; give texts of 2 ids at least, or labels");
  return {{x, y}, {}, x.shape()};
}

class Method final : public AnyMethod {
 public:
  Method(std::shared_ptr<Trainer> trainer, std::shared_ptr<Workers> workers, TrainingPlan plan)
      : trainer_(std::move(trainer)),
        training_(std::move(workers), trainer_->params(), trainer_->optimizer(), std::move(plan)) {
    trainer_->exchanging(&training_);
  }
  ~Method() override {
    if (trainer_->locked()) trainer_->unlock();
    trainer_->exchanging(nullptr);
  }
  void step(double learning_rate) override {
    const auto lock = alone();
    trainer_->take_gradient();
    training_.step(learning_rate);
    trainer_->stepped();
  }
  void finish() override {
    const auto lock = alone();
    training_.finish();
    trainer_->exchanging(nullptr);
  }
  Training& training() override { return training_; }

 private:
  std::unique_lock<std::shared_mutex> alone() const {
    std::unique_lock lock(trainer_->use, std::try_to_lock);
    check<BusyError>(lock.owns_lock(), "another thread uses the trainer");
    trainer_->check_unlocked();
    return lock;
  }

  std::shared_ptr<Trainer> trainer_;
  Training training_;
};

}  // namespace

gsm_status gsm_trainer_new(const char* model, int64_t classes, const gsm_trainer_options* options,
                           gsm_trainer** trainer) {
  return guarded([&] {
    check_given("trainer", trainer);
    check<ArgumentError>(classes >= 0 && classes <= 10000000, classes,
                         " classes; wanted 1 to 10000000, or 0 for as many as the model has");
    *trainer = static_cast<gsm_trainer*>(
        add_object(Trainer::make(model, classes, options_of(options, "gsm_trainer_options"))));
  });
}

gsm_status gsm_trainer_gradient(gsm_trainer* trainer, const uint8_t* images, const int32_t* labels,
                                int64_t n, int64_t height, int64_t width, float* loss) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_given("labels or loss", labels, loss);
    *loss = t->gradient(images_of(*t.object(), images, labels, n, height, width));
  });
}

gsm_status gsm_trainer_gradient_ids(gsm_trainer* trainer, const int32_t* ids, const int32_t* labels,
                                    int64_t n, int64_t length, float* loss) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_given("loss", loss);
    *loss = t->gradient(text_of(*t.object(), ids, labels, n, length));
  });
}

gsm_status gsm_trainer_gradient_pairs(gsm_trainer* trainer, const int32_t* source,
                                      const int32_t* lengths, const int32_t* inputs,
                                      const int32_t* labels, int64_t n, int64_t source_length,
                                      int64_t length, float* loss) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_given("lengths or loss", lengths, loss);
    t->check_task("translation");
    const Trainer& of = *t.object();
    const Tensor x = ids_of(of, "source", source, n, source_length);
    for (i64 i = 0; i < n; ++i)
      check<ArgumentError>(lengths[i] >= 1 && lengths[i] <= source_length, "lengths[", i, "] is ",
                           lengths[i], "; wanted 1 to ", source_length);
    *loss = t->gradient({{x, Tensor::from(std::span(lengths, static_cast<std::size_t>(n)), {n}),
                          ids_of(of, "inputs", inputs, n, length),
                          ids_of(of, "labels", labels, n, length, kNoLabel)},
                         {},
                         {n, source_length, length}});
  });
}

gsm_status gsm_trainer_forward(gsm_trainer* trainer, const float* images, int64_t n, int64_t height,
                               int64_t width, float* logits) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_given("images or logits", images, logits);
    t->check_task("pictures");
    check_images(n, height, width, t->channels());
    const Shape shape{n, height, width, t->channels()};
    // The running statistics would keep what is not finite.
    check_finite("images", images, shape.numel());
    const Tensor y = t->forward(Tensor::wrap(const_cast<float*>(images), shape, DType::f32));
    std::ranges::copy(y.span<float>(), logits);
  });
}

gsm_status gsm_trainer_forward_ids(gsm_trainer* trainer, const int32_t* ids, int64_t n,
                                   int64_t length, float* logits) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_given("logits", logits);
    t->check_task("language");
    const Tensor y = t->forward(ids_of(*t.object(), "ids", ids, n, length));
    std::ranges::copy(y.span<float>(), logits);
  });
}

gsm_status gsm_trainer_backward(gsm_trainer* trainer, const float* gradient) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_given("gradient", gradient);
    t->backward(gradient);
  });
}

gsm_status gsm_trainer_step(gsm_trainer* trainer, double learning_rate) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_rate(learning_rate);
    t->check_own();
    t->take_gradient();
    t->step(learning_rate);
  });
}

gsm_status gsm_trainer_steps(gsm_trainer* trainer, int64_t* steps) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_given("steps", steps);
    *steps = t->steps();
  });
}

namespace {

gsm_status evaluate(gsm_trainer* trainer, const uint8_t* images, const int32_t* labels, int64_t n,
                    int64_t height, int64_t width, int64_t* correct, float* loss, bool average) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_given("labels, correct or loss", labels, correct, loss);
    const Trainer::Score score =
        t->evaluate(images_of(*t.object(), images, labels, n, height, width), average);
    *loss = score.loss;
    *correct = score.right;
  });
}

gsm_status evaluate_ids(gsm_trainer* trainer, const int32_t* ids, const int32_t* labels, int64_t n,
                        int64_t length, float* loss, bool average) {
  return guarded([&] {
    const Unlocked t(trainer);
    check_given("loss", loss);
    *loss = t->evaluate(text_of(*t.object(), ids, labels, n, length), average).loss;
  });
}

}  // namespace

gsm_status gsm_trainer_evaluate(gsm_trainer* trainer, const uint8_t* images, const int32_t* labels,
                                int64_t n, int64_t height, int64_t width, int64_t* correct,
                                float* loss) {
  return evaluate(trainer, images, labels, n, height, width, correct, loss, false);
}

gsm_status gsm_trainer_evaluate_average(gsm_trainer* trainer, const uint8_t* images,
                                        const int32_t* labels, int64_t n, int64_t height,
                                        int64_t width, int64_t* correct, float* loss) {
  return evaluate(trainer, images, labels, n, height, width, correct, loss, true);
}

gsm_status gsm_trainer_evaluate_ids(gsm_trainer* trainer, const int32_t* ids, const int32_t* labels,
                                    int64_t n, int64_t length, float* loss) {
  return evaluate_ids(trainer, ids, labels, n, length, loss, false);
}

gsm_status gsm_trainer_evaluate_average_ids(gsm_trainer* trainer, const int32_t* ids,
                                            const int32_t* labels, int64_t n, int64_t length,
                                            float* loss) {
  return evaluate_ids(trainer, ids, labels, n, length, loss, true);
}

gsm_status gsm_schedule_rate(const gsm_schedule* schedule, double seen, double* rate) {
  return guarded([&] {
    check_given("schedule or rate", schedule, rate);
    const gsm_schedule s = options_of(schedule, "gsm_schedule");
    check_numbers("gsm_schedule", {{"rate", s.rate},
                                   {"total", s.total},
                                   {"warmup", s.warmup},
                                   {"warmup_from", s.warmup_from},
                                   {"end", s.end},
                                   {"gamma", s.gamma},
                                   {"decay", s.decay},
                                   {"n_milestones", s.n_milestones}});
    check<ArgumentError>(seen >= 0 && std::isfinite(seen), "gsm_schedule_rate: ", seen,
                         " are seen; wanted 0 or more");
    check<ArgumentError>(s.total > 0, "gsm_schedule.total is 0; say how long the training is");
    nn::ScheduleOptions options{.peak = s.rate,
                                .total = s.total,
                                .warmup = s.warmup,
                                .warmup_from = s.warmup_from,
                                .final = s.end};
    if (s.kind) options.kind = s.kind;
    if (s.gamma > 0) options.gamma = s.gamma;
    if (s.decay > 0) options.decay = s.decay;
    if (s.n_milestones > 0) {
      check_given("gsm_schedule.milestones", s.milestones);
      options.milestones.assign(s.milestones, s.milestones + s.n_milestones);
    }
    *rate = nn::make_schedule(options)(seen);
  });
}

gsm_status gsm_trainer_free(gsm_trainer* trainer) {
  return guarded([&] { free_object<Trainer>(trainer); });
}

gsm_status gsm_method_new(gsm_trainer* trainer, gsm_group* group, const char* method,
                          const char* graph, const gsm_gossip_options* options, gsm_method** made) {
  return guarded([&] {
    check_given("method, graph or made", method, graph, made);
    TrainingPlan plan = plan_of(method, graph, options_of(options, "gsm_gossip_options"));
    *made = static_cast<gsm_method*>(
        add_object(waiting<std::shared_ptr<Method>>([trainer, group, plan = std::move(plan)] {
          const Unlocked t(trainer);
          const Exclusive<Workers> workers(group);
          t->check_own();
          TrainingPlan own = plan;
          own.options.clip_norm = t->clip_norm();
          own.from = t->method_state();
          return std::make_shared<Method>(t.object(), workers.object(), std::move(own));
        })));
  });
}

gsm_status gsm_method_step(gsm_method* method, double learning_rate) {
  return guarded([&] {
    run_waiting([=] {
      const Exclusive<AnyMethod> m(method);
      check_rate(learning_rate);
      m->step(learning_rate);
    });
  });
}

gsm_status gsm_method_done(gsm_method* method, int32_t* done) {
  return guarded([&] {
    const Exclusive<AnyMethod> m(method);
    check_given("done", done);
    *done = m->training().done();
  });
}

gsm_status gsm_method_finish(gsm_method* method) {
  return guarded([&] { run_waiting([=] { Exclusive<AnyMethod>(method)->finish(); }); });
}

gsm_status gsm_method_stats(gsm_method* method, gsm_gossip_stats_t* stats) {
  return guarded(
      [&] { give(Exclusive<AnyMethod>(method)->training().stats(), stats, "gsm_gossip_stats_t"); });
}

gsm_status gsm_method_free(gsm_method* method) {
  return guarded([&] { free_object<AnyMethod>(method); });
}
