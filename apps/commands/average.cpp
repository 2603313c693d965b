// `gossamer average`: the mean of several models, weight by weight. It is often better than the
// last of them (fairseq's average_checkpoints, weight averaging).
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "gossamer/apps/command_keys.h"
#include "gossamer/apps/commands.h"
#include "gossamer/apps/config_check.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/best.h"
#include "gossamer/apps/train/devices.h"
#include "gossamer/apps/train/inputs.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/options.h"
#include "gossamer/apps/train/picture_model.h"
#include "gossamer/apps/train/resume_point.h"
#include "gossamer/apps/train/task.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/parallel.h"
#include "gossamer/core/text/json.h"
#include "gossamer/data/text/tokenizer.h"
#include "gossamer/models/gpt2_file.h"
#include "gossamer/models/model_file.h"
#include "gossamer/models/registry.h"
#include "gossamer/nn/checkpoint.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

constexpr const char* kFile = "average.safetensors";

// What the headers of models that have a mean say alike, and what it is in files of before.
std::vector<std::pair<std::string, std::string>> facts_of_models() {
  std::vector<std::pair<std::string, std::string>> facts{
      {"task", ""},
      {"config", ""},
      {"eps", models::metadata_of("", models::Gpt2Options()).at("eps")}};
  for (const auto& [option, usual] : settings_of(models::ModelOptions()))
    if (option.name != "positions")  // no tensor depends on how many sinusoids there are
      facts.emplace_back(option.name, setting_text(usual));
  return facts;
}

// Counters (of dropout's draws) are the first's. The header too, without a score.
nn::Weights mean_of(const std::vector<ModelSource>& sources) {
  nn::Weights mean;
  const bool pictures = task_of(sources[0]) == "pictures";
  const float share = 1.0f / static_cast<float>(sources.size());
  for (const ModelSource& source : sources) {
    nn::Weights weights = read_model(source);
    if (pictures) weights = models::picture_weights(std::move(weights));
    for (const std::string& note : weights.notes) say(note);
    if (mean.tensors.empty()) {
      mean = weights;
      for (NamedTensor& t : mean.tensors)
        if (is_floating(t.tensor.dtype())) t.tensor = Tensor::zeros(t.tensor.shape());
    }
    check<IoError>(weights.tensors.size() == mean.tensors.size(), weights.file, ": has ",
                   weights.tensors.size(), " tensors, ", mean.file, " has ", mean.tensors.size());
    for (const auto& [key, usual] : facts_of_models()) {
      const auto said = [&of_old = usual, &name = key](const nn::Weights& of) {
        const auto at = of.metadata.find(name);
        return at == of.metadata.end() ? of_old : at->second;
      };
      check<IoError>(said(weights) == said(mean), weights.file, ": is another model than ",
                     mean.file, ": \"", key, "\" in their headers differs");
    }
    for (NamedTensor& t : mean.tensors) {
      const Tensor* add = weights.find(t.name);
      check<IoError>(add != nullptr, weights.file, ": has no \"", t.name, "\", which others have");
      check<IoError>(add->shape() == t.tensor.shape(), weights.file, ": \"", t.name, "\" is ",
                     add->shape(), ", in others ", t.tensor.shape());
      if (is_floating(t.tensor.dtype())) axpy(t.tensor, share, add->to(DType::f32));
    }
  }
  for (const NamedTensor& t : mean.tensors)
    check(t.tensor.dtype() != DType::f32 || all_finite(t.tensor), "average: the mean of \"", t.name,
          "\" is not finite; `gossamer eval` says which of the models has failed");
  mean.metadata = without_score(mean.metadata);
  mean.metadata.emplace("format", "pt");  // Hugging Face's tools look for it
  return mean;
}

// The newest checkpoints of a run, the newest first.
std::vector<ModelSource> newest_of(const fs::path& run, std::size_t last, const Config& config) {
  std::vector<ResumePoint> all = list_checkpoints(run);
  std::erase_if(all, [](const ResumePoint& c) { return !c.whole(); });
  check<IoError>(all.size() >= last, run.string(), ": --last ", last,
                 " is more than the whole checkpoints there (", all.size(),
                 "); run.checkpoint_every writes them, run.keep says how many stay");
  all.resize(last);
  std::vector<ModelSource> sources;
  for (const ResumePoint& point : all) {
    sources.push_back(find_model(point.checkpoint, config));
    sources.back().notes.clear();  // what is taken is what was asked for
  }
  return sources;
}

// ConfigError: an id is other text to one model than to another.
void check_tokenizers(const std::vector<ModelSource>& sources) {
  std::shared_ptr<const data::Tokenizer> first;
  for (const ModelSource& source : sources) {
    const auto own = data::find_tokenizer(source.beside.string());
    if (!first) first = own;
    check<ConfigError>(!own || own->same_ids(*first), "average: ", source.name,
                       " has another tokenizer beside it than the models before it, so its ids are "
                       "other text; leave it out");
  }
}

bool has_batch_norm(const nn::Weights& weights) {
  return std::ranges::any_of(weights.tensors,
                             [](auto& t) { return t.name.ends_with("running_var"); });
}

// Statistics of a batch norm belong to the weights they were taken with, so they are estimated
// again for the mean, on training pictures: those of `keys`, else those of the first model's run.
void estimate_statistics(nn::Weights& mean, const fs::path& run, std::vector<std::string> keys) {
  const fs::path config_of_run = is_run_folder(run) ? run / "config.toml" : fs::path();
  const bool has_config = !keys.empty() && keys[0].ends_with(".toml");
  if (!has_config && fs::exists(config_of_run)) keys.insert(keys.begin(), config_of_run.string());
  Config config = load_config(keys);
  check<ConfigError>(config.origin.contains("data.train"), "average: ", mean.file,
                     " has batch norms, whose statistics must be estimated again for the averaged "
                     "weights; give pictures it was trained on: data.train=DIR");
  if (!config.origin.contains("data.val")) config.data.val = {"none"};
  for (const std::string& key : keys_of(mean, config)) set_key(config, key);
  const auto header = models::header_of(mean);
  if (header && !config.origin.contains("data.size")) config.data.size = header->pictures.size;
  config.dist = {};            // this is one process
  config.train.dtype = "f32";  // as the mean is
  config.train.bn_batches = std::max<i64>(config.train.bn_batches, 1);
  validate(config, 1);
  const Device device = command_device(config);
  settle_cpu(config);
  set_compute_threads(compute_threads_for(config, 1));
  const Task task = make_task(config, {}, device);
  if (header)
    check<DataError>(task.model->header().at("classes") == mean.metadata.at("classes"),
                     paths_text(config.data.train), ": has other classes than ", mean.file,
                     "; give what it was trained on");
  auto net = models::make_loaded(config.model.name,
                                 static_cast<std::size_t>(models::head_of(mean).shape(0)), mean);
  net->to(device);
  task.data->open_loader();
  task.data->seek({}, 1);
  estimate_batch_norm(task, *net, {}, config.train.bn_batches);
  net->to(Device::cpu());
  mean.tensors = nn::in_file_layout(net->state());
}

}  // namespace

int average(const AverageCommand& c) {
  std::vector<std::string> models = c.models, keys = take_keys(models);
  check<ConfigError>(!models.empty(), "average: name models, or a run with --last N");
  const bool run = c.last > 0, of_one_run = models.size() == 1 && is_run_folder(models[0]);
  check<ConfigError>(!run || of_one_run,
                     "average: --last is for the checkpoints of one run; name its folder");
  check<ConfigError>(run || !of_one_run, "average: ", models[0],
                     " is a run: --last N says how many of its checkpoints");
  check<ConfigError>(run || !c.out.empty(), "average: --out says where the mean goes");
  const std::string out = c.out.empty() ? (fs::path(models[0]) / kFile).string() : c.out;
  const Config config = load_config(keys);
  std::vector<ModelSource> sources;
  if (run) sources = newest_of(models[0], static_cast<std::size_t>(c.last), config);
  std::vector<std::string> of;
  for (const ModelSource& s : sources) of.push_back(fs::path(s.name).filename().string());
  if (!run) {
    of = models;
    for (const std::string& model : models) sources.push_back(find_model(model, config));
  }
  for (const ModelSource& source : sources) check_not_read(source, "average: --out", out);
  check_tokenizers(sources);
  nn::Weights mean = mean_of(sources);
  if (has_batch_norm(mean))
    estimate_statistics(mean, sources[0].beside, keys);
  else
    allow_keys(config, "average of models without batch norm", {});
  write_safetensors(out, mean.tensors, mean.metadata);
  if (c.json) {
    print(fmt::format("{}\n", JsonObject().add("out", out).add("of", of).str()));
    return 0;
  }
  print(fmt::format("{}: the mean of {} {}{}\n", out, of.size(), run ? "checkpoint" : "model",
                    of.size() == 1 ? "" : "s"));
  return 0;
}

}  // namespace gossamer::apps
