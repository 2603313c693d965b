// See muon.h.
#include "gossamer/nn/muon.h"

#include <algorithm>
#include <cmath>

#include "gossamer/core/autograd.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/ops/rearrange.h"

namespace gossamer::nn {

Tensor orthogonal(const Tensor& x) {
  check<ShapeError>(x.rank() == 2, "orthogonal: ", x.shape(), "; wanted a matrix");
  const NoGrad off;
  constexpr float a = 3.4445f, b = -4.7750f, c = 2.0315f;
  const bool tall = x.shape(0) > x.shape(1);  // then x'x is the smaller product
  Tensor y = tall ? transpose(x, 0, 1) : x;
  // A matrix of zeros stays one.
  y = div(y, add(sqrt(sum(square(y))), 1e-7f));
  for (int i = 0; i < 5; ++i) {
    const Tensor square_of = linear(y, y);  // y y'
    const Tensor factor = add(mul(square_of, b), mul(matmul(square_of, square_of), c));
    y = add(mul(y, a), matmul(factor, y));
  }
  return tall ? transpose(y, 0, 1) : y;
}

Muon::Muon(FlatParams& params, const MuonOptions& options)
    : FlatOptimizer(params, options.weight_decay),
      match_rms_(options.match_rms),
      adam_for_(options.adam_for),
      adam_factor_(options.match_rms ? 1 : static_cast<float>(options.adam_factor)),
      rule_{state_block(), state_block(), static_cast<float>(options.muon_momentum)},
      adam_{rule_.momentum, rule_.direction, {}, 0, true},
      count_{Tensor::zeros({1}, DType::i64, params.values().device()), options.beta1, options.beta2,
             options.epsilon} {
  check_settings(options, "Muon");
  const std::vector<FlatParams::Entry>& entries = params.entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!is_hidden(entries[i])) continue;
    const i64 rows = entries[i].shape[0], columns = entries[i].shape.numel() / rows;
    const auto m = static_cast<double>(rows), n = static_cast<double>(columns);
    matrices_.push_back({entries[i].offset,
                         i + 1 < entries.size() ? entries[i + 1].offset : params.size(), rows,
                         columns,
                         static_cast<float>(match_rms_ ? 0.2 * std::sqrt(std::max(m, n))
                                                       : std::sqrt(std::max(1.0, m / n)))});
  }
  set_groups({});
}

bool Muon::is_hidden(const FlatParams::Entry& e) const {
  return e.shape.rank() >= 2 && e.shape.numel() > 0 && !adam_for_(e.name);
}

float Muon::usual_factor(const FlatParams::Entry& e) const {
  return is_hidden(e) ? 1 : adam_factor_;
}

void Muon::begin_step(const GradientScale& scale) {
  FlatOptimizer::begin_step(scale);
  count_step(params_, count_.steps);
}

void Muon::update_matrix(const Matrix& m, const UpdateBlocks& blocks) {
  const FlatRange all{m.begin, m.end};
  muon_direction(params_, rule_, numbers_, all);
  Tensor window =
      rule_.direction.slice(m.begin, m.begin + m.rows * m.columns).reshape({m.rows, m.columns});
  window.copy_from(mul(orthogonal(window), m.scale));
  muon_pass(params_, rule_, numbers_, blocks, all);
}

void Muon::pass(const UpdateBlocks& blocks, FlatRange range, float weight_decay) {
  rule_.weight_decay = adam_.weight_decay = weight_decay;
  i64 at = range.begin;
  const auto adam_until = [&](i64 end) {
    if (at < end) adam_pass(params_, adam_, numbers_, blocks, {at, end});
  };
  for (const Matrix& m : matrices_) {
    if (m.end <= range.begin || m.begin >= range.end) continue;
    check<Error>(m.begin >= range.begin && m.end <= range.end, name(), ": range [", range.begin,
                 ", ", range.end, ") cuts a matrix at [", m.begin, ", ", m.end, ")");
    adam_until(m.begin);
    update_matrix(m, blocks);
    at = m.end;
  }
  adam_until(range.end);
}

std::vector<NamedTensor> Muon::state() {
  return {
      {"momentum", rule_.momentum}, {"second_moment", rule_.direction}, {"steps", count_.steps}};
}

}  // namespace gossamer::nn
