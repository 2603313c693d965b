// See model_copy.h.
#include "gossamer/apps/train/model_copy.h"

namespace gossamer::apps {

ModelCopy::ModelCopy(const TaskModel& model, Device device) {
  std::vector<std::string> notes;  // the worker has them
  net = model.make(false, notes);
  net->to(device);
  nn::Module::Parts parts = net->parts();
  params = std::make_unique<FlatParams>(std::move(parts.parameters), std::move(parts.buffers),
                                        FlatOptions{.compute = model.compute()},
                                        std::move(parts.frozen));
}

void ModelCopy::take_model(Trainer& from) {
  from.method->quiesce([&] { copy(from.params->values(), from.params->buffers(), from); });
}

void ModelCopy::take_ema(const Trainer& from) {
  copy(from.ema->values(), from.ema->buffers(), from);
}

// Both have one layout, since they are made alike.
void ModelCopy::copy(const Tensor& values, const Tensor& buffers, const Trainer& from) {
  Tensor(params->values()).copy_from(values);
  if (buffers.numel() > 0) Tensor(params->buffers()).copy_from(buffers);
  const std::vector<NamedTensor> counters = net->buffers(), theirs = from.net->buffers();
  for (std::size_t i = 0; i < counters.size(); ++i)
    if (counters[i].tensor.dtype() == DType::i64)
      Tensor(counters[i].tensor).copy_from(theirs[i].tensor);
  for (std::size_t i = 0; i < params->frozen().size(); ++i)
    Tensor(params->frozen()[i].tensor).copy_from(from.params->frozen()[i].tensor);
  params->refresh();
}

}  // namespace gossamer::apps
