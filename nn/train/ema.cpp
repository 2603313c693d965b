// See ema.h.
#include "gossamer/nn/train/ema.h"

#include <algorithm>
#include <cmath>

#include "gossamer/core/blocks.h"

namespace gossamer::nn {

Ema::Ema(const FlatParams& params, double decay)
    : decay_(decay),
      values_(params.values().clone()),
      buffers_(params.buffers().clone()),
      updates_(Tensor::zeros({1}, DType::i64)) {}

double Ema::decay_at(double decay, i64 update) {
  return std::min(decay, 1 - std::pow(static_cast<double>(update), -2.0 / 3));
}

void Ema::update(const FlatParams& params) {
  const double d = decay_at(decay_, ++*updates_.as<i64>());
  const auto own = static_cast<float>(d), share = static_cast<float>(1 - d);
  weighted_sum(values_, own, share, params.values());
  if (buffers_.numel() > 0) weighted_sum(buffers_, own, share, params.buffers());
}

void Ema::restart(const FlatParams& params) {
  *updates_.as<i64>() = 0;
  values_.copy_from(params.values());
  if (buffers_.numel() > 0) buffers_.copy_from(params.buffers());
}

std::vector<NamedTensor> Ema::state(const FlatParams& params, const std::string& prefix) const {
  std::vector<NamedTensor> all = params.windows(values_, prefix);
  for (const FlatParams::Entry& e : params.buffer_entries())
    all.push_back(
        {prefix + e.name, buffers_.slice(e.offset, e.offset + e.shape.numel()).reshape(e.shape)});
  all.push_back({prefix + "updates", updates_});
  return all;
}

void EmaInPlace::swap() {
  const auto exchange = [](Tensor& ours, Tensor theirs) {
    if (ours.numel() == 0) return;
    const Tensor kept = ours.clone();
    ours.copy_from(theirs);
    theirs.copy_from(kept);
  };
  exchange(ema_.values_, params_.values());
  exchange(ema_.buffers_, params_.buffers());
  params_.refresh();
}

}  // namespace gossamer::nn
