// See transformer_file.h.
#include "gossamer/models/transformer_file.h"

#include "gossamer/core/error.h"

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

}  // namespace gossamer::models
