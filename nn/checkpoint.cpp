// Model files. No other file knows torch's weight layout: OIHW in files, OHWI in memory.
#include "gossamer/nn/checkpoint.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>

#include "gossamer/core/safetensors.h"

namespace gossamer::nn {
namespace {

bool is_conv_weight(const NamedTensor& t) { return t.tensor.rank() == 4; }

// Copies element (i, j, k, l) of [a, b, c, d] to (i, l, j, k) of [a, d, b, c], or back.
Tensor last_to_second(const Tensor& x) {
  const i64 out = x.shape(0), area = x.shape(1) * x.shape(2), in = x.shape(3);
  Tensor y = Tensor::empty({out, in, x.shape(1), x.shape(2)});
  const float* from = x.as<float>();
  float* to = y.as<float>();
  for (i64 o = 0; o < out; ++o)
    for (i64 p = 0; p < area; ++p)
      for (i64 i = 0; i < in; ++i) to[(o * in + i) * area + p] = from[(o * area + p) * in + i];
  return y;
}
Tensor second_to_last(const Tensor& x) {
  const i64 out = x.shape(0), in = x.shape(1), area = x.shape(2) * x.shape(3);
  Tensor y = Tensor::empty({out, x.shape(2), x.shape(3), in});
  const float* from = x.as<float>();
  float* to = y.as<float>();
  for (i64 o = 0; o < out; ++o)
    for (i64 i = 0; i < in; ++i)
      for (i64 p = 0; p < area; ++p) to[(o * area + p) * in + i] = from[(o * in + i) * area + p];
  return y;
}

Shape file_shape(const NamedTensor& t) {
  const Shape& s = t.tensor.shape();
  return is_conv_weight(t) ? Shape{s[0], s[3], s[1], s[2]} : s;
}

void write(const std::filesystem::path& path, std::vector<NamedTensor> state,
           std::map<std::string, std::string> metadata) {
  for (NamedTensor& t : state) {
    if (!t.tensor.device().is_cpu()) t.tensor = t.tensor.to(Device::cpu());
    if (is_floating(t.tensor.dtype()) && t.tensor.dtype() != DType::f32)
      t.tensor = t.tensor.to(DType::f32);
    if (is_conv_weight(t)) t.tensor = last_to_second(t.tensor.detach());
  }
  metadata.emplace("format", "pt");  // Hugging Face's tools look for it
  write_safetensors(path, state, metadata);
}

// The module's state, with the parameters replaced by their windows on `values`.
std::vector<NamedTensor> state_with(const Module& module, const FlatParams& params,
                                    const Tensor& values) {
  std::map<std::string, Tensor> windows;
  for (NamedTensor& w : params.windows(values))
    windows.emplace(std::move(w.name), std::move(w.tensor));
  std::vector<NamedTensor> state = module.state();
  std::size_t replaced = 0;
  for (NamedTensor& t : state)
    if (const auto at = windows.find(t.name);
        at != windows.end() && at->second.shape() == t.tensor.shape()) {
      t.tensor = at->second;
      ++replaced;
    }
  check<ShapeError>(replaced == windows.size(), "model file: ", windows.size() - replaced, " of ",
                    windows.size(), " parameters of the FlatParams do not belong to this module");
  return state;
}

std::string plain_name(std::string name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string prefix : {"module.", "_orig_mod."})
      if (name.starts_with(prefix)) {
        name.erase(0, prefix.size());
        again = true;
      }
  }
  return name;
}

// Counters that files of other frameworks may lack: PyTorch before 0.4.1 wrote no
// num_batches_tracked, and its dropout counts no calls.
bool is_counter(const NamedTensor& t) {
  const std::string_view name = t.name;
  const auto is = [&](std::string_view last) {
    return name.ends_with(last) &&
           (name.size() == last.size() || name[name.size() - last.size() - 1] == '.');
  };
  return t.tensor.rank() == 0 && t.tensor.dtype() == DType::i64 &&
         (is("num_batches_tracked") || is("calls"));
}

std::string listed(const std::vector<std::string>& names) {
  std::ostringstream text;
  for (std::size_t i = 0; i < names.size() && i < 3; ++i) text << (i ? ", " : "") << names[i];
  if (names.size() > 3) text << ", … (" << names.size() << " in all)";
  return text.str();
}

std::map<std::string, std::string> read_into(const std::filesystem::path& path,
                                             std::vector<NamedTensor> state) {
  SafeTensors file = read_safetensors(path);
  std::map<std::string, Tensor> found;
  for (NamedTensor& t : file.tensors) {
    const std::string name = plain_name(t.name);
    check<IoError>(found.emplace(name, t.tensor).second, path.string(),
                   ": two tensors are called \"", name, "\" without their prefixes");
  }
  // Everything is checked before the first value is written, so a failed load changes nothing.
  std::vector<std::string> missing, misshapen, extra;
  std::set<std::string> wanted;
  for (const NamedTensor& t : state) {
    wanted.insert(t.name);
    const auto at = found.find(t.name);
    if (at == found.end()) {
      if (!is_counter(t)) missing.push_back(t.name);
      continue;
    }
    const Tensor& given = at->second;
    if (given.shape() != file_shape(t) ||
        is_floating(given.dtype()) != is_floating(t.tensor.dtype())) {
      std::ostringstream text;
      text << t.name << " is " << given.dtype() << given.shape() << ", wanted " << t.tensor.dtype()
           << file_shape(t);
      misshapen.push_back(text.str());
    }
  }
  for (const auto& [name, tensor] : found)
    if (!wanted.contains(name) && !is_counter({name, tensor})) extra.push_back(name);
  if (!missing.empty() || !misshapen.empty() || !extra.empty()) {
    std::ostringstream text;
    text << path.string() << ": does not fit the model.";
    if (!missing.empty()) text << " Missing: " << listed(missing) << ".";
    if (!extra.empty()) text << " Not in the model: " << listed(extra) << ".";
    if (!misshapen.empty()) text << " Other shape or type: " << listed(misshapen) << ".";
    text << " Was it saved by the same model with the same number of classes?";
    throw IoError(text.str());
  }
  for (NamedTensor& t : state) {
    const auto at = found.find(t.name);
    if (at == found.end()) continue;
    Tensor given = at->second;
    if (is_conv_weight(t))
      given = second_to_last(given.dtype() == DType::f32 ? given : given.to(DType::f32));
    t.tensor.copy_from(given);
  }
  return file.metadata;
}

}  // namespace

void save(const std::filesystem::path& path, const Module& module,
          const std::map<std::string, std::string>& metadata) {
  write(path, module.state(), metadata);
}

void save(const std::filesystem::path& path, const Module& module, const FlatParams& params,
          const Tensor& values, const std::map<std::string, std::string>& metadata) {
  write(path, state_with(module, params, values), metadata);
}

std::map<std::string, std::string> load(const std::filesystem::path& path, Module& module) {
  return read_into(path, module.state());
}

std::map<std::string, std::string> load(const std::filesystem::path& path, Module& module,
                                        FlatParams& params) {
  auto metadata = read_into(path, state_with(module, params, params.values()));
  params.refresh();
  return metadata;
}

std::map<std::string, std::string> read_metadata(const std::filesystem::path& path) {
  return read_safetensors(path).metadata;
}

}  // namespace gossamer::nn
