// Collectives of tensors that may be on a GPU: over the host. For what happens once in a run.
#pragma once

#include "gossamer/core/tensor.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

inline void all_reduce_sum(const Tensor& x, Collectives& all) {
  if (x.device().is_cpu()) return all.all_reduce_sum(x.span<float>());
  const Tensor host = x.to(Device::cpu());
  all.all_reduce_sum(host.span<float>());
  Tensor(x).copy_from(host);
}

inline void broadcast(const Tensor& x, Collectives& all, int root) {
  if (x.device().is_cpu()) return all.broadcast(x.span<float>(), root);
  const Tensor host = x.to(Device::cpu());
  all.broadcast(host.span<float>(), root);
  Tensor(x).copy_from(host);
}

}  // namespace gossamer::dist
