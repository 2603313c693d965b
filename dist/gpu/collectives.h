// Collectives of tensors that may be on a GPU: over pinned memory of the host. The host waits for
// the GPU once in each.
#pragma once

#include "gossamer/core/cuda.h"
#include "gossamer/core/tensor.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {
namespace detail {

// collective(tensor): on x itself, or on a copy of it that goes back.
template <class F>
void on_host(const Tensor& x, F collective) {
  if (x.device().is_cpu()) return collective(x);
  const auto block = cuda::allocate_pinned(x.bytes());
  Tensor host = Tensor::wrap(block->data, x.shape(), DType::f32, [block] {});
  host.copy_from(x);
  collective(host);
  Tensor(x).copy_from(host);
}

}  // namespace detail

inline void all_reduce_sum(const Tensor& x, Collectives& all) {
  detail::on_host(x, [&](const Tensor& values) { all.all_reduce_sum(values); });
}
inline void broadcast(const Tensor& x, Collectives& all, int root) {
  detail::on_host(x, [&](const Tensor& values) { all.broadcast(values, root); });
}

}  // namespace gossamer::dist
