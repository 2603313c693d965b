// See export_language.h.
#include "gossamer/apps/commands/export_language.h"

#include <filesystem>

#include <fmt/format.h>

#include "gossamer/apps/command_keys.h"
#include "gossamer/apps/config_check.h"
#include "gossamer/apps/terminal.h"
#include "gossamer/apps/train/language_export.h"
#include "gossamer/apps/train/weights_keys.h"
#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/text/json.h"

namespace fs = std::filesystem;

namespace gossamer::apps {

int export_language(const ExportCommand& command) {
  const bool gguf = command.to == "gguf", onnx = command.to == "onnx";
  check<ConfigError>(!onnx || command.dtype.empty(),
                     "--to onnx: its numbers are f32; --dtype is for --to huggingface and gguf");
  check<ConfigError>(
      command.shard_bytes >= 0 && (command.to == "huggingface" || command.shard_bytes == 0),
      "--shard-bytes, from 0 on, is for --to huggingface");
  check<ConfigError>(command.input.empty() && !command.keep_batch_norm && command.classes.empty(),
                     "--to ", command.to,
                     ": --input, --keep-batch-norm and --classes are for "
                     "models of pictures");
  const std::string dtype = command.dtype.empty() ? "f32" : command.dtype;
  const models::LanguageFileOptions of_folder{
      .dtype = command.to == "huggingface" ? folder_type("--dtype", dtype) : DType::f32,
      .most_bytes = command.shard_bytes};
  const auto type = gguf ? models::gguf_type("--dtype", dtype) : models::GgufType::f32;
  const Config config = load_config(command.arguments);
  allow_keys(config, "export", {"model.heads"});
  const ModelSource source = find_model(command.model, config);
  check_not_read(source, "--out", command.out);
  check_task(source, "export --to " + command.to, "language");
  const LanguageModel m = load_language_model(source, DType::f32, config.model.heads);
  std::vector<std::string> notes = m.notes;
  if (gguf) {
    const std::string name = fs::path(command.model).filename().string();
    write_file(command.out, gguf_of(m, name, type, notes));
  } else if (onnx) {
    write_file(command.out, onnx_of(m));
  } else {
    export_folder(command.out, m, source, of_folder);
  }
  for (const std::string& line : notes) say(line);
  if (command.json) {
    JsonObject out;
    out.add("model", models::family_of(m.options)).add("to", command.to).add("out", command.out);
    print(fmt::format("{}\n", out.str()));
    return 0;
  }
  print(fmt::format("{}: a model of the family {} with {} ids, {}\n", command.out,
                    models::family_of(m.options), m.net->vocabulary(),
                    gguf   ? "as a GGUF file"
                    : onnx ? "a graph from ids to logits, opset 17"
                           : "in a folder that Hugging Face's library reads"));
  return 0;
}

}  // namespace gossamer::apps
