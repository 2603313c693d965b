// Outer steps on tensors.
#include "gossamer/dist/rounds/outer_model.h"

#include "gossamer/core/blocks.h"

namespace gossamer::dist {

OuterModel::OuterModel(const Tensor& x, bool wanted) {
  if (!wanted) return;
  model_ = x.clone();
  velocity_ = Tensor::zeros({1, x.numel()}, DType::f32, x.device());
}

Tensor OuterModel::model(FlatRange range) const { return model_.slice(range.begin, range.end); }
Tensor OuterModel::velocity(FlatRange range) const {
  return velocity_.reshape({-1}).slice(range.begin, range.end);
}

std::vector<NamedTensor> OuterModel::state() const {
  if (!defined()) return {};
  return {{"outer.model", model_}, {"outer.velocity", velocity_}};
}

// o - r (w d + c v) = (1 - r w) o + r w mean - r c v
void OuterModel::step(FlatRange range, const Tensor& mean, const OuterStep& numbers) {
  Tensor o = model(range), v = velocity(range);
  const auto rate = static_cast<float>(numbers.rate), way = static_cast<float>(numbers.way);
  scale(v, static_cast<float>(numbers.mu));
  axpy(v, 1, o);
  axpy(v, -1, mean);
  if (way != 0) weighted_sum(o, 1 - rate * way, rate * way, mean);
  axpy(o, -rate * static_cast<float>(numbers.velocity), v);
}

}  // namespace gossamer::dist
