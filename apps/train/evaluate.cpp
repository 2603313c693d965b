// See evaluate.h. Nothing waits for a GPU until the last batch is enqueued: batches are brought by
// StepInputs, and the results of each batch stay on the device.
#include "gossamer/apps/train/evaluate.h"

#include <algorithm>
#include <array>

#include "gossamer/apps/train/step_inputs.h"
#include "gossamer/core/autograd.h"
#include "gossamer/core/ops.h"

namespace gossamer::apps {
namespace {

// The same batch with `size` rows, those after its own zero.
data::Batch filled_up(const data::Batch& batch, i64 size) {
  const auto rows = [&](const Tensor& t) {
    std::vector<i64> shape(t.shape().begin(), t.shape().end());
    shape[0] = size;
    Tensor out = Tensor::zeros(Shape::of(shape.data(), t.rank()), t.dtype());
    out.slice(0, t.shape(0)).copy_from(t);
    return out;
  };
  return {rows(batch.images), rows(batch.labels)};
}

}  // namespace

Counts evaluate(nn::Module& net, const std::shared_ptr<const data::Dataset>& set,
                const Pictures& prepare, const EvalOptions& options,
                std::vector<std::string>* damaged) {
  const NoGrad no_grad;
  const Device device = prepare.device;
  const bool one_size = options.one_size || !device.is_cpu();
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
                            .replace_damaged = false,
                            .pinned = !device.is_cpu()});
  const bool was_training = net.training();
  net.eval();
  const int k = static_cast<int>(std::min<std::size_t>(5, set->classes().size()));
  StepInputs inputs(device);
  std::vector<i64> images;  // of each batch
  const Tensor results =
      Tensor::zeros({loader.steps(), 3}, DType::f32, device);  // loss, top-1, top-5
  for (i64 step = 0; options.max_batches == 0 || step < options.max_batches; ++step) {
    const data::Batch batch = loader.next();
    if (!batch.labels.defined()) break;
    const i64 n = batch.count();
    const bool fill = one_size && n < options.batch;
    const data::Batch in =
        inputs.put(fill ? filled_up(batch, options.batch) : batch, std::array{0.0f}).batch;
    const Tensor logits = net(prepare(in.images)).slice(0, n), labels = in.labels.slice(0, n);
    Tensor row = results.slice(step, step + 1).reshape({3});
    row.slice(0, 1).copy_from(cross_entropy(logits, labels).reshape({1}));
    row.slice(1, 2).copy_from(count_top_k(logits, labels, 1).reshape({1}));
    row.slice(2, 3).copy_from(count_top_k(logits, labels, k).reshape({1}));
    images.push_back(n);
    inputs.step_ends();
  }
  const Tensor table = results.to(Device::cpu());
  Counts counts;
  for (std::size_t i = 0; i < images.size(); ++i) {
    const float* row = table.as<float>() + 3 * i;
    const auto n = static_cast<double>(images[i]);
    counts.images += n;
    counts.loss += n * row[0];
    counts.top1 += static_cast<double>(row[1]);
    counts.top5 += static_cast<double>(row[2]);
  }
  net.train(was_training);
  if (damaged) *damaged = loader.damaged();
  return counts;
}

}  // namespace gossamer::apps
