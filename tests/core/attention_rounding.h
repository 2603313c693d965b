// How far apart two right algorithms of attention may be in 16 bits.
//
// Ours keeps the weights p and the slopes of the scores ds in f32. FlashAttention (Dao 2023,
// arXiv 2307.08691), and cuDNN like it, rounds both to the type of q, k and v before their
// products, since tensor cores multiply that type. So a term of each sum is off by a part u of
// itself, the unit roundoff, and the sum by u times the sum of its terms' sizes at most, however
// much of it cancels:
//   y    = sum_j p_j v_j                      |d y|  <= u sum_j p_j |v_j|
//   ds_j = p_j (dy.v_j - dy.y) scale          |d ds_j| <= u |ds_j| + p_j scale |d(dy.y)|
//   dq   = sum_j ds_j k_j                     |d dq| <= sum_j |d ds_j| |k_j|       dk likewise
//   dv   = sum_i p_i dy_i                     |d dv| <= u sum_i p_i |dy_i|
// where y in dy.y is itself a rounded number of the type. (What p was rounded by does not change
// its sum: that is taken before.)
#pragma once

#include <cmath>
#include <vector>

#include "core/kernel_helpers.h"

namespace gossamer::testing {

// Causal attention over packed rows [batch, length, 3 heads size], and its gradients for dy.
struct AttentionInDouble {
  Tensor y, dqkv;              // f32
  Tensor y_slack, dqkv_slack;  // f32, as above
};

// rounds: as FlashAttention does; else p and ds stay what they are. Results are rounded to the
// type of qkv.
inline AttentionInDouble attention_in_double(const Tensor& qkv, const Tensor& dy, i64 heads,
                                             bool rounds) {
  const DType type = qkv.dtype();
  const i64 batch = qkv.shape()[0], length = qkv.shape()[1], width = qkv.shape()[2] / 3,
            size = width / heads;
  const double u = rounding(type) / 2, scale = 1 / std::sqrt(static_cast<double>(size));
  const auto to_type = [&](double x) {
    const auto f = static_cast<float>(x);
    return static_cast<double>(type == DType::bf16  ? static_cast<float>(bf16(f))
                               : type == DType::f16 ? static_cast<float>(f16(f))
                                                    : f);
  };
  const auto rounded = [&](double x) { return rounds ? to_type(x) : x; };
  const Tensor in = as_f32(qkv), slopes = as_f32(dy);
  AttentionInDouble out{Tensor::zeros(dy.shape()), Tensor::zeros(qkv.shape()),
                        Tensor::zeros(dy.shape()), Tensor::zeros(qkv.shape())};
  const auto at = [&](i64 b, i64 part, i64 t, i64 h) {
    return static_cast<std::size_t>((b * length + t) * 3 * width + part * width + h * size);
  };
  const auto add = [](Tensor& to, std::size_t i, double x) {
    to.span<float>()[i] += static_cast<float>(x);
  };
  const auto n = static_cast<std::size_t>(size);
  for (i64 b = 0; b < batch; ++b)
    for (i64 h = 0; h < heads; ++h)
      for (i64 t = 0; t < length; ++t) {
        const float *q = &in.span<float>()[at(b, 0, t, h)],
                    *g = &slopes.span<float>()[static_cast<std::size_t>((b * length + t) * width +
                                                                        h * size)];
        const auto keys = static_cast<std::size_t>(t + 1);
        std::vector<double> e(keys);
        double most = -INFINITY, sum = 0;
        for (std::size_t j = 0; j < keys; ++j) {
          const float* k = &in.span<float>()[at(b, 1, static_cast<i64>(j), h)];
          for (std::size_t c = 0; c < n; ++c) e[j] += static_cast<double>(q[c]) * k[c] * scale;
          most = std::max(most, e[j]);
        }
        for (double& each : e) sum += each = std::exp(each - most);
        double dot = 0, dot_slack = 0;  // of dy and y
        for (std::size_t c = 0; c < n; ++c) {
          double y = 0, slack = 0;
          for (std::size_t j = 0; j < keys; ++j) {
            const double v = in.span<float>()[at(b, 2, static_cast<i64>(j), h) + c];
            y += rounded(e[j]) * v / sum;
            slack += u * e[j] * std::fabs(v) / sum;
          }
          const std::size_t i = static_cast<std::size_t>((b * length + t) * width + h * size) + c;
          add(out.y, i, to_type(y));
          add(out.y_slack, i, slack);
          dot += to_type(y) * g[c];
          dot_slack += (slack + 2 * u * std::fabs(y)) * std::fabs(static_cast<double>(g[c]));
        }
        for (std::size_t j = 0; j < keys; ++j) {
          const std::size_t key = at(b, 1, static_cast<i64>(j), h),
                            value = at(b, 2, static_cast<i64>(j), h), query = at(b, 0, t, h);
          const double p = e[j] / sum;
          double dp = 0;
          for (std::size_t c = 0; c < n; ++c)
            dp += static_cast<double>(g[c]) * in.span<float>()[value + c];
          const double exact = p * (dp - dot) * scale, ds = rounded(exact),
                       slack = u * std::fabs(exact) + p * scale * dot_slack;
          for (std::size_t c = 0; c < n; ++c) {
            const double k = in.span<float>()[key + c], x = q[c], d = g[c];
            add(out.dqkv, query + c, ds * k);
            add(out.dqkv_slack, query + c, slack * std::fabs(k));
            add(out.dqkv, key + c, ds * x);
            add(out.dqkv_slack, key + c, slack * std::fabs(x));
            add(out.dqkv, value + c, rounded(p) * d);
            add(out.dqkv_slack, value + c, u * p * std::fabs(d));
          }
        }
      }
  for (float& each : out.dqkv.span<float>()) each = static_cast<float>(to_type(each));
  return out;
}

}  // namespace gossamer::testing
