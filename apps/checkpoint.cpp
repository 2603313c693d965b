// See checkpoint.h.
#include "gossamer/apps/checkpoint.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <vector>

#include "gossamer/core/error.h"
#include "gossamer/core/safetensors.h"
#include "gossamer/core/update.h"
#include "gossamer/nn/checkpoint.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

// Every tensor of the state under the name it has in the file; windows, so that reading is copying into them.
std::vector<NamedTensor> windows(TrainState s) {
  std::vector<NamedTensor> all = s.params.windows(s.params.values());
  const auto append = [&](std::vector<NamedTensor> more) { all.insert(all.end(), more.begin(), more.end()); };
  append(s.params.buffer_windows());
  for (const NamedTensor& buffer : s.net.buffers())
    if (buffer.tensor.dtype() != DType::f32) all.push_back(buffer);           // counters
  const auto append_state = [&](const std::string& prefix, const std::vector<NamedTensor>& state) {
    for (const NamedTensor& t : state)
      if (t.tensor.shape() == s.params.values().shape()) append(s.params.windows(t.tensor, prefix + t.name + "."));
      else all.push_back({prefix + t.name, t.tensor});
  };
  append_state("optim.", s.optimizer.state());
  append_state("", s.method.state());
  return all;
}

std::string file_name(int rank) { return "rank-" + std::to_string(rank) + ".safetensors"; }

double number(const std::map<std::string, std::string>& meta, const std::string& key, const fs::path& path) {
  try {
    return std::stod(meta.at(key));
  } catch (const std::exception&) {
    fail<IoError>(path.string(), ": no number \"", key, "\" in the header; this is not a checkpoint of gossamer train");
  }
}

struct Found { fs::path path; int world = 0, files = 0; double samples = -1; };

Found look_at(const fs::path& folder) {
  Found found{folder};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("rank-") || !name.ends_with(".safetensors")) continue;
    const auto meta = nn::read_metadata(entry.path());
    found.world = static_cast<int>(number(meta, "world", entry.path()));
    found.samples = std::max(found.samples, number(meta, "samples", entry.path()));
    ++found.files;
  }
  return found;
}

}  // namespace

void save_checkpoint(const fs::path& run_folder, const std::string& label, int rank, int world, TrainState state, const Position& at, i64 keep) {
  std::vector<NamedTensor> copies;
  state.method.quiesce([&] {
    for (const NamedTensor& t : windows(state)) copies.push_back({t.name, t.tensor.clone()});
  });
  const fs::path folder = run_folder / "checkpoints" / label;
  std::error_code error;
  fs::create_directories(folder, error);
  check<IoError>(!error, "cannot make ", folder.string(), ": ", error.message());
  char samples[40];
  std::snprintf(samples, sizeof samples, "%.17g", at.samples);
  write_safetensors(folder / file_name(rank), copies,
                    {{"kind", "checkpoint"}, {"layout", "OHWI"}, {"rank", std::to_string(rank)}, {"world", std::to_string(world)}, {"samples", samples},
                     {"epoch", std::to_string(at.epoch)}, {"step", std::to_string(at.step)}});
  // Older ones go, this rank's file at a time: no worker needs to know how far the others are.
  std::vector<Found> mine;
  for (const auto& entry : fs::directory_iterator(run_folder / "checkpoints", error))
    if (fs::exists(entry.path() / file_name(rank))) mine.push_back({entry.path(), 0, 0, number(nn::read_metadata(entry.path() / file_name(rank)), "samples", entry.path())});
  std::ranges::sort(mine, [](const Found& a, const Found& b) { return a.samples > b.samples; });
  for (std::size_t i = static_cast<std::size_t>(keep); i < mine.size(); ++i) {
    fs::remove(mine[i].path / file_name(rank), error);
    fs::remove(mine[i].path, error);             // only succeeds when empty
  }
}

ResumePoint find_checkpoint(const fs::path& path) {
  const fs::path given = path.has_filename() ? path : path.parent_path();      // "runs/x/" is "runs/x"
  check<IoError>(fs::is_directory(given), "--resume ", given.string(), ": there is no such folder");
  Found best;
  fs::path run_folder = given;
  if (const Found here = look_at(given); here.files > 0) {
    best = here;
    run_folder = given.parent_path().parent_path();
    if (run_folder.empty()) run_folder = fs::weakly_canonical(given).parent_path().parent_path();
  } else {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(given / "checkpoints", error)) {
      const Found found = look_at(entry.path());
      if (found.files == 0) continue;
      const bool whole = found.files == found.world, best_whole = best.files > 0 && best.files == best.world;
      if (best.files == 0 || (whole && !best_whole) || (whole == best_whole && found.samples > best.samples)) best = found;
    }
  }
  check<IoError>(best.files > 0, "--resume ", given.string(), ": no checkpoint there; checkpoints are written with run.checkpoint_every=EPOCHS and when a run is interrupted");
  return {run_folder, best.path, best.files == best.world ? best.world : best.files, best.samples};
}

Position load_checkpoint(const ResumePoint& point, int rank, int world, TrainState state) {
  Position at{.samples = point.samples};
  const fs::path mine = point.checkpoint / file_name(rank);
  if (point.world == world && fs::exists(mine)) {
    const auto meta = nn::read_metadata(mine);
    at.epoch = static_cast<i64>(number(meta, "epoch", mine));
    at.step = static_cast<i64>(number(meta, "step", mine));
    // With all-reduce all models are one and stay one: an interruption may have caught the workers a step apart.
    const fs::path path = std::string(state.method.name()) == "allreduce" ? point.checkpoint / file_name(0) : mine;
    const SafeTensors file = read_safetensors(path);
    for (NamedTensor& target : windows(state)) {
      const Tensor* source = file.find(target.name);
      check<IoError>(source != nullptr, path.string(), ": has no \"", target.name, "\"; was it written with another model or method?");
      check<IoError>(source->shape() == target.tensor.shape(), path.string(), ": \"", target.name, "\" is ", source->shape(), ", the model wants ",
                     target.tensor.shape(), "; another model.name or model.classes?");
      target.tensor.copy_from(*source);
    }
  } else {
    Tensor values = state.params.values(), buffers = state.params.buffers();
    values.zero();
    buffers.zero();
    int files = 0;
    for (const auto& entry : fs::directory_iterator(point.checkpoint)) ++files, (void)entry;
    for (const auto& entry : fs::directory_iterator(point.checkpoint)) {
      const SafeTensors file = read_safetensors(entry.path());
      std::vector<NamedTensor> targets = state.params.windows(values);
      for (NamedTensor& b : state.params.buffer_windows()) targets.push_back(b);
      for (NamedTensor& target : targets) {
        const Tensor* source = file.find(target.name);
        check<IoError>(source && source->shape() == target.tensor.shape(), entry.path().string(), ": \"", target.name, "\" is missing or has another shape");
        axpy(target.tensor, 1.0f / static_cast<float>(files), *source);
      }
      at.epoch = std::max(at.epoch, static_cast<i64>(number(file.metadata, "epoch", entry.path())) + 1);
    }
    for (NamedTensor& t : state.method.state())
      if (t.tensor.shape() == values.shape()) t.tensor.copy_from(values);      // a twin starts where its model is
  }
  state.params.refresh();
  return at;
}

}  // namespace gossamer::apps
