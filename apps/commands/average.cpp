// `gossamer average`: the mean of several models of one run, weight by weight. It is often better
// than the last of them (fairseq's average_checkpoints, weight averaging).
#include <algorithm>
#include <filesystem>
#include <functional>

#include <fmt/core.h>

#include "gossamer/apps/commands.h"
#include "gossamer/apps/json.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/best.h"
#include "gossamer/apps/train/language_model.h"
#include "gossamer/apps/train/model_file.h"
#include "gossamer/apps/train/resume_point.h"
#include "gossamer/apps/train/translation_model.h"
#include "gossamer/core/error.h"
#include "gossamer/core/safetensors.h"
#include "gossamer/core/update.h"
#include "gossamer/models/gpt2_file.h"
#include "gossamer/nn/checkpoint.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

constexpr const char* kFile = "average.safetensors";

// A network of a batch norm has statistics of its own weights, which no mean gives.
void check_statistics(const std::vector<NamedTensor>& tensors, const std::string& file) {
  for (const NamedTensor& t : tensors)
    check<ConfigError>(!t.name.ends_with("running_var"), file, ": \"", t.name,
                       "\" belongs to a batch norm, whose statistics would not fit averaged "
                       "weights; train.ema averages such models");
}

// targets += share * the tensors of these names.
void add_file(const std::vector<NamedTensor>& targets, const std::string& file,
              const std::function<const Tensor*(const std::string&)>& find, float share) {
  for (NamedTensor target : targets) {
    const Tensor* source = find(target.name);
    check<IoError>(source != nullptr, file, ": has no \"", target.name, "\", which others have");
    check<IoError>(source->shape() == target.tensor.shape(), file, ": \"", target.name, "\" is ",
                   source->shape(), ", in others ", target.tensor.shape());
    axpy(target.tensor, share, source->to(DType::f32));
  }
}

// Of model files, which are all that is needed. Counters (of dropout's draws) are the first's.
void average_files(const std::vector<std::string>& files, const std::string& out) {
  const nn::Weights first = nn::read_weights(files[0]);
  check_statistics(first.tensors, first.file);
  std::vector<NamedTensor> mean, sums;
  for (const NamedTensor& t : first.tensors) {
    const bool counter = t.tensor.dtype() == DType::i64 || t.tensor.dtype() == DType::i32;
    mean.push_back({t.name, counter ? t.tensor : Tensor::zeros(t.tensor.shape())});
    if (!counter) sums.push_back(mean.back());
  }
  const auto said = [](const nn::Weights& weights, const char* key) {
    const auto at = weights.metadata.find(key);
    return at == weights.metadata.end() ? std::string() : at->second;
  };
  const float share = 1.0f / static_cast<float>(files.size());
  for (const std::string& file : files) {
    const nn::Weights weights = nn::read_weights(file);
    check<IoError>(weights.tensors.size() == mean.size(), file, ": has ", weights.tensors.size(),
                   " tensors, ", files[0], " has ", mean.size());
    for (const char* key : {"heads", "gelu"})
      check<IoError>(said(weights, key) == said(first, key), file, ": is another model than ",
                     files[0], ": \"", key, "\" in their headers differs");
    add_file(
        sums, file, [&](const std::string& name) { return weights.find(name); }, share);
  }
  write_safetensors(out, mean, without_score(first.metadata));
}

// The model that a run ended with; of one that has not ended, its best one.
fs::path any_model_of(const fs::path& run) {
  const fs::path best = run / "best.safetensors";
  return !fs::exists(weights_in(run)) && fs::exists(best) ? best : weights_to_read(run);
}

// Of the newest checkpoints of a run, of which each is the mean of its workers. A model of the run
// says how files are written. Returns the labels, the newest first.
std::vector<std::string> average_checkpoints(const fs::path& run, std::size_t last,
                                             const std::string& out) {
  std::vector<ResumePoint> all = list_checkpoints(run);
  std::erase_if(all, [](const ResumePoint& c) { return !c.whole(); });
  check<IoError>(all.size() >= last, run.string(), ": --last ", last,
                 " is more than the whole checkpoints there (", all.size(),
                 "); run.checkpoint_every writes them, run.keep says how many stay");
  all.resize(last);
  const fs::path file = any_model_of(run);
  const std::string task = task_of_model(file);
  check<ConfigError>(task != "pictures", run.string(),
                     ": --last is for language and translation models; train.ema averages others");
  std::unique_ptr<nn::Module> net;
  if (task == "translation")
    net = std::move(load_translation_model(file, DType::f32).net);
  else
    net = std::move(load_language_model(file, DType::f32).net);
  const std::vector<NamedTensor> targets = net->parameters();
  for (const NamedTensor& t : targets) Tensor(t.tensor).zero();
  std::vector<std::string> labels;
  for (const ResumePoint& point : all) {
    labels.push_back(point.checkpoint.filename().string());
    const float share = 1.0f / static_cast<float>(last * point.files.size());
    for (const fs::path& path : point.files) {
      const SafeTensors worker = read_safetensors(path);
      add_file(
          targets, path.string(), [&](const std::string& name) { return worker.find(name); },
          share);
    }
  }
  const auto metadata = without_score(nn::read_metadata(file));
  if (task == "translation")
    nn::save(out, *net, metadata);
  else
    models::save_gpt2(out, static_cast<models::Gpt2&>(*net), nullptr, metadata);
  return labels;
}

}  // namespace

int average(const AverageCommand& c) {
  const bool run = c.models.size() == 1 && fs::is_directory(c.models[0]);
  check<ConfigError>(run || c.last == 0,
                     "average: --last is for the checkpoints of one run; name its folder");
  check<ConfigError>(!run || c.last >= 1, "average: ", c.models[0],
                     " is a run: --last N says how many of its checkpoints");
  check<ConfigError>(run || !c.out.empty(), "average: --out says where the mean goes");
  const std::string out = c.out.empty() ? (fs::path(c.models[0]) / kFile).string() : c.out;
  std::vector<std::string> of = c.models;
  if (!run)
    for (std::string& model : of) model = weights_to_read(model).string();
  std::error_code none;
  for (const std::string& model : of)
    check<ConfigError>(!fs::equivalent(model, out, none), "average: --out ", out,
                       " is one of the models; name another file");
  if (run)
    of = average_checkpoints(c.models[0], static_cast<std::size_t>(c.last), out);
  else
    average_files(of, out);
  if (c.json) {
    print(fmt::format("{}\n", JsonObject().add("out", out).add("of", of).str()));
    return 0;
  }
  print(fmt::format("{}: the mean of {} {}\n", out, of.size(), run ? "checkpoints" : "models"));
  return 0;
}

}  // namespace gossamer::apps
