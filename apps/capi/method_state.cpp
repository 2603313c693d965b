// See method_state.h.
#include "gossamer/apps/capi/method_state.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/dist/method.h"

namespace gossamer::capi {
namespace {

const std::string kPrefix = "method.";

int number_in(const nn::Header& header, const char* key, const std::string& name) {
  const auto at = header.find(key);
  int number = -1;
  if (at != header.end())
    std::from_chars(at->second.data(), at->second.data() + at->second.size(), number);
  check<IoError>(number >= 0, name, ": no number \"", key, "\" in the header of a method's state");
  return number;
}

}  // namespace

void add_method(const MethodState& state, nn::TrainSnapshot& to) {
  for (const auto& [name, tensor] : state.tensors) to.tensors.push_back({kPrefix + name, tensor});
  to.header["method"] = state.method;
  to.header["rank"] = std::to_string(state.rank);
  to.header["workers"] = std::to_string(state.workers);
  to.header[nn::kStateKey] += " " + kPrefix;
}

std::optional<MethodState> method_in(const SafeTensors& file, const std::string& name) {
  const auto method = file.metadata.find("method");
  if (method == file.metadata.end()) return {};
  MethodState state{method->second,
                    number_in(file.metadata, "rank", name),
                    number_in(file.metadata, "workers", name),
                    nn::position_in(file.metadata, name).samples,
                    {}};
  for (const auto& [tensor, values] : file.tensors)
    if (tensor.starts_with(kPrefix))
      state.tensors.push_back({tensor.substr(kPrefix.size()), values});
  return state;
}

void take(const std::vector<NamedTensor>& saved, const std::vector<NamedTensor>& state) {
  for (const auto& [name, tensor] : state) {
    const auto given = std::ranges::find(saved, name, &NamedTensor::name);
    if (given == saved.end() && name == dist::kPayloadError) continue;
    check<ConfigError>(given != saved.end() && given->tensor.shape() == tensor.shape(),
                       "the state to go on from has no \"", name, "\" of ", tensor.shape(),
                       "; was it saved by another method, or with other settings?");
    Tensor(tensor).copy_from(given->tensor);
  }
}

}  // namespace gossamer::capi
