// See group_norm.h.
#include "gossamer/nn/group_norm.h"

#include "gossamer/core/error.h"

namespace gossamer::nn {
namespace {

void check_sizes(const char* layer, i64 channels, const GroupNormLayerOptions& o) {
  check<ConfigError>(channels > 0 && o.groups > 0 && channels % o.groups == 0 && o.eps > 0, layer,
                     ": ", channels, " channels, ", o.groups, " groups, eps ", o.eps,
                     "; all must be positive and the groups divide the channels");
}
Tensor scale_of(i64 channels, const GroupNormLayerOptions& o) {
  return Tensor::full({channels}, o.zero_scale ? 0.f : 1.f);
}

}  // namespace

GroupNorm::GroupNorm(i64 channels, GroupNormLayerOptions options) : options_(options) {
  check_sizes("GroupNorm", channels, options);
  weight_ = param("weight", scale_of(channels, options));
  bias_ = param("bias", Tensor::zeros({channels}));
}
Tensor GroupNorm::forward(const Tensor& x) {
  return group_norm(x, weight_, bias_, {options_.groups, options_.eps});
}

EvoNorm::EvoNorm(i64 channels, GroupNormLayerOptions options) : options_(options) {
  check_sizes("EvoNorm", channels, options);
  weight_ = param("weight", scale_of(channels, options));
  bias_ = param("bias", Tensor::zeros({channels}));
  v_ = param("v", Tensor::full({channels}, 1));
}
Tensor EvoNorm::forward(const Tensor& x) {
  return evonorm_s0(x, v_, weight_, bias_, {options_.groups, options_.eps});
}

}  // namespace gossamer::nn
