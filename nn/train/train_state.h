// The state of one worker's training, and its file: a safetensors file with checksums
// (core/io/safetensors.h) from which the training goes on as if it had not stopped, bit for bit on
// a CPU.
//
//   const nn::TrainState state{net.buffers(), params, optimizer};
//   nn::save_state(path, state, {.samples = seen, .epoch = 2, .step = 40});
//   nn::Position at = nn::load_state(path, state);
//
// Names in the file: parameters, running statistics and counters have the model's; "optim." and
// "ema." begin those of the optimizer and the moving average; others are `more`'s. Blocks of the
// parameters' layout are stored by parameter: "optim.momentum.fc.weight". Tensors have the layout
// of memory: convolution weights are [out, h, w, in].
// Threads: one at a time for a TrainState; any for a snapshot.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/core/flat.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/update.h"
#include "gossamer/nn/train/ema.h"

namespace gossamer::nn {

// Where a training is in its data.
struct Position {
  double samples = 0;       // seen by all workers
  i64 epoch = 0, step = 0;  // next batch of this worker
};

// What training changes.
struct TrainState {
  std::vector<NamedTensor> buffers;  // of the model (Module::buffers()), for its counters
  FlatParams& params;
  Optimizer& optimizer;
  Ema* ema = nullptr;
  std::vector<NamedTensor> more = {};  // such as a method's: "acid.tilde"
};

// All tensors under their names in a file. They are windows, so copying into them loads a state.
std::vector<NamedTensor> windows_of(const TrainState&);
// The blocks under prefix + name; one of the parameters' layout as a window for each parameter.
std::vector<NamedTensor> windows_of(const FlatParams&, const std::vector<NamedTensor>& blocks,
                                    const std::string& prefix = "");

using Header = std::map<std::string, std::string>;
// Its entry with the prefixes of the tensors that are no part of the model, between spaces.
inline constexpr const char* kStateKey = "state";

// A state between two steps, in memory of its own on the host: it can be written while training
// goes on.
struct TrainSnapshot {
  std::vector<NamedTensor> tensors;
  Header header;
};
// model: what the header of the model's own file would be. more: further entries of the header.
TrainSnapshot snapshot(const TrainState&, const Position&, const Header& model = {},
                       const Header& more = {});
// Error: values that are not finite, from which nothing could go on.
void check_finite(const TrainSnapshot&);
// Replaces the file in one step, and flushes it. IoError; Error as check_finite().
void save_state(const std::filesystem::path&, const TrainState&, const Position&,
                const Header& model = {}, const Header& more = {});

// The file is of a model with other shapes.
struct OtherShapes : IoError {
  using IoError::IoError;
};
// IoError: the file cannot be read, is damaged, or lacks a tensor of this state; OtherShapes. Then
// the state may be partly loaded.
Position load_state(const std::filesystem::path&, const TrainState&);
// The same from a file that was read. name: for errors.
Position load_state(const SafeTensors&, const std::string& name, const TrainState&);
// Samples, epoch and step from a header. IoError: one is missing.
Position position_in(const Header&, const std::string& name);
// The header of the model's own file. Empty: an older file, which has none.
Header model_header_in(const Header&);
// Whether a tensor of this name belongs to the model, in a file with this header.
bool is_of_model(const std::string& tensor, const Header&);

}  // namespace gossamer::nn
