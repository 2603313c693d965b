// Module: the tree of parameters, buffers and children.
#include "gossamer/nn/module.h"

#include <algorithm>

namespace gossamer::nn {

void Module::check_name(const std::string& name) const {
  const auto same = [&](const auto& entry) {
    if constexpr (requires { entry.name; })
      return entry.name == name;
    else
      return entry.first == name;
  };
  check(!name.empty() && name.find('.') == name.npos, "module: \"", name,
        "\" cannot be the name of a part: it must be non-empty, without dots");
  check(std::ranges::none_of(params_, same) && std::ranges::none_of(buffers_, same) &&
            std::ranges::none_of(children_, same),
        "module: two parts are called \"", name, "\"");
}

Tensor Module::param(std::string name, Tensor init) {
  check_name(name);
  init.requires_grad();
  params_.push_back({std::move(name), init});
  return init;
}

Tensor Module::buffer(std::string name, Tensor init) {
  check_name(name);
  buffers_.push_back({std::move(name), init});
  return init;
}

void Module::collect(const std::string& prefix, bool params, bool buffers,
                     std::vector<NamedTensor>& out) const {
  if (params)
    for (const auto& [name, tensor] : params_) out.push_back({prefix + name, tensor});
  if (buffers)
    for (const auto& [name, tensor] : buffers_) out.push_back({prefix + name, tensor});
  for (const auto& [name, child] : children_)
    child->collect(prefix + name + ".", params, buffers, out);
}

std::vector<NamedTensor> Module::parameters() const {
  std::vector<NamedTensor> out;
  collect("", true, false, out);
  return out;
}

std::vector<NamedTensor> Module::buffers() const {
  std::vector<NamedTensor> out;
  collect("", false, true, out);
  return out;
}

std::vector<NamedTensor> Module::state() const {
  std::vector<NamedTensor> out;
  collect("", true, true, out);
  return out;
}

void Module::to(Device device) {
  for (const NamedTensor& entry : state())
    if (is_floating(entry.tensor.dtype())) Tensor(entry.tensor).rebind(entry.tensor.to(device));
}

void Module::train(bool on) {
  training_ = on;
  for (auto& [name, child] : children_) child->train(on);
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> out{this};
  for (auto& [name, child] : children_) {
    const std::vector<Module*> below = child->modules();
    out.insert(out.end(), below.begin(), below.end());
  }
  return out;
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (Module* module : list_) y = module->forward(y);
  return y;
}

}  // namespace gossamer::nn
