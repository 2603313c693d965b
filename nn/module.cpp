// Module: the tree of parameters, buffers and children.
#include "gossamer/nn/module.h"

#include <algorithm>

#include "gossamer/core/autograd.h"
#include "gossamer/nn/inference.h"

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

Tensor Module::counter(std::string name) {
  return counters_.emplace_back(buffer(std::move(name), Tensor::zeros({}, DType::i64)));
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

std::vector<Tensor> Module::counters() const {
  std::vector<Tensor> out = counters_;
  for (const auto& [name, child] : children_) {
    const std::vector<Tensor> below = child->counters();
    out.insert(out.end(), below.begin(), below.end());
  }
  return out;
}

std::vector<NamedTensor> Module::state() const {
  std::vector<NamedTensor> out;
  collect("", true, true, out);
  return out;
}

void Module::to(Device device) {
  const auto move = [&](Tensor tensor) {
    if (!tensor.slot() || !tensor.slot()->part.whole.defined())
      return tensor.rebind(tensor.to(device));
    PartOf& part = tensor.slot()->part;  // the first part that comes moves the whole
    part.whole.rebind(part.whole.to(device));
    tensor.rebind(part.whole.slice(part.row, part.row + tensor.shape(0)));
  };
  for (const NamedTensor& p : params_) move(p.tensor);
  for (const NamedTensor& b : buffers_)
    if (std::ranges::find(counters_, b.tensor.data(), &Tensor::data) == counters_.end())
      move(b.tensor);
  for (const auto& [name, child] : children_) child->to(device);
}

void Module::train(bool on) {
  training_ = on && !frozen_;
  for (auto& [name, child] : children_) child->train(on);
}

void Module::freeze(const std::function<bool(const std::string&)>& which) { freeze("", which); }

void Module::freeze(const std::string& prefix,
                    const std::function<bool(const std::string&)>& which) {
  for (auto& [name, tensor] : params_)
    if (which(prefix + name)) tensor.requires_grad(false);
  const auto is_frozen = [](const NamedTensor& p) { return !p.tensor.requires_grad(); };
  frozen_ = !params_.empty() && std::ranges::all_of(params_, is_frozen);
  if (frozen_) training_ = false;
  for (auto& [name, child] : children_) child->freeze(prefix + name + ".", which);
}

void Module::divide(const std::string& prefix, Parts& out) const {
  for (const auto& [name, tensor] : params_)
    (tensor.requires_grad() ? out.parameters : out.frozen).push_back({prefix + name, tensor});
  for (const auto& [name, tensor] : buffers_)
    (frozen_ ? out.frozen : out.buffers).push_back({prefix + name, tensor});
  for (const auto& [name, child] : children_) child->divide(prefix + name + ".", out);
}

Module::Parts Module::parts() const {
  Parts out;
  divide("", out);
  return out;
}

int Module::fold(FoldedSteps& steps, int x) {
  return steps.apply(x, [this](const Tensor& in) { return forward(in); });
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

int Sequential::fold(FoldedSteps& steps, int x) {
  for (Module* module : list_) x = module->fold(steps, x);
  return x;
}

}  // namespace gossamer::nn
