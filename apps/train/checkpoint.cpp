// See checkpoint.h.
#include "gossamer/apps/train/checkpoint.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/train/worker_models.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

nn::TrainState with_method(nn::TrainState state, std::vector<NamedTensor> of_method) {
  state.more = std::move(of_method);
  return state;
}

// Which keys may be wrong where a file is of a model of other shapes.
template <class F>
auto naming_keys(F&& load) {
  try {
    return load();
  } catch (const nn::OtherShapes& e) {
    fail<IoError>(e.what(), "; another model.name or model.classes?");
  }
}

// The state of a method, which is that of the first file, becomes the mean of all. What is equal in
// all of them, such as an outer model, stays as it is, bit for bit.
void load_mean_of_method(const std::vector<fs::path>& files, const FlatParams& params,
                         const std::vector<NamedTensor>& of_method) {
  for (std::size_t i = 1; i < files.size(); ++i) {
    const SafeTensors file = read_safetensors(files[i]);
    for (NamedTensor& mean : nn::windows_of(params, of_method)) {
      const Tensor* other = file.find(mean.name);
      if (!other || other->shape() != mean.tensor.shape() || other->dtype() != DType::f32) continue;
      Tensor way = other->to(mean.tensor.device());
      axpy(way, -1, mean.tensor);
      axpy(mean.tensor, 1 / static_cast<float>(i + 1), way);
    }
  }
  for (const NamedTensor& t : of_method)  // what this worker has not sent is lost
    if (t.name == dist::kPayloadError) Tensor(t.tensor).fill(0);
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
void check_frozen(const std::vector<fs::path>& files, const nn::TrainState& s) {
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

CheckpointCopy copy_state(int rank, int world, const nn::TrainState& state, dist::Method& method,
                          const nn::Position& at, const data::SampleOrder& order,
                          const FiguresSoFar& figures) {
  nn::Header header = to_metadata(order);
  header.insert({{"rank", std::to_string(rank)},
                 {"world", std::to_string(world)},
                 {"method", method.name()},
                 {"earlier_legs", figures.earlier.json()},
                 {"this_leg", figures.leg.json()}});
  if (!figures.alive.empty()) header["alive"] = listed(figures.alive, " ");
  if (!figures.patience.empty()) header["patience"] = figures.patience;
  CheckpointCopy copy{.rank = rank, .state = {}};
  method.quiesce([&] {
    copy.state = nn::snapshot(with_method(state, method.state()), at, figures.model, header);
  });
  return copy;
}

void write_checkpoint(const fs::path& run_folder, const std::string& label,
                      const CheckpointCopy& copy, i64 keep) {
  nn::check_finite(copy.state);
  const fs::path folder = run_folder / "checkpoints" / label;
  const auto write = [&] {
    std::error_code error;
    fs::create_directories(folder, error);
    check<IoError>(!error, "cannot create ", folder.string(), ": ", error.message());
    write_safetensors(folder / checkpoint_file(copy.rank), copy.state.tensors, copy.state.header);
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
      // This fails unless the folder is empty. One that was empty before was just made by another
      // worker, and stays.
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

namespace {

bool of_one_step(const std::vector<fs::path>& files) {
  const auto samples = [](const fs::path& file) {
    return nn::position_in(nn::read_metadata(file), file.string()).samples;
  };
  return std::ranges::all_of(
      files, [&](const fs::path& each) { return samples(each) == samples(files[0]); });
}

// The state of this rank. With all-reduce all models are equal and must stay equal, but an accident
// may have stopped the workers a step apart: then all take the state of one.
Loaded load_own(const ResumePoint& point, int rank, const nn::TrainState& alone,
                const dist::MethodTraits& method, const std::vector<NamedTensor>& of_method) {
  const fs::path* const own = point.file_of(rank);
  const bool equal = method.sums_gradients, apart = equal && !of_one_step(point.files);
  const auto found =
      apart || !own ? first_whole(point.files) : std::pair(*own, read_safetensors(*own));
  const auto& path = found.first;
  const auto& file = found.second;
  nn::TrainState state = with_method(alone, of_method);
  if (!file.find(dist::kPayloadError))
    std::erase_if(state.more, [](const NamedTensor& t) { return t.name == dist::kPayloadError; });
  if (state.ema)
    for (const NamedTensor& t : state.ema->state(state.params, "ema."))
      check<IoError>(file.find(t.name), path.string(), ": has no \"", t.name,
                     "\"; it was written without train.ema, so go on without");
  const nn::Position at = naming_keys([&] { return nn::load_state(file, path.string(), state); });
  if (!own && !equal) {
    naming_keys([&] { nn::load_mean_of_workers(point.files, state.params); });
    load_mean_of_method(point.files, state.params, of_method);
  }
  return {at, data::parse_order(file.metadata)};
}

i64 next_epoch(const ResumePoint& point) {
  i64 epoch = 0;
  for (const fs::path& path : point.files)
    epoch = std::max(epoch, nn::position_in(nn::read_metadata(path), path.string()).epoch + 1);
  return epoch;
}

void load_mean(const ResumePoint& point, const nn::TrainState& state,
               const std::vector<NamedTensor>& of_method) {
  naming_keys([&] { nn::load_mean_of_workers(point.files, state.params); });
  const Tensor& values = state.params.values();
  for (const NamedTensor& t : of_method)  // a twin starts at its model
    if (t.tensor.shape() == values.shape()) Tensor(t.tensor).copy_from(values);
  if (state.ema) state.ema->restart(state.params);
}

}  // namespace

std::optional<data::Saved> common_place(const ResumePoint& point) {
  std::vector<data::Saved> all;
  for (const fs::path& path : point.files) {
    const nn::Header header = nn::read_metadata(path);
    const auto order = data::parse_order(header);
    if (!order || !order->common) continue;
    const nn::Position at = nn::position_in(header, path.string());
    all.push_back({{at.epoch, at.step}, *order});
  }
  return all.empty() ? std::nullopt : std::optional(together(all));
}

bool has_state_for(const ResumePoint& point, int workers, const dist::MethodTraits& method) {
  if (point.own_state(workers)) return true;
  if (point.files.empty() || !method.sums_gradients) return false;
  const nn::Header header = nn::read_metadata(point.files[0]);
  const auto saved = header.find("method");
  return saved != header.end() && saved->second == method.name;
}

Loaded load_checkpoint(const ResumePoint& point, int rank, int world, const nn::TrainState& state,
                       const dist::MethodTraits& method,
                       const std::vector<NamedTensor>& of_method) {
  check_frozen(point.files, state);
  Loaded loaded;
  const bool exact = has_state_for(point, world, method);
  if (exact)
    loaded = load_own(point, rank, state, method, of_method);
  else
    load_mean(point, state, of_method);
  if (const std::optional<data::Saved> common = common_place(point))
    loaded = {{.epoch = common->at.epoch, .step = common->at.step}, common->order};
  else if (!exact || world != point.world)
    loaded = {{.epoch = next_epoch(point)}, std::nullopt, true};
  loaded.at.samples = point.samples;
  return loaded;
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
