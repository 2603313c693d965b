// See transformer_file.h.
#include "gossamer/models/transformer_file.h"

#include <charconv>

#include "gossamer/core/error.h"
#include "gossamer/core/text/shortest.h"
#include "gossamer/models/named_options.h"

namespace gossamer::models {
namespace {

void drop_prefix(std::string& name, std::string_view prefix) {
  if (name.starts_with(prefix)) name.erase(0, prefix.size());
}

}  // namespace

nn::Weights transformer_weights(nn::Weights file) {
  std::vector<NamedTensor> out;
  for (NamedTensor& t : file.tensors) {
    drop_prefix(t.name, "_");
    drop_prefix(t.name, "token_");
    drop_prefix(t.name, "transformer.");
    const std::size_t at = t.name.find("in_proj_");
    if (at == std::string::npos) {
      out.push_back(t);
      continue;
    }
    const std::string before = t.name.substr(0, at), kind = t.name.substr(at + 8);
    if (before.find("multihead_attn.") == std::string::npos) {
      out.push_back({before + "in_proj." + kind, t.tensor});
      continue;
    }
    const i64 rows = t.tensor.shape(0);
    check<IoError>(rows % 3 == 0, file.file, ": ", t.name, " has ", rows,
                   " rows; wanted those of q, k and v");
    out.push_back({before + "q_proj." + kind, t.tensor.slice(0, rows / 3)});
    out.push_back({before + "kv_proj." + kind, t.tensor.slice(rows / 3, rows)});
  }
  file.tensors = std::move(out);
  return file;
}

std::map<std::string, std::string> metadata_of(const TransformerOptions& o) {
  auto entries = in_header(named_options(o));
  entries.insert({{"task", "translation"},
                  {"model", "transformer"},
                  {"vocabulary", std::to_string(o.vocabulary)},
                  {"eps", six_digits(o.eps)}});
  return entries;
}

std::optional<TransformerOptions> transformer_header_of(const nn::Weights& file) {
  const auto get = [&](const std::string& key) {
    const auto at = file.metadata.find(key);
    check<IoError>(at != file.metadata.end(), file.file, ": the header has no \"", key, "\"");
    return at->second;
  };
  const auto number = [&](const char* key, auto value) {
    const std::string text = get(key);
    const auto end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, value);
    check<IoError>(error == std::errc() && stopped == end, file.file, ": \"", key,
                   "\" in the header is \"", text, "\", not a number");
    return value;
  };
  if (!file.metadata.contains("task") || get("task") != "translation") return {};
  TransformerOptions o;
  const auto options = named_options(o);
  for (const auto& [option, usual] : options)  // files of before another option have its default
    if (std::holds_alternative<i64>(usual)) get(option.name);
  set_options(o, said_in_header(file, options));
  o.vocabulary = number("vocabulary", i64{});
  o.eps = number("eps", float{});
  o.dropout = 0;
  // The header must say what the tensors are, which is checked before memory is asked for.
  file.check_read("embedding.weight");
  const Tensor* table = file.find("embedding.weight");
  check<IoError>(table && table->shape() == Shape{o.vocabulary, o.width} &&
                     o.layers <= static_cast<i64>(file.tensors.size()),
                 file.file, ": the header's vocabulary ", o.vocabulary, ", width ", o.width, ", ",
                 o.layers, " layers and ", o.positions, " positions are not its tensors'");
  return o;
}

}  // namespace gossamer::models
