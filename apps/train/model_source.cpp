// See model_source.h.
#include "gossamer/apps/train/model_source.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "gossamer/apps/train/resume_point.h"
#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/text/file_names.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/core/text/spelling.h"
#include "gossamer/models/language_file.h"
#include "gossamer/models/lora_file.h"
#include "gossamer/nn/checkpoint.h"
#include "gossamer/nn/train/train_state.h"
#include "gossamer/nn/train/worker_models.h"

namespace fs = std::filesystem;

namespace gossamer::apps {
namespace {

// The folder of the run that a checkpoint belongs to; of one that was moved away, itself.
fs::path run_of(const fs::path& checkpoint) {
  const fs::path above = fs::absolute(checkpoint).parent_path();
  return above.filename() == "checkpoints" ? above.parent_path() : checkpoint;
}

// The task that a header says; empty: it says none.
std::string task_in(const std::map<std::string, std::string>& header) {
  if (!header.contains("model")) return "";
  return header.contains("task") ? header.at("task") : "pictures";
}

// A folder of Hugging Face says in config.json which kind of language model it holds.
bool says_model_type(const fs::path& folder) {
  std::ifstream in(folder / "config.json");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto config = parse_json<nlohmann::json>(text);
  return config.is_object() && config.contains("model_type");
}

ModelSource of_checkpoint(const ResumePoint& point) {
  ModelSource s{.name = point.checkpoint.string(),
                .files = point.files,
                .of_workers = true,
                .beside = run_of(point.checkpoint),
                .notes = {}};
  s.notes.push_back(s.name + ": the model of this checkpoint" +
                    (point.files.size() == 1
                         ? ""
                         : ", the mean of " + std::to_string(point.files.size()) + " workers") +
                    (point.defect.empty() ? "" : "; it is not whole: " + point.defect));
  return s;
}

// The names of files of weights, for a message.
std::vector<std::string> weights_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (has_ending(entry.path().filename().string(), {".safetensors", ".pth", ".pt"}))
      names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  if (names.size() > 5) names.resize(5), names.push_back("…");
  return names;
}

ModelSource find(const fs::path& given);

ModelSource of_adapter(const fs::path& folder) {
  const fs::path path = folder / models::kAdapterConfig;
  std::ifstream in(path);
  const std::string text((std::istreambuf_iterator<char>(in)), {}),
      base = models::read_adapter_config(text, path.string()).base;
  const fs::path near = folder / base;
  ModelSource s;
  for (const fs::path& each : {near, fs::path(base)})
    if (!base.empty() && s.files.empty() && fs::exists(each)) {
      check<IoError>(!fs::exists(each / models::kAdapterConfig), path.string(), ": ", each.string(),
                     " is an adapter, too; wanted the model that they are of");
      s = find(each);
    }
  check<IoError>(!s.files.empty(), path.string(), ": base_model_name_or_path is ",
                 base.empty() ? "not said" : printable(base),
                 "; wanted the model that the adapter is of: a path from here or from this folder");
  s.notes.push_back("the adapter of " + folder.string() + " is added to " + s.name);
  s.name = folder.string();
  s.adapter = folder;
  return s;
}

ModelSource of_folder(const fs::path& folder) {
  if (is_checkpoint_folder(folder)) {
    const ResumePoint point = checkpoint_in(folder);
    check<IoError>(!point.files.empty(), folder.string(), ": ", point.defect);
    return of_checkpoint(point);
  }
  ModelSource s{.name = folder.string(),
                .files = {folder / "model.safetensors"},
                .of_workers = false,
                .beside = folder,
                .notes = {}};
  // the four forms in which Hugging Face's library writes a model
  for (const char* name : {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                           "pytorch_model.bin.index.json"})
    if (fs::exists(folder / name)) {
      s.files[0] = folder / name;
      return s;
    }
  if (fs::exists(folder / models::kAdapterConfig)) return of_adapter(folder);
  const bool run = is_run_folder(folder);
  const std::string instead = ": no model.safetensors is there; taken is ";
  if (const fs::path best = folder / "best.safetensors"; fs::exists(best)) {
    s.files = {best};
    s.notes = {s.name + instead + "its best model, " + best.string()};
    return s;
  }
  const std::vector<ResumePoint> all = list_checkpoints(folder);
  if (const auto newest = std::ranges::find_if(all, &ResumePoint::whole); newest != all.end()) {
    ModelSource found = of_checkpoint(*newest);
    found.name = s.name;
    found.beside = folder;
    found.notes[0] = s.name + instead + "the newest checkpoint. " + found.notes[0];
    return found;
  }
  const std::vector<std::string> weights = weights_in(folder);
  fail<IoError>(
      s.name, ": has no model.safetensors",
      weights.empty() ? "" : ", but " + alternatives(weights) + "; name one of these files",
      !weights.empty() ? ""
      : run ? "; its run has not ended or has failed, and it has no checkpoint that is whole"
            : " and no checkpoint; a model is a file of weights, the folder of a run or of a "
              "checkpoint");
}

ModelSource find(const fs::path& given) {
  std::error_code error;
  const fs::path path = given.has_filename() ? given : given.parent_path();  // "runs/x/"
  if (fs::is_directory(path, error)) return of_folder(path);
  check<IoError>(fs::exists(path, error), path.string(), ": there is no such file or folder");
  fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const bool worker = is_checkpoint_file(path);
  if (folder.filename() == "best") folder = fs::absolute(folder).parent_path();  // RUN/best/
  return {.name = path.string(),
          .files = {path},
          .of_workers = worker,
          .beside = worker ? run_of(folder) : folder,
          .notes = {}};
}

}  // namespace

bool is_run_folder(const fs::path& folder) { return fs::exists(folder / "log.jsonl"); }

ModelSource find_model(const fs::path& path, const nn::WeightsOptions& options) {
  ModelSource source = find(path);
  source.options = options;
  return source;
}

void check_not_read(const ModelSource& source, const std::string& option, const fs::path& out) {
  std::error_code none;
  for (const fs::path& file : source.files)
    check<ConfigError>(!fs::equivalent(file, out, none), option, " ", out.string(),
                       " is the model that is read; name another file");
}

std::map<std::string, std::string> model_header(const ModelSource& source) {
  auto header = nn::read_weights_header(source.files[0]);
  if (!source.of_workers) return header;
  if (auto model = nn::model_header_in(header); !model.empty()) return model;
  for (const char* name : {"model.safetensors", "best.safetensors"})  // beside an older checkpoint
    if (const fs::path file = source.beside / name; fs::exists(file))
      return nn::read_metadata(file);
  return {};
}

nn::Weights read_model(const ModelSource& source) {
  nn::Weights weights;
  if (source.of_workers) {
    check<IoError>(source.options.key.empty(), source.name,
                   ": model.init_key = ", source.options.key,
                   ": a checkpoint holds one model; leave the key out");
    weights.file = source.name;
    weights.metadata = model_header(source);
    auto tensors = nn::mean_of_workers(source.files);
    const bool language = task_in(weights.metadata) == "language";
    if (language)  // its files have no counters
      std::erase_if(tensors, [](const NamedTensor& t) { return !is_floating(t.tensor.dtype()); });
    weights.tensors = language ? models::language_in_file(tensors, weights.metadata)
                               : nn::in_file_layout(tensors);
    nn::rename(weights, source.options.rename);
  } else {
    weights = nn::read_weights(source.files[0], source.options);
  }
  if (!source.adapter.empty()) models::merge_adapter(source.adapter, weights);
  weights.notes.insert(weights.notes.begin(), source.notes.begin(), source.notes.end());
  return weights;
}

std::string task_of(const ModelSource& source) {
  if (std::string said = task_in(model_header(source)); !said.empty()) return said;
  if (says_model_type(source.beside))
    return "language";  // of another kind: who reads it refuses it
  return models::is_language(read_model(source)) ? "language" : "pictures";
}

void check_task(const ModelSource& source, const std::string& command, const std::string& wanted) {
  const std::string is = task_of(source);
  if (is == wanted) return;
  const auto kind = [](const std::string& task) {
    return task == "pictures" ? "a model of pictures" : "a " + task + " model";
  };
  const std::map<std::string, std::string> instead{
      {"pictures", "`gossamer classify` says what pictures show"},
      {"language",
       "`gossamer generate` goes on with a text, and `gossamer export --to huggingface`, `gguf` "
       "or `onnx` writes it for other programs"},
      {"translation", "`gossamer translate` translates with it"}};
  fail<ConfigError>(command, ": ", source.name, " is ", kind(is), ", and this command wants ",
                    kind(wanted), "; ", instead.at(is));
}

void check_finite(const nn::Module& net, const std::string& file) {
  for (const NamedTensor& t : net.state())
    check(t.tensor.dtype() != DType::f32 || all_finite(t.tensor), file, ": \"", t.name,
          "\" holds values that are not finite numbers, so the model can answer nothing; did its "
          "training fail?");
}

void check_finite(double loss, const std::string& file) {
  check(
      std::isfinite(loss), file,
      ": the loss on these data is no finite number, so its answers mean nothing; did its training "
      "fail?");
}

}  // namespace gossamer::apps
