// See gpt2_file.h.
#include "gossamer/models/gpt2_file.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "gossamer/core/error.h"
#include "gossamer/core/text/shortest.h"
#include "gossamer/models/named_options.h"
#include "gossamer/nn/checkpoint.h"

namespace gossamer::models {
namespace {

constexpr std::string_view kPrefix = "transformer.";
constexpr const char* kHead = "lm_head.weight";  // which has no prefix

// Hugging Face's Conv1D layers.
bool is_transposed(const NamedTensor& t) {
  return t.tensor.rank() == 2 && t.name.ends_with(".weight") &&
         (t.name.find("attn.c_") != std::string::npos ||
          t.name.find("mlp.c_") != std::string::npos);
}

Tensor transposed(const Tensor& x) {
  const Tensor in = x.dtype() == DType::f32 ? x : x.to(DType::f32);
  const i64 rows = in.shape(0), columns = in.shape(1);
  Tensor out = Tensor::empty({columns, rows});
  const float* from = in.as<float>();
  float* to = out.as<float>();
  for (i64 i = 0; i < rows; ++i)
    for (i64 k = 0; k < columns; ++k) to[k * rows + i] = from[i * columns + k];
  return out;
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

bool is_zero(const Tensor& t) {
  const Tensor values = t.to(DType::f32);
  return std::ranges::all_of(values.span<float>(), [](float v) { return v == 0; });
}

// Those that the shapes of its tensors do not say.
std::vector<NamedSetting> options_beside_shapes(const Gpt2Options& o) {
  std::vector<NamedSetting> out = named_options(o);
  std::erase_if(out, [](const NamedSetting& each) {
    const std::string& name = each.setting.name;
    return name == "layers" || name == "width" || name == "positions";
  });
  return out;
}

}  // namespace

nn::Weights gpt2_weights(nn::Weights file) {
  std::vector<NamedTensor> out;
  const Tensor* head = nullptr;
  for (UnreadTensor& t : file.unread)
    if (t.name.starts_with(kPrefix)) t.name.erase(0, kPrefix.size());
  for (NamedTensor& t : file.tensors) {
    if (t.name.starts_with(kPrefix)) t.name.erase(0, kPrefix.size());
    if (t.name.ends_with(".attn.bias") || t.name.ends_with(".attn.masked_bias")) continue;  // masks
    if (t.name == kHead)
      head = &t.tensor;
    else
      out.push_back({t.name, is_transposed(t) ? transposed(t.tensor) : t.tensor});
  }
  const auto embedding = std::ranges::find(out, "wte.weight", &NamedTensor::name);
  if (head && (embedding == out.end() || !equal(*head, embedding->tensor)))
    out.push_back({kHead, *head});
  file.tensors = std::move(out);
  return file;
}

std::map<std::string, std::string> metadata_of(const std::string& name, const Gpt2Options& o) {
  auto entries = in_header(options_beside_shapes(o));
  entries.insert({{"task", "language"}, {"model", name}, {"eps", six_digits(o.eps)}});
  return entries;
}

Gpt2Options gpt2_header_of(const nn::Weights& file, Gpt2Options o) {
  set_options(o, said_in_header(file, options_beside_shapes(o)));
  if (const auto eps = file.metadata.find("eps"); eps != file.metadata.end()) {
    o.eps = std::strtof(eps->second.c_str(), nullptr);
    check<IoError>(o.eps > 0, file.file, ": \"eps\" in the header is \"", eps->second, "\"");
  }
  return o;
}

nn::Weights gpt2_without_zero_biases(nn::Weights file, const Gpt2& model) {
  if (!model.options().bias)
    std::erase_if(file.tensors, [](const NamedTensor& t) {
      return t.name.ends_with(".bias") && is_zero(t.tensor);
    });
  return file;
}

void load_gpt2(const nn::Weights& file, Gpt2& model) {
  nn::load(gpt2_without_zero_biases(file, model), model);
}

std::vector<NamedTensor> gpt2_in_file(const std::vector<NamedTensor>& parameters, bool bias) {
  std::vector<NamedTensor> out;
  const auto add = [&](const std::string& name, const Tensor& t) {
    out.push_back({name == kHead ? name : std::string(kPrefix) + name, t});
  };
  for (const NamedTensor& p : parameters) {
    const Tensor values = p.tensor.detach().to(Device::cpu()).to(DType::f32);
    add(p.name, is_transposed({p.name, values}) ? transposed(values) : values);
    const bool has_bias = p.name != "wte.weight" && p.name != "wpe.weight" && p.name != kHead;
    if (!bias && has_bias) {
      const std::string layer = p.name.substr(0, p.name.rfind('.'));
      add(layer + ".bias", Tensor::zeros({values.shape(0)}));
    }
  }
  return out;
}

std::vector<NamedTensor> gpt2_tensors(const Gpt2& model, const FlatParams* params) {
  return gpt2_in_file(master_parameters(model, params), model.options().bias);
}

std::optional<Gpt2Options> gpt2_of(const std::vector<NamedTensor>& tensors) {
  const auto find = [&](const std::string& name) -> const Tensor* {
    const auto at = std::ranges::find(tensors, name, &NamedTensor::name);
    return at == tensors.end() ? nullptr : &at->tensor;
  };
  const Tensor *table = find("wte.weight"), *positions = find("wpe.weight");
  if (!table || !positions || table->rank() != 2 || positions->rank() != 2) return std::nullopt;
  Gpt2Options o{.layers = 0,
                .width = table->shape(1),
                .positions = positions->shape(0),
                .vocabulary = table->shape(0)};
  while (find("h." + std::to_string(o.layers) + ".ln_1.weight")) ++o.layers;
  o.heads = gpt2_heads(o.width);
  o.tied = find(kHead) == nullptr;
  if (const Tensor* up = find("h.0.mlp.c_fc.weight");
      up && up->rank() == 2 && up->shape(0) != 4 * o.width)
    o.ff = up->shape(0);
  if (o.layers == 0 || positions->shape(1) != o.width) return std::nullopt;
  return o;
}

}  // namespace gossamer::models
