// `gossamer export MODEL --to onnx|safetensors|torch --out FILE`: a model file in the formats of
// others. export_language.cpp does it for language models.
#include <fmt/core.h>

#include "gossamer/apps/command_keys.h"
#include "gossamer/apps/commands.h"
#include "gossamer/apps/commands/export_language.h"
#include "gossamer/apps/config_check.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/known_data.h"
#include "gossamer/apps/train/model_source.h"
#include "gossamer/apps/train/picture_model.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/io/torch_file.h"
#include "gossamer/core/text/json.h"
#include "gossamer/models/onnx.h"
#include "gossamer/nn/checkpoint.h"

namespace gossamer::apps {
namespace {

void save_with_header(const std::string& file, const LoadedModel& model,
                      const ModelSource& source) {
  auto header = model_metadata(model.name, model.pictures, model.classes);
  header.merge(held_back_entry(model_header(source)));
  nn::save(file, *model.net, header);
}

bool is_language_model(const ExportCommand& command) {
  return task_of(find_model(command.model, load_config(command.arguments))) == "language";
}

}  // namespace

int export_model(const ExportCommand& command) {
  const bool onnx = command.to == "onnx";
  if (command.to == "huggingface" || command.to == "gguf" || (onnx && is_language_model(command)))
    return export_language(command);
  check<ConfigError>(
      onnx || command.to == "safetensors" || command.to == "torch", "--to ", command.to,
      ": wanted onnx, safetensors or torch; of a language model huggingface, gguf or onnx");
  check<ConfigError>(command.dtype.empty() && command.shard_bytes == 0, "--to ", command.to,
                     ": --dtype and --shard-bytes are for models of language");
  check<ConfigError>(onnx || (command.input.empty() && !command.keep_batch_norm), "--to ",
                     command.to,
                     ": --input and --keep-batch-norm are for --to onnx, which holds a graph");
  models::OnnxOptions options{.keep_batch_norm = command.keep_batch_norm};
  if (!command.input.empty()) options.input = models::onnx_input("--input", command.input);
  const Config config = load_config(command.arguments);
  allow_keys(config, "export", model_keys());
  validate(config, 1);
  const ModelSource source = find_model(command.model, config);
  check_not_read(source, "--out", command.out);
  check_task(source, "export", "pictures");
  LoadedModel model = load_model(source, DType::f32, config);
  if (!command.classes.empty()) name_classes(model, command.classes);
  for (const std::string& line : model.notes) say(line);
  if (onnx)
    write_file(command.out,
               models::onnx_bytes(nn::in_file_layout(model.net->state()),
                                  header_of(model.name, model.pictures, model.classes), options));
  else if (command.to == "torch")
    write_torch_file(command.out, nn::in_file_layout(model.net->state()));
  else
    save_with_header(command.out, model, source);
  if (command.json) {
    JsonObject out;
    out.add("model", model.name)
        .add("classes", model.classes.size())
        .add("size", model.pictures.size)
        .add("to", command.to)
        .add("out", command.out);
    print(fmt::format("{}\n", out.str()));
    return 0;
  }
  const char* what = onnx                    ? "a graph from images to logits, opset 13"
                     : command.to == "torch" ? "a state dict with torchvision's names"
                                             : "weights with torchvision's names, and our header";
  print(fmt::format("{}: {} with {} classes for pictures of {}x{}; {}\n", command.out, model.name,
                    model.classes.size(), model.pictures.size, model.pictures.size, what));
  return 0;
}

}  // namespace gossamer::apps
