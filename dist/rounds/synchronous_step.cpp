// What a formula asks of a worker that trains (step.h), on the tensors of its model.
#include <cmath>

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/update.h"
#include "gossamer/dist/kept_gradient.h"
#include "gossamer/dist/rounds/synchronous.h"

namespace gossamer::dist {

Tensor SynchronousMethod::vector(Vector which) const {
  switch (which) {
    case Vector::model:
      return params_.values();
    case Vector::gradient:
      return params_.grads();
    case Vector::velocity:
      return velocity_;
    default:
      return own_.at(static_cast<std::size_t>(which) - static_cast<std::size_t>(Vector::first))
          .reshape({-1});
  }
}

void SynchronousMethod::blend(Vector to, double a, double b, Vector from) {
  Tensor changed = vector(to);
  const Tensor added = vector(from);
  if (a == 0) {
    changed.copy_from(added);
    if (b != 1) scale(changed, static_cast<float>(b));
  } else if (a == 1) {
    axpy(changed, static_cast<float>(b), added);
  } else {
    weighted_sum(changed, static_cast<float>(a), static_cast<float>(b), added);
  }
  changed_copy_ = changed_copy_ || to == Vector::model;
}

void SynchronousMethod::average_gradients() {
  constexpr int kTag = 1;
  average_parts({params_.grads()}, kTag);
}

void SynchronousMethod::unscale_gradient() {
  remove_loss_scale(params_);
  Tensor gradient = params_.grads();
  if (!formula_->clips_first() || options_.clip_norm == 0) return;
  const double norm = std::sqrt(squared_norm(gradient));
  if (norm > options_.clip_norm) scale(gradient, static_cast<float>(options_.clip_norm / norm));
}

void SynchronousMethod::update() {
  if (formula_->uses_gradient()) put_loss_scale(params_);
  optimizer_.step(static_cast<float>(learning_rate_), nullptr,
                  {.clip = formula_->clips_first() ? 0 : options_.clip_norm});
}

void SynchronousMethod::mix() {
  mix_round();
  params_.refresh();
  changed_copy_ = false;
}

void SynchronousMethod::mix_ahead() {
  resume_ahead();
  mix_pending();
}

void SynchronousMethod::mix_alone(Vector v) {
  of_model_ = false;
  launch(0, next_round(), vector(v));
  if (pending(0)) mix(0, vector(v));
  of_model_ = true;
}

void SynchronousMethod::relay() { fail<Error>(name(), ": it relays nothing"); }

void SynchronousMethod::begin_replicas() { fail<Error>(name(), ": it has no replicas"); }
void SynchronousMethod::exchange_replicas() { begin_replicas(); }
void SynchronousMethod::receive_replicas() { begin_replicas(); }
void SynchronousMethod::mix_replicas(double) { begin_replicas(); }
void SynchronousMethod::average_compressed(Vector, MeanOver) {
  fail<Error>(name(), ": it compresses nothing");
}

void SynchronousMethod::resume_ahead() {
  if (std::exchange(resumed_, true)) return;
  set_next_round(next_ - 1);
  launch_all(next_round());
}

void SynchronousMethod::average() {
  if (!alone() && average_exactly()) params_.refresh();
}

void SynchronousMethod::outer_step(const OuterStep& numbers) {
  if (!outer_.defined() || alone()) return;
  outer_.step(everything(), params_.values(), numbers);
  Tensor(params_.values()).copy_from(outer_.model(everything()));
  params_.refresh();
}

// --- several vectors in one message

Tensor SynchronousMethod::packed(std::size_t i) const {
  const i64 begin = static_cast<i64>(i) * params_.size();
  return packed_.slice(begin, begin + params_.size());
}

// A vector that was cleared since it was sent begins anew: what comes for it is of the dead, too.
void SynchronousMethod::mix_packed() {
  const bool now = of_now(exchange_.flight(0));
  mix(0, packed_);
  Tensor(params_.values()).copy_from(packed(0));
  const std::vector<Vector> beside = formula_->sends_beside();
  for (std::size_t i = 0; i < beside.size(); ++i) {
    const auto own = static_cast<std::size_t>(beside[i]) - static_cast<std::size_t>(Vector::first);
    if (now || !own_vectors_.at(own).cleared) vector(beside[i]).copy_from(packed(i + 1));
  }
}

void SynchronousMethod::launch_all(const Round& round) {
  if (packed_.defined()) {
    packed(0).copy_from(params_.values());
    const std::vector<Vector> beside = formula_->sends_beside();
    for (std::size_t i = 0; i < beside.size(); ++i) packed(i + 1).copy_from(vector(beside[i]));
    return launch(0, round, packed_);
  }
  for (int slot = 0; slot < slots(); ++slot) launch(slot, round, values_of(slot));
}

void SynchronousMethod::mix_round() {
  launch_all(next_round());
  mix_pending();
}

void SynchronousMethod::mix_pending() {
  if (packed_.defined()) {
    if (pending(0)) mix_packed();
    return;
  }
  for (int slot = 0; slot < slots(); ++slot)
    if (pending(slot)) mix(slot);
}

}  // namespace gossamer::dist
