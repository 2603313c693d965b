// See language_net.h.
#include "gossamer/models/language_net.h"

#include <map>

#include "gossamer/core/ops/decode.h"

namespace gossamer::models {

Tensor last_rows(const Tensor& x) {
  const i64 batch = x.shape(0), length = x.shape(1);
  std::vector<std::int32_t> last;
  for (i64 b = 0; b < batch; ++b) last.push_back(static_cast<std::int32_t>((b + 1) * length - 1));
  return take_rows(x.reshape({batch * length, x.shape(2)}),
                   Tensor::from(last, {batch}).to(x.device()));
}

std::vector<NamedTensor> master_parameters(const LanguageNet& model, const FlatParams* params) {
  std::map<std::string, Tensor> masters;
  if (params) {
    for (const NamedTensor& w : params->windows(params->values())) masters[w.name] = w.tensor;
    for (const NamedTensor& t : params->frozen()) masters[t.name] = t.tensor;
  }
  std::vector<NamedTensor> values = model.parameters();
  for (NamedTensor& p : values)
    if (const auto master = masters.find(p.name); master != masters.end())
      p.tensor = master->second;
  return values;
}

}  // namespace gossamer::models
