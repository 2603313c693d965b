// Layers by their text, as handles.
#include "gossamer/nn/layers.h"

#include "gossamer/apps/capi/cancel.h"
#include "gossamer/apps/capi/networks.h"
#include "gossamer/nn/described.h"
#include "gossamer/nn/init.h"
#include "gossamer/nn/selection.h"

using namespace gossamer;
using namespace gossamer::capi;

namespace gossamer::capi {

Net::Net(const std::string& layers, std::uint64_t seed) {
  nn::seed_initialisation(seed);
  module_ = nn::make_described(layers);
}

Tensor Net::forward(const Tensor& x, bool training) {
  module_->train(training);
  return (*module_)(x);
}

void Net::freeze(const std::string& patterns) {
  check<ConfigError>(set.expired(),
                     "these layers belong to a set of parameters; freeze them before "
                     "gsm_params_add_module");
  const nn::Selection which(patterns);
  std::vector<std::string> names;
  for (const NamedTensor& p : module_->parameters()) names.push_back(p.name);
  which.check_used(names);
  module_->freeze(which);
}

}  // namespace gossamer::capi

gsm_status gsm_module_new(const char* layers, uint64_t seed, gsm_module** module) {
  return guarded([&] {
    check_given("layers or module", layers, module);
    *module = static_cast<gsm_module*>(add_object(std::make_shared<Net>(layers, seed)));
  });
}

gsm_status gsm_module_forward(gsm_module* module, gsm_tensor* x, int32_t training, gsm_tensor** y) {
  return computed([&] {
    const Exclusive<Net> net(module);
    const std::shared_ptr<Object> set = net->set.lock();
    const auto lock = reading(set);
    const Reading in(x);
    check_given("y", y);
    *y = hold(net->forward(*in, training != 0));
  });
}

gsm_status gsm_module_freeze(gsm_module* module, const char* patterns) {
  return guarded([&] {
    const Exclusive<Net> net(module);
    check_given("patterns", patterns);
    net->freeze(patterns);
  });
}

gsm_status gsm_module_free(gsm_module* module) {
  return guarded([&] { free_object<Net>(module); });
}
