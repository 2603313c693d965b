// See checkpoint.h.
#include "gossamer/apps/train/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <span>
#include <vector>

#include "gossamer/apps/train/worker_models.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/nn/checkpoint.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

// Where names of what is no part of the model begin.
std::vector<std::string> state_prefixes(TrainState s) {
  std::vector<std::string> prefixes{"optim.", "ema."};
  for (const NamedTensor& t : s.method.state())
    prefixes.push_back(t.name.substr(0, t.name.find('.') + 1));
  return prefixes;
}

// State under its names in the file. They are windows, so loading is copying.
std::vector<NamedTensor> windows_of(const FlatParams& params, const std::vector<NamedTensor>& state,
                                    const std::string& prefix = "") {
  std::vector<NamedTensor> all;
  for (const NamedTensor& t : state)
    if (t.tensor.shape() == params.values().shape())
      std::ranges::move(params.windows(t.tensor, prefix + t.name + "."), std::back_inserter(all));
    else
      all.push_back({prefix + t.name, t.tensor});
  return all;
}

// Every tensor of a worker.
std::vector<NamedTensor> windows(TrainState s) {
  std::vector<NamedTensor> all = s.params.windows(s.params.values());
  const auto append = [&](std::vector<NamedTensor> more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  append(s.params.buffer_windows());
  append(s.params.frozen());
  for (const NamedTensor& buffer : s.net.buffers())
    if (buffer.tensor.dtype() != DType::f32) all.push_back(buffer);  // counters
  append(windows_of(s.params, s.optimizer.state(), "optim."));
  append(windows_of(s.params, s.method.state()));
  if (s.ema) append(s.ema->state(s.params, "ema."));
  return all;
}

// Sets values, buffers and what is frozen to the mean of the files.
void load_mean(const ResumePoint& point, FlatParams& params, Position& at) {
  for (const fs::path& path : point.files)
    at.epoch = std::max(
        at.epoch, static_cast<i64>(checkpoint_number(nn::read_metadata(path), "epoch", path)) + 1);
  const std::vector<NamedTensor> mean = mean_of_workers(point.files);
  std::vector<NamedTensor> targets = params.windows(params.values());
  for (const std::vector<NamedTensor>& more : {params.buffer_windows(), params.frozen()})
    targets.insert(targets.end(), more.begin(), more.end());
  for (NamedTensor& target : targets) {
    const auto source = std::ranges::find(mean, target.name, &NamedTensor::name);
    check<IoError>(source != mean.end() && source->tensor.shape() == target.tensor.shape() &&
                       source->tensor.dtype() == target.tensor.dtype(),
                   point.files[0].string(), ": \"", target.name,
                   "\" is missing or has another shape; another model.name or model.classes?");
    target.tensor.copy_from(source->tensor);
  }
}

// The state of a method, which is that of the first file, becomes the mean of all. What is equal in
// all of them, such as an outer model, stays as it is, bit for bit.
void load_mean_of_method(const std::vector<fs::path>& files, TrainState s) {
  for (std::size_t i = 1; i < files.size(); ++i) {
    const SafeTensors file = read_safetensors(files[i]);
    for (NamedTensor& mean : windows_of(s.params, s.method.state())) {
      const Tensor* other = file.find(mean.name);
      if (!other || other->shape() != mean.tensor.shape() || other->dtype() != DType::f32) continue;
      Tensor way = other->to(mean.tensor.device());
      axpy(way, -1, mean.tensor);
      axpy(mean.tensor, 1 / static_cast<float>(i + 1), way);
    }
  }
  for (NamedTensor& t : s.method.state())  // what this worker has not sent is lost
    if (t.name == dist::kPayloadError) t.tensor.fill(0);
}

// The first of the files that can be read. IoError of the last: none can.
std::pair<fs::path, SafeTensors> first_whole(const std::vector<fs::path>& files) {
  for (const fs::path& path : files) try {
      return {path, read_safetensors(path)};
    } catch (const IoError&) {
      if (&path == &files.back()) throw;
    }
  fail<IoError>("no file of a checkpoint");
}

// The other workers go on, and may remove a checkpoint while it is read here; a newer one is there
// then.
std::pair<fs::path, SafeTensors> first_whole_of_run(ResumePoint point) {
  for (int left = 20;; --left) {
    try {
      return first_whole(point.files);
    } catch (const IoError&) {
      std::error_code error;
      const bool removed = !std::ranges::all_of(
          point.files, [&](const fs::path& file) { return fs::exists(file, error); });
      if (!removed || left == 0) throw;
      point = find_checkpoint(point.run_folder);
    }
  }
}

// What was trained so far differs between the workers, so it cannot be frozen now.
void check_frozen(const std::vector<fs::path>& files, TrainState s) {
  if (s.params.frozen().empty()) return;
  const SafeTensors file = first_whole(files).second;
  for (const NamedTensor& block : s.optimizer.state())
    for (const NamedTensor& t : s.params.frozen())
      check<IoError>(!file.find("optim." + block.name + "." + t.name), files[0].string(), ": \"",
                     t.name,
                     "\" was trained in this run, so model.freeze cannot freeze it now; start a "
                     "new run with model.init=FILE and model.freeze");
}

}  // namespace

CheckpointCopy copy_state(int rank, int world, TrainState state, const Position& at,
                          const SampleOrder& order, const FiguresSoFar& figures) {
  CheckpointCopy copy{.rank = rank, .tensors = {}, .header = to_metadata(order)};
  state.method.quiesce([&] {
    for (const NamedTensor& t : windows(state))
      copy.tensors.push_back(
          {t.name, t.tensor.device().is_cpu() ? t.tensor.clone() : t.tensor.to(Device::cpu())});
  });
  char samples[40];
  std::snprintf(samples, sizeof samples, "%.17g", at.samples);
  copy.header.insert({{"kind", "checkpoint"},
                      {"layout", "OHWI"},
                      {"rank", std::to_string(rank)},
                      {"world", std::to_string(world)},
                      {"samples", samples},
                      {"epoch", std::to_string(at.epoch)},
                      {"step", std::to_string(at.step)},
                      {"method", state.method.name()},
                      {"earlier_legs", figures.earlier.json()},
                      {"this_leg", figures.leg.json()}});
  std::string alive;
  for (const int other : figures.alive) alive += (alive.empty() ? "" : " ") + std::to_string(other);
  if (!alive.empty()) copy.header["alive"] = alive;
  if (!figures.patience.empty()) copy.header["patience"] = figures.patience;
  add_model_entries(copy.header, figures.model, state_prefixes(state));
  return copy;
}

namespace {

// One thread, because the others train.
bool all_numbers(std::span<const float> values) {
  bool all = true;
  for (const float value : values) all &= std::isfinite(value);
  return all;
}

}  // namespace

void write_checkpoint(const fs::path& run_folder, const std::string& label,
                      const CheckpointCopy& copy, i64 keep) {
  for (const auto& [name, tensor] : copy.tensors)
    check(tensor.dtype() != DType::f32 || all_numbers(tensor.span<float>()), "\"", name,
          "\" holds values that are not finite, so nothing could go on from it");
  const fs::path folder = run_folder / "checkpoints" / label;
  const auto write = [&] {
    std::error_code error;
    fs::create_directories(folder, error);
    check<IoError>(!error, "cannot create ", folder.string(), ": ", error.message());
    write_safetensors(folder / checkpoint_file(copy.rank), copy.tensors, copy.header);
  };
  try {
    write();
  } catch (const IoError&) {
    prune_checkpoints(run_folder, copy.rank, 0);
    try {
      write();
    } catch (const IoError&) {
      std::error_code error;  // each only succeeds when empty
      fs::remove(folder, error);
      fs::remove(folder.parent_path(), error);
      throw;
    }
  }
  prune_checkpoints(run_folder, copy.rank, keep);
}

void prune_checkpoints(const fs::path& run_folder, int rank, i64 keep) {
  const std::vector<ResumePoint> all = list_checkpoints(run_folder);  // the newest first
  const bool any_whole = std::ranges::any_of(all, &ResumePoint::whole);
  const i64 keep_whole = std::max<i64>(keep, 1);
  i64 whole = 0, mine = 0;
  std::error_code error;
  for (const ResumePoint& c : all) {
    const bool last_good = any_whole ? c.whole() && whole == 0 : &c == &all[0];
    const bool has_mine =
        rank == kAllRanks || fs::exists(c.checkpoint / checkpoint_file(rank), error);
    const bool outdated = whole >= keep_whole;
    if (!last_good && (outdated || (has_mine && mine >= keep))) {
      std::vector<fs::path> files;
      for (const auto& entry : fs::directory_iterator(c.checkpoint, error)) {
        const std::string name = entry.path().filename().string();
        if (outdated || rank == kAllRanks ? is_checkpoint_file(name)
                                          : name == checkpoint_file(rank))
          files.push_back(entry.path());
      }
      for (const fs::path& file : files) fs::remove(file, error);
      // Only when empty; and one that holds nothing yet was just made by another worker.
      if (!files.empty()) fs::remove(c.checkpoint, error);
    }
    whole += c.whole();
    mine += has_mine;
  }
}

void remove_half_written(const fs::path& run_folder) {
  std::error_code error;
  std::vector<fs::path> files, folders;
  for (const auto& entry : fs::recursive_directory_iterator(run_folder / "checkpoints", error)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory(error))
      folders.push_back(entry.path());
    else if (name.starts_with("rank-") && name.find(".tmp-") != std::string::npos)
      files.push_back(entry.path());
  }
  for (const fs::path& file : files) fs::remove(file, error);
  for (const fs::path& folder : folders) fs::remove(folder, error);  // only succeeds when empty
}

Continuation load_checkpoint(const ResumePoint& point, int rank, int world, TrainState state,
                             const SampleOrder& now) {
  check_frozen(point.files, state);
  Position at{.samples = point.samples};
  std::optional<SampleOrder> then;
  if (point.own_state(world)) {
    const fs::path* const own = point.file_of(rank);
    // With all-reduce all models are equal and must stay equal, but an interruption may have
    // stopped the workers a step apart: all take the state of one.
    const bool equal = std::string(state.method.name()) == "allreduce";
    const auto [path, file] =
        equal || !own ? first_whole(point.files) : std::pair(*own, read_safetensors(*own));
    at.epoch = static_cast<i64>(checkpoint_number(file.metadata, "epoch", path));
    at.step = static_cast<i64>(checkpoint_number(file.metadata, "step", path));
    then = parse_order(file.metadata);
    for (NamedTensor& target : windows(state)) {
      const Tensor* source = file.find(target.name);
      if (!source && target.name == dist::kPayloadError) continue;
      check<IoError>(source != nullptr, path.string(), ": has no \"", target.name,
                     target.name.starts_with("ema.")
                         ? "\"; it was written without train.ema, so go on without"
                         : "\"; was it written with another model or method?");
      check<IoError>(source->shape() == target.tensor.shape(), path.string(), ": \"", target.name,
                     "\" is ", source->shape(), ", the model wants ", target.tensor.shape(),
                     "; another model.name or model.classes?");
      target.tensor.copy_from(*source);
    }
    if (!own && !equal) {
      Position ignored;
      load_mean(point, state.params, ignored);
      load_mean_of_method(point.files, state);
    }
  } else {
    load_mean(point, state.params, at);
    const Tensor& values = state.params.values();
    for (NamedTensor& t : state.method.state())  // a twin starts at its model
      if (t.tensor.shape() == values.shape()) t.tensor.copy_from(values);
  }
  state.params.refresh();
  if (state.ema && !point.own_state(world)) state.ema->restart(state.params);
  return continue_from(at, then, now);
}

void load_frozen(const ResumePoint& point, FlatParams& params) {
  if (params.frozen().empty()) return;
  const auto [path, file] = first_whole_of_run(point);
  for (NamedTensor t : params.frozen()) {
    const Tensor* source = file.find(t.name);
    check<IoError>(source && source->shape() == t.tensor.shape(), path.string(), ": \"", t.name,
                   "\" is missing or has another shape; another model.name or model.classes?");
    t.tensor.copy_from(*source);
  }
  params.refresh();
}

}  // namespace gossamer::apps
