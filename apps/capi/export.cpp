// Language models in the formats of others.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "gossamer/apps/capi/language.h"
#include "gossamer/apps/train/language_export.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/text/printable.h"

using namespace gossamer;
using namespace gossamer::capi;

namespace {

// Writes a folder that is new or empty. What it began is gone if that fails, so the caller can try
// again.
template <class Write>
void whole_folder(const std::filesystem::path& folder, Write&& write) {
  std::error_code none;
  const bool exists = std::filesystem::exists(folder, none);
  const bool empty = exists && std::filesystem::is_empty(folder, none);
  try {
    write();
  } catch (...) {
    if (!exists || empty) std::filesystem::remove_all(folder, none);
    if (empty) std::filesystem::create_directory(folder, none);
    throw;
  }
}

}  // namespace

gsm_status gsm_language_export(gsm_language* language, const char* path,
                               const gsm_export_options* options) {
  return guarded([&] {
    const Shared<Language> l(language);
    check_path(path);
    const gsm_export_options o = options_of(options, "gsm_export_options");
    const std::string to = o.to ? o.to : "huggingface", dtype = o.dtype ? o.dtype : "f32";
    const bool folder = to == "huggingface", gguf = to == "gguf";
    check<ConfigError>(folder || gguf || to == "onnx", "gsm_export_options.to: ", printable(to),
                       "; wanted huggingface, gguf or onnx");
    check<ConfigError>(folder || gguf || dtype == "f32",
                       "gsm_export_options.dtype: ", printable(dtype),
                       "; the numbers of ONNX files are f32");
    check<ArgumentError>(o.shard_bytes >= 0, "gsm_export_options.shard_bytes is ", o.shard_bytes,
                         "; wanted 0 or more");
    check<ConfigError>(folder || o.shard_bytes == 0,
                       "gsm_export_options.shard_bytes is for a folder of Hugging Face");
    constexpr const char* kDtype = "gsm_export_options.dtype";
    const models::LanguageFileOptions of_folder{
        .dtype = folder ? apps::folder_type(kDtype, dtype) : DType::f32,
        .most_bytes = o.shard_bytes};
    const auto type = gguf ? models::gguf_type(kDtype, dtype) : models::GgufType::f32;
    std::error_code missing;
    check<ConfigError>(std::ranges::none_of(l->source().files,
                                            [&](const std::filesystem::path& file) {
                                              return std::filesystem::equivalent(file, path,
                                                                                 missing);
                                            }),
                       path, ": is the file of the model; name another one");
    // As it was given: the open one may have 16 bits, or fewer positions.
    const apps::LanguageModel m = apps::load_language_model(l->source(), DType::f32, l->heads());
    std::vector<std::string> notes;
    if (folder)
      whole_folder(path, [&] { apps::export_folder(path, m, l->source(), of_folder); });
    else
      write_file(path, gguf ? apps::gguf_of(m, l->source().name, type, notes) : apps::onnx_of(m));
    for (const std::string& line : notes) log_line(line);
  });
}
