// See model_copy.h.
#include "gossamer/apps/train/model_copy.h"

namespace gossamer::apps {

ModelCopy::ModelCopy(const Worker& w) {
  std::vector<std::string> notes;  // the worker has them
  net = w.task->make_model(false, notes);
  net->to(w.device);
  nn::Module::Parts parts = net->parts();
  params = std::make_unique<FlatParams>(std::move(parts.parameters), std::move(parts.buffers),
                                        FlatOptions{.compute = w.task->compute()},
                                        std::move(parts.frozen));
}

void ModelCopy::take_model(Worker& w) {
  w.method->quiesce([&] { copy(w.params->values(), w.params->buffers(), w); });
}

void ModelCopy::take_ema(const Worker& w) { copy(w.ema->values(), w.ema->buffers(), w); }

// Both have one layout, since they are made alike.
void ModelCopy::copy(const Tensor& values, const Tensor& buffers, const Worker& w) {
  Tensor(params->values()).copy_from(values);
  if (buffers.numel() > 0) Tensor(params->buffers()).copy_from(buffers);
  const std::vector<NamedTensor> counters = net->buffers(), theirs = w.net->buffers();
  for (std::size_t i = 0; i < counters.size(); ++i)
    if (counters[i].tensor.dtype() == DType::i64)
      Tensor(counters[i].tensor).copy_from(theirs[i].tensor);
  for (std::size_t i = 0; i < params->frozen().size(); ++i)
    Tensor(params->frozen()[i].tensor).copy_from(w.params->frozen()[i].tensor);
  params->refresh();
}

}  // namespace gossamer::apps
