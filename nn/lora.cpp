// See lora.h.
#include "gossamer/nn/lora.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "gossamer/core/autograd.h"
#include "gossamer/core/error.h"
#include "gossamer/core/ops.h"
#include "gossamer/core/text/spelling.h"
#include "gossamer/nn/layers.h"

namespace gossamer::nn {
namespace {

constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";

bool is_lora(const std::string& name) { return name.ends_with(kA) || name.ends_with(kB); }

}  // namespace

float LoraOptions::scale() const {
  const auto r = static_cast<double>(rank);
  return static_cast<float>(alpha / (rank_stabilised ? std::sqrt(r) : r));
}

void add_lora(Module& model, const NamedLayers& layers, const LoraOptions& o) {
  check<ConfigError>(o.rank >= 1 && o.alpha > 0, "lora: rank ", o.rank, " and alpha ", o.alpha,
                     "; both must be positive");
  std::vector<std::string> known;
  for (const auto& [name, layer] : layers)
    if (std::ranges::find(known, name) == known.end()) known.push_back(name);
  check<ConfigError>(!o.targets.empty(), "lora: no targets; known are ", alternatives(known));
  for (const std::string& target : o.targets)
    check<ConfigError>(std::ranges::find(known, target) != known.end(), "lora: ", target,
                       " is no layer to adapt; known are ", alternatives(known));
  for (const auto& [name, layer] : layers)
    if (std::ranges::find(o.targets, name) != o.targets.end())
      layer->add_low_rank(o.rank, o.scale());
  model.freeze([](const std::string& name) { return !is_lora(name); });
}

bool has_lora(const std::vector<NamedTensor>& parameters) {
  return std::ranges::any_of(parameters, is_lora, &NamedTensor::name);
}

std::vector<NamedTensor> merged_lora(std::vector<NamedTensor> parameters, float scale,
                                     const std::string& file) {
  const NoGrad off;
  std::vector<NamedTensor> adapters;
  for (const NamedTensor& p : parameters)
    if (is_lora(p.name)) adapters.push_back(p);
  std::erase_if(parameters, [](const NamedTensor& p) { return is_lora(p.name); });
  const auto find = [&](std::vector<NamedTensor>& in, const std::string& name) {
    const auto at = std::ranges::find(in, name, &NamedTensor::name);
    check<IoError>(at != in.end(), file, ": has no ", name, ", which its adapter belongs to");
    return at;
  };
  const auto here = [](const Tensor& t) { return t.detach().to(Device::cpu()).to(DType::f32); };
  for (const NamedTensor& each : adapters) {
    const bool is_a = each.name.ends_with(kA);
    const std::string layer = each.name.substr(0, each.name.size() - kA.size());
    const auto other = find(adapters, layer + std::string(is_a ? kB : kA));
    if (!is_a) continue;  // both are there; A merges them
    const auto weight = find(parameters, layer + ".weight");
    const Tensor a = here(each.tensor), b = here(other->tensor), w = here(weight->tensor);
    check<IoError>(a.rank() == 2 && b.rank() == 2 && a.shape(0) == b.shape(1) &&
                       w.shape() == Shape{b.shape(0), a.shape(1)},
                   file, ": ", layer, ": A ", a.shape(), " and B ", b.shape(), " do not fit W ",
                   w.shape());
    weight->tensor = add(w, mul(matmul(b, a), scale));
  }
  return parameters;
}

}  // namespace gossamer::nn
