// See batch_norm.h.
#include "gossamer/apps/train/batch_norm.h"

#include "gossamer/nn/layers.h"

namespace gossamer::apps {

void estimate_batch_norm(Task& task, nn::Module& net, const nn::Position& at, i64 batches) {
  nn::estimate_batch_norm(net, [&] {
    for (i64 i = 0; i < batches;) {
      const nn::DrawnBatch batch = task.next(at, 1);
      if (batch.batch.empty()) continue;  // an epoch is over
      task.run(net, batch.batch);
      ++i;
    }
  });
}

}  // namespace gossamer::apps
