// See train_state.h.
#include "gossamer/nn/train/train_state.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <span>
#include <sstream>

namespace gossamer::nn {
namespace {

const std::string kModel = "model.";
// of files that do not say it
const char* const kOlderState = "optim. ema. acid. payload. outer. push_sum.";

// One thread, because the others train.
bool all_numbers(std::span<const float> values) {
  bool all = true;
  for (const float value : values) all &= std::isfinite(value);
  return all;
}

double number_in(const Header& header, const std::string& key, const std::string& name) {
  try {
    return std::stod(header.at(key));
  } catch (const std::exception&) {
    fail<IoError>(name, ": no number \"", key,
                  "\" in the header; this is not the state of a training");
  }
}

}  // namespace

std::vector<NamedTensor> windows_of(const FlatParams& params, const std::vector<NamedTensor>& state,
                                    const std::string& prefix) {
  std::vector<NamedTensor> all;
  for (const NamedTensor& t : state)
    if (t.tensor.shape() == params.values().shape())
      std::ranges::move(params.windows(t.tensor, prefix + t.name + "."), std::back_inserter(all));
    else
      all.push_back({prefix + t.name, t.tensor});
  return all;
}

std::vector<NamedTensor> windows_of(const TrainState& s) {
  std::vector<NamedTensor> all = s.params.windows(s.params.values());
  const auto append = [&](std::vector<NamedTensor> more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  append(s.params.buffer_windows());
  append(s.params.frozen());
  for (const NamedTensor& buffer : s.buffers)
    if (buffer.tensor.dtype() != DType::f32) all.push_back(buffer);  // counters
  append(windows_of(s.params, s.optimizer.state(), "optim."));
  append(windows_of(s.params, s.more));
  if (s.ema) append(s.ema->state(s.params, "ema."));
  return all;
}

TrainSnapshot snapshot(const TrainState& state, const Position& at, const Header& model,
                       const Header& more) {
  TrainSnapshot copy{.tensors = {}, .header = more};
  for (const NamedTensor& t : windows_of(state))
    copy.tensors.push_back(
        {t.name, t.tensor.device().is_cpu() ? t.tensor.clone() : t.tensor.to(Device::cpu())});
  char samples[40];
  std::snprintf(samples, sizeof samples, "%.17g", at.samples);
  copy.header.insert({{"kind", "checkpoint"},
                      {"layout", "OHWI"},
                      {"samples", samples},
                      {"epoch", std::to_string(at.epoch)},
                      {"step", std::to_string(at.step)}});
  for (const auto& [key, value] : model) copy.header[kModel + key] = value;
  std::string prefixes = "optim. ema.";
  for (const NamedTensor& t : state.more) prefixes += " " + t.name.substr(0, t.name.find('.') + 1);
  copy.header[kStateKey] = prefixes;
  return copy;
}

void check_finite(const TrainSnapshot& copy) {
  for (const auto& [name, tensor] : copy.tensors)
    check(tensor.dtype() != DType::f32 || all_numbers(tensor.span<float>()), "\"", name,
          "\" holds values that are not finite, so nothing could go on from it");
}

void save_state(const std::filesystem::path& path, const TrainState& state, const Position& at,
                const Header& model, const Header& more) {
  const TrainSnapshot copy = snapshot(state, at, model, more);
  check_finite(copy);
  write_safetensors(path, copy.tensors, copy.header);
}

Position load_state(const std::filesystem::path& path, const TrainState& state) {
  return load_state(read_safetensors(path), path.string(), state);
}

Position load_state(const SafeTensors& file, const std::string& name, const TrainState& state) {
  const Position at = position_in(file.metadata, name);
  for (NamedTensor& target : windows_of(state)) {
    const Tensor* source = file.find(target.name);
    check<IoError>(source != nullptr, name, ": has no \"", target.name,
                   "\"; was it written with another model or method?");
    check<OtherShapes>(source->shape() == target.tensor.shape(), name, ": \"", target.name,
                       "\" is ", source->shape(), ", the model wants ", target.tensor.shape());
    target.tensor.copy_from(*source);
  }
  state.params.refresh();
  return at;
}

Position position_in(const Header& header, const std::string& name) {
  return {.samples = number_in(header, "samples", name),
          .epoch = static_cast<i64>(number_in(header, "epoch", name)),
          .step = static_cast<i64>(number_in(header, "step", name))};
}

Header model_header_in(const Header& header) {
  Header model;
  for (const auto& [key, value] : header)
    if (key.starts_with(kModel)) model[key.substr(kModel.size())] = value;
  return model;
}

bool is_of_model(const std::string& tensor, const Header& header) {
  const auto said = header.find(kStateKey);
  std::istringstream prefixes(said == header.end() ? kOlderState : said->second);
  for (std::string prefix; prefixes >> prefix;)
    if (tensor.starts_with(prefix)) return false;
  return true;
}

}  // namespace gossamer::nn
