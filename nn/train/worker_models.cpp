// See worker_models.h.
#include "gossamer/nn/train/worker_models.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/nn/train/train_state.h"

namespace fs = std::filesystem;

namespace gossamer::nn {
namespace {

std::vector<NamedTensor> model_in(SafeTensors file) {
  std::erase_if(file.tensors,
                [&](const NamedTensor& t) { return !is_of_model(t.name, file.metadata); });
  return std::move(file.tensors);
}

std::string mean_of(const std::string& variance) {
  return variance.substr(0, variance.size() - 3) + "mean";
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.data(), b.data(),
                     static_cast<std::size_t>(a.numel()) * size_of(a.dtype())) == 0;
}

struct Sum {
  NamedTensor first, sum;
  bool equal = true;  // in all files until now
  bool averaged() const { return first.tensor.dtype() == DType::f32; }
  bool variance() const { return averaged() && first.name.ends_with("running_var"); }
};

}  // namespace

std::vector<NamedTensor> mean_of_workers(const std::vector<fs::path>& files) {
  const float share = 1.0f / static_cast<float>(files.size());
  std::map<std::string, Sum> all;
  std::vector<std::string> order;
  const auto add = [&](Tensor sum, const Tensor& value) { axpy(sum, share, value); };
  for (const fs::path& path : files) {
    std::map<std::string, Tensor> model;
    for (NamedTensor& t : model_in(read_safetensors(path))) {
      if (path == files[0]) {
        order.push_back(t.name);
        all[t.name] = {.first = t, .sum = {t.name, Tensor::zeros(t.tensor.shape())}};
      }
      model[t.name] = t.tensor;
    }
    for (auto& [name, s] : all) {
      const auto found = model.find(name);
      check<IoError>(found != model.end() && found->second.shape() == s.first.tensor.shape() &&
                         found->second.dtype() == s.first.tensor.dtype(),
                     path.string(), ": \"", name, "\" is missing or has another shape than in ",
                     files[0].string());
      const Tensor& value = found->second;
      s.equal = s.equal && same_bits(value, s.first.tensor);
      if (!s.averaged()) continue;
      add(s.sum.tensor, value);
      if (!s.variance()) continue;
      const auto mean = model.find(mean_of(name));
      check<IoError>(mean != model.end() && mean->second.shape() == value.shape(), path.string(),
                     ": \"", name, "\" has no mean beside it");
      const Tensor square = mean->second.clone();
      for (float& v : square.span<float>()) v *= v;
      add(s.sum.tensor, square);
    }
    check<IoError>(model.size() == all.size(), path.string(), ": has ", model.size(),
                   " tensors of a model, ", files[0].string(), " has ", all.size());
  }
  std::vector<NamedTensor> out;
  for (const std::string& name : order) {
    Sum& s = all.at(name);
    if (s.variance() && !(s.equal && all.at(mean_of(name)).equal)) {
      const auto mean = all.at(mean_of(name)).sum.tensor.span<float>();
      const auto to = s.sum.tensor.span<float>();
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = std::max(0.0f, to[i] - mean[i] * mean[i]);
      out.push_back(s.sum);
    } else {
      out.push_back(s.equal || !s.averaged() ? s.first : s.sum);
    }
  }
  return out;
}

void load_mean_of_workers(const std::vector<fs::path>& files, FlatParams& params) {
  const std::vector<NamedTensor> mean = mean_of_workers(files);
  std::vector<NamedTensor> targets = params.windows(params.values());
  for (const std::vector<NamedTensor>& more : {params.buffer_windows(), params.frozen()})
    targets.insert(targets.end(), more.begin(), more.end());
  for (NamedTensor& target : targets) {
    const auto source = std::ranges::find(mean, target.name, &NamedTensor::name);
    check<OtherShapes>(source != mean.end() && source->tensor.shape() == target.tensor.shape() &&
                           source->tensor.dtype() == target.tensor.dtype(),
                       files[0].string(), ": \"", target.name,
                       "\" is missing or has another shape");
    target.tensor.copy_from(source->tensor);
  }
  params.refresh();
}

}  // namespace gossamer::nn
