// What a state holds of a decentralized training beside the model and its optimizer.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/tensor.h"
#include "gossamer/nn/train/train_state.h"

namespace gossamer::capi {

// Of one worker between two steps.
struct MethodState {
  std::string method;
  int rank = 0, workers = 1;
  double samples = 0;                // seen by all: this worker's estimate
  std::vector<NamedTensor> tensors;  // dist::Method::state(), on the host
};

// In the file they are called "method.NAME", each a whole block.
void add_method(const MethodState&, nn::TrainSnapshot&);
// None: the state was saved while no method went on. IoError: the header is damaged. name: for
// errors.
std::optional<MethodState> method_in(const SafeTensors&, const std::string& name);
// Copies what was saved into a method's state(). ConfigError: a tensor is missing.
void take(const std::vector<NamedTensor>& saved, const std::vector<NamedTensor>& state);

}  // namespace gossamer::capi
