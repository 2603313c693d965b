// Model files. No other file knows torch's weight layout: OIHW in files, OHWI in memory.
#include "gossamer/nn/checkpoint.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>

#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/text/listed.h"

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
  metadata.emplace("format", "pt");  // Hugging Face's tools look for it
  write_safetensors(path, in_file_layout(std::move(state)), metadata);
}

// The module's state, with the parameters replaced by their windows on `values`.
std::vector<NamedTensor> state_with(const Module& module, const FlatParams& params,
                                    const Tensor& values) {
  std::map<std::string, Tensor> windows;
  for (NamedTensor& w : params.windows(values))
    windows.emplace(std::move(w.name), std::move(w.tensor));
  for (const NamedTensor& t : params.frozen()) windows.emplace(t.name, t.tensor);
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

// Counters that files of other frameworks may lack: PyTorch before 0.4.1 wrote no
// num_batches_tracked, its dropout counts no calls, and its averages of models (swa_utils) count
// themselves.
bool is_counter(const NamedTensor& t) {
  const std::string_view name = t.name;
  const auto is = [&](std::string_view last) {
    return name.ends_with(last) &&
           (name.size() == last.size() || name[name.size() - last.size() - 1] == '.');
  };
  return t.tensor.rank() == 0 && t.tensor.dtype() == DType::i64 &&
         (is("num_batches_tracked") || is("calls") || is("n_averaged"));
}

// Who casts a state dict to 16 or 64 bits casts its counters, too.
bool is_cast_counter(const NamedTensor& t, const Tensor& given) {
  return is_counter(t) && given.rank() == 0 && is_floating(given.dtype());
}
// 16 bits may have cut it: then it is what it was.
void copy_cast_counter(const Tensor& given, Tensor& counter) {
  const float count = given.to(DType::f32).item();
  if (!(count >= 0 && count < 0x1p62F)) return;
  Tensor whole = Tensor::empty({}, DType::i64);
  *whole.as<i64>() = static_cast<i64>(count);
  counter.copy_from(whole);
}

Fit compare(const Weights& file, const std::vector<NamedTensor>& state) {
  Fit fit;
  std::set<std::string> wanted;
  for (const NamedTensor& t : state) {
    wanted.insert(t.name);
    file.check_read(t.name);
    const Tensor* given = file.find(t.name);
    if (!given) {
      if (!is_counter(t)) fit.missing.push_back(t.name);
    } else if ((given->shape() != file_shape(t) ||
                is_floating(given->dtype()) != is_floating(t.tensor.dtype())) &&
               !is_cast_counter(t, *given)) {
      std::ostringstream text;
      text << t.name << " is " << given->dtype() << given->shape() << ", wanted "
           << t.tensor.dtype() << file_shape(t);
      fit.misshapen.push_back(text.str());
    } else {
      fit.fitting.push_back(t.name);
    }
  }
  for (const NamedTensor& t : file.tensors)
    if (!wanted.contains(t.name) && !is_counter(t)) fit.extra.push_back(t.name);
  return fit;
}

void copy(const Weights& file, const std::vector<NamedTensor>& state, const Fit& fit) {
  const std::set<std::string> fitting(fit.fitting.begin(), fit.fitting.end());
  for (NamedTensor t : state) {
    if (!fitting.contains(t.name)) continue;
    Tensor given = *file.find(t.name);
    if (is_cast_counter(t, given)) {
      copy_cast_counter(given, t.tensor);
      continue;
    }
    if (is_conv_weight(t))
      given = second_to_last(given.dtype() == DType::f32 ? given : given.to(DType::f32));
    t.tensor.copy_from(given);
  }
}

// Everything is checked before the first value is written, so a failed load changes nothing.
void load_all(const Weights& file, const std::vector<NamedTensor>& state) {
  const Fit fit = compare(file, state);
  if (!fit.missing.empty() || !fit.misshapen.empty() || !fit.extra.empty()) {
    std::ostringstream text;
    text << file.file << ": does not fit the model.";
    if (!fit.missing.empty()) text << " Missing: " << first_three(fit.missing) << ".";
    if (!fit.extra.empty()) text << " Not in the model: " << first_three(fit.extra) << ".";
    if (!fit.misshapen.empty())
      text << " Other shape or type: " << first_three(fit.misshapen) << ".";
    text << " Was it saved by the same model, with the same number of classes or ids?";
    throw IoError(text.str());
  }
  copy(file, state, fit);
}

}  // namespace

std::vector<NamedTensor> in_file_layout(std::vector<NamedTensor> state) {
  for (NamedTensor& t : state) {
    if (!t.tensor.device().is_cpu()) t.tensor = t.tensor.to(Device::cpu());
    if (is_floating(t.tensor.dtype()) && t.tensor.dtype() != DType::f32)
      t.tensor = t.tensor.to(DType::f32);
    if (is_conv_weight(t)) t.tensor = last_to_second(t.tensor.detach());
  }
  return state;
}

void save(const std::filesystem::path& path, const Module& module,
          const std::map<std::string, std::string>& metadata) {
  write(path, module.state(), metadata);
}

void save(const std::filesystem::path& path, const Module& module, const FlatParams& params,
          const Tensor& values, const std::map<std::string, std::string>& metadata) {
  write(path, state_with(module, params, values), metadata);
}

void load(const Weights& file, Module& module) { load_all(file, module.state()); }
void load(const Weights& file, const std::vector<NamedTensor>& state) { load_all(file, state); }

std::map<std::string, std::string> load(const std::filesystem::path& path, Module& module) {
  const Weights file = read_weights(path);
  load(file, module);
  return file.metadata;
}

std::map<std::string, std::string> load(const std::filesystem::path& path, Module& module,
                                        FlatParams& params) {
  const Weights file = read_weights(path);
  load(file, module, params);
  return file.metadata;
}

void load(const Weights& file, Module& module, FlatParams& params) {
  load_all(file, state_with(module, params, params.values()));
  params.refresh();
}

std::vector<NamedTensor> tensors_of_file(const Module& module, const FlatParams& params,
                                         const Tensor& values) {
  return in_file_layout(state_with(module, params, values));
}

Fit load_what_fits(const Weights& file, Module& module) {
  const std::vector<NamedTensor> state = module.state();
  Fit fit = compare(file, state);
  bool some = false;
  for (const NamedTensor& p : module.parameters())
    some |= std::ranges::find(fit.fitting, p.name) != fit.fitting.end();
  check<IoError>(
      some, file.file, ": no parameter fits the model. It has ", file.tensors.size(),
      " tensors: ", first_three(names_of(file.tensors)), ". The model wants ",
      first_three(names_of(module.parameters())),
      fit.misshapen.empty() ? "" : ". Other shape or type: ", first_three(fit.misshapen));
  copy(file, state, fit);
  return fit;
}

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& t : tensors) names.push_back(t.name);
  return names;
}

std::string first_three(const std::vector<std::string>& names) {
  const std::string count = std::to_string(names.size());
  return first_of(names) + (names.size() > 3 ? " (" + count + " in all)" : "");
}

std::map<std::string, std::string> read_metadata(const std::filesystem::path& path) {
  return read_safetensors_metadata(path);
}

}  // namespace gossamer::nn
