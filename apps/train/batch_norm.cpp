// See batch_norm.h.
#include "gossamer/apps/train/batch_norm.h"

#include "gossamer/core/autograd.h"
#include "gossamer/nn/layers.h"

namespace gossamer::apps {

void estimate_batch_norm(Task& task, nn::Module& net, const Position& at, i64 batches) {
  const NoGrad no_grad;
  net.train();
  nn::begin_batch_norm_estimate(net);
  for (i64 i = 0; i < batches;) {
    const DrawnBatch batch = task.next(at, 1);
    if (batch.batch.empty()) continue;  // an epoch is over
    task.run(net, batch.batch);
    ++i;
  }
  nn::end_batch_norm_estimate(net);
}

}  // namespace gossamer::apps
