// See language_export.h.
#include "gossamer/apps/train/language_export.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/data/text/chat.h"
#include "gossamer/data/text/token_tables.h"
#include "gossamer/models/onnx_language.h"

namespace fs = std::filesystem;

namespace gossamer::apps {

DType folder_type(const std::string& option, const std::string& name) {
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    if (name == name_of(type)) return type;
  fail<ConfigError>(option, " ", name, ": a folder of Hugging Face has f32, bf16 or f16");
}

void export_folder(const fs::path& folder, const LanguageModel& m, const ModelSource& source,
                   const models::LanguageFileOptions& options) {
  std::error_code none;
  check<ConfigError>(
      !fs::exists(folder, none) || (fs::is_directory(folder, none) && fs::is_empty(folder, none)),
      folder.string(), ": is there already; name a new or empty folder");
  fs::create_directories(folder, none);
  data::Marks marks = m.tokenizer ? m.tokenizer->marks() : data::Marks();
  if (!m.ends.empty() && std::ranges::find(m.ends, marks.end) == m.ends.end())
    marks.end = m.ends.front();
  write_file(folder / "config.json", hugging_face_config(m.options, marks, options.dtype));
  if (m.tokenizer) {
    for (const data::Tokenizer::StoredFile& file : m.tokenizer->files())
      write_file(folder / file.name, file.bytes);
    const std::string config = hugging_face_tokenizer_config(*m.tokenizer);
    if (!config.empty()) write_file(folder / "tokenizer_config.json", config);
  }
  for (const char* name : {"generation_config.json", "chat_template.jinja"})
    if (std::ifstream said(source.beside / name); said.good())
      write_file(folder / name, std::string(std::istreambuf_iterator<char>(said), {}));
  const auto of_file = model_header(source);
  const auto name = of_file.find("model");
  models::save_language(
      folder / "model.safetensors", *m.net, nullptr,
      models::language_header(name == of_file.end() ? models::family_of(m.options) : name->second,
                              m.options),
      options);
}

namespace {

// llama.cpp cuts text by functions of these names; a file does not say its pattern.
std::string split_of(const data::TokenTables& tables) {
  if (tables.split == "cl100k") return tables.ignore_merges ? "llama-bpe" : "dbrx";
  static constexpr std::pair<const char*, const char*> kNames[]{{"gpt2", "gpt-2"},
                                                                {"digits", "smollm"},
                                                                {"qwen2", "qwen2"},
                                                                {"o200k", "gpt-4o"},
                                                                {"tekken", "tekken"}};
  return std::ranges::find(kNames, tables.split,
                           [](const auto& each) { return std::string_view(each.first); })
      ->second;
}

// Whether the tokenizer's frame puts this mark there, or nothing.
bool frames(const std::vector<std::int32_t>& ids, std::int32_t mark, const char* where) {
  check<ConfigError>(ids.empty() || (ids.size() == 1 && ids[0] == mark),
                     "gguf: the tokenizer puts more ids than one mark ", where,
                     " each text, which a GGUF file cannot say");
  return !ids.empty();
}

models::GgufKeys tokenizer_keys(const LanguageModel& m, std::vector<std::string>& notes) {
  if (!m.tokenizer) {
    notes.push_back(
        "there is no tokenizer beside the model; the file says no_vocab, and llama.cpp "
        "takes ids only");
    return {{"tokenizer.ggml.model", "no_vocab"}};
  }
  data::TokenTables tables = data::token_tables(*m.tokenizer);
  notes.insert(notes.end(), tables.notes.begin(), tables.notes.end());
  // Rows of the table that were rounded up are ids, too.
  const auto vocabulary = static_cast<std::size_t>(m.net->vocabulary());
  tables.kinds.resize(vocabulary, data::TokenKind::unused);
  tables.tokens.resize(vocabulary);
  std::vector<std::int32_t> kinds;
  for (std::size_t id = 0; id < vocabulary; ++id) {
    if (tables.kinds[id] == data::TokenKind::unused) tables.tokens[id] = fmt::format("[PAD{}]", id);
    kinds.push_back(static_cast<std::int32_t>(tables.kinds[id]));
  }
  models::GgufKeys keys{{"tokenizer.ggml.model", tables.byte_level ? "gpt2" : "llama"},
                        {"tokenizer.ggml.pre", tables.byte_level ? split_of(tables) : "default"},
                        {"tokenizer.ggml.tokens", tables.tokens},
                        {"tokenizer.ggml.token_type", kinds}};
  if (tables.byte_level) {
    keys.emplace_back("tokenizer.ggml.merges", tables.merges);
  } else {
    tables.scores.resize(vocabulary);
    keys.emplace_back("tokenizer.ggml.scores", tables.scores);
    keys.emplace_back("tokenizer.ggml.add_space_prefix", tables.space_in_front);
  }

  const data::Marks marks = m.tokenizer->marks();
  std::vector<std::int32_t> ends = m.ends;
  if (marks.end >= 0) std::erase(ends, marks.end), ends.insert(ends.begin(), marks.end);
  // Without it llama.cpp would take an id that has nothing to do with this vocabulary.
  check<ConfigError>(!ends.empty(),
                     "gguf: the tokenizer has no end mark, and a GGUF file needs one");
  const data::Tokenizer::Frame frame = m.tokenizer->frame();
  const std::int32_t begin = marks.begin >= 0 ? marks.begin : ends[0];
  const auto add_id = [&](const char* key, std::int32_t id) {
    keys.emplace_back(std::string("tokenizer.ggml.") + key, static_cast<std::uint32_t>(id));
  };
  add_id("bos_token_id", begin);
  add_id("eos_token_id", ends[0]);
  if (ends.size() > 1) add_id("eot_token_id", ends[1]);
  if (ends.size() > 2)
    notes.push_back(
        fmt::format("{} ids end a text; the file says the first two of them", ends.size()));
  if (marks.pad >= 0) add_id("padding_token_id", marks.pad);
  if (const auto unknown = std::ranges::find(tables.kinds, data::TokenKind::unknown);
      unknown != tables.kinds.end())
    add_id("unknown_token_id", static_cast<std::int32_t>(unknown - tables.kinds.begin()));
  keys.emplace_back("tokenizer.ggml.add_bos_token", frames(frame.before, begin, "in front of"));
  keys.emplace_back("tokenizer.ggml.add_eos_token", frames(frame.after, ends[0], "behind"));
  if (const std::string chat = data::chat_template_of(*m.tokenizer, m.folder); !chat.empty())
    keys.emplace_back("tokenizer.chat_template", chat);
  return keys;
}

}  // namespace

std::string gguf_of(const LanguageModel& m, const std::string& name, models::GgufType type,
                    std::vector<std::string>& notes) {
  const models::GgufKeys keys = tokenizer_keys(m, notes);
  return models::gguf_bytes(*m.net, name, type, keys, notes);
}

std::string onnx_of(const LanguageModel& m) {
  const std::string name = models::family_of(m.options);
  return models::onnx_bytes(*m.net, name, models::language_header(name, m.options));
}

}  // namespace gossamer::apps
