// See evaluate.h.
#include "gossamer/apps/train/evaluate.h"

#include <algorithm>

#include "gossamer/core/autograd.h"
#include "gossamer/core/ops.h"

namespace gossamer::apps {

Counts evaluate(nn::Module& net, const std::shared_ptr<const data::Dataset>& set,
                const Pictures& prepare, const EvalOptions& options,
                std::vector<std::string>* damaged) {
  const NoGrad no_grad;
  data::Loader loader(set, {.batch = options.batch,
                            .size = prepare.size,
                            .resize = prepare.resize,
                            .filter = prepare.filter,
                            .threads = options.threads,
                            .rank = options.part,
                            .world = options.parts,
                            .shard = true,
                            .shuffle = false,
                            .drop_last = false,
                            .strict = options.strict,
                            .replace_damaged = false});
  const bool was_training = net.training();
  net.eval();
  Counts counts;
  const int k = static_cast<int>(std::min<std::size_t>(5, set->classes().size()));
  for (i64 step = 0; options.max_batches == 0 || step < options.max_batches; ++step) {
    const data::Batch batch = loader.next();
    if (!batch.images.defined()) break;
    const Tensor logits = net(prepare(batch.images));
    const Tensor labels = batch.labels.to(prepare.device);
    const auto n = static_cast<double>(batch.images.shape(0));
    counts.images += n;
    counts.loss += n * cross_entropy(logits, labels).item();
    counts.top1 += static_cast<double>(count_top_k(logits, labels, 1));
    counts.top5 += static_cast<double>(count_top_k(logits, labels, k));
  }
  net.train(was_training);
  if (damaged) *damaged = loader.damaged();
  return counts;
}

}  // namespace gossamer::apps
