// The index of a model that is cut into several files: see weights.h and shards.h.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/io/safetensors.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/nn/shards.h"
#include "gossamer/nn/weights.h"

namespace gossamer::nn {

std::map<std::string, std::vector<std::string>> parse_shard_index(const std::string& text,
                                                                  const std::string& file) {
  const auto json = parse_json<nlohmann::json>(text);
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  check<IoError>(json.is_object() && map != json.end() && map->is_object() && !map->empty(), file,
                 ": has no \"weight_map\" {name: file}");
  std::map<std::string, std::vector<std::string>> out;
  for (const auto& [tensor, value] : map->items()) {
    check<IoError>(value.is_string(), file, ": the file of \"", printable(tensor, 100),
                   "\" is no text");
    const auto& name = value.get_ref<const std::string&>();
    check<IoError>(!name.empty() && name[0] != '.' && name.size() <= 255 &&
                       name.find_first_of(std::string("/\\:\0", 4)) == name.npos,
                   file, ": \"", printable(name, 100),
                   "\" is no name of a file in the same folder");
    out[name].push_back(tensor);
  }
  return out;
}

void write_shards(const std::filesystem::path& path, std::vector<NamedTensor> values,
                  const std::map<std::string, std::string>& metadata, i64 most_bytes) {
  std::size_t total = 0;
  for (const NamedTensor& t : values) total += t.tensor.bytes();
  if (most_bytes == 0 || total <= static_cast<std::size_t>(most_bytes))
    return write_safetensors(path, values, metadata);

  std::vector<std::vector<NamedTensor>> shards(1);
  std::size_t filled = 0;
  for (NamedTensor& t : values) {
    if (filled > 0 && filled + t.tensor.bytes() > static_cast<std::size_t>(most_bytes)) {
      shards.emplace_back();
      filled = 0;
    }
    filled += t.tensor.bytes();
    shards.back().push_back(std::move(t));
  }
  JsonObject where;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    char number[32];
    std::snprintf(number, sizeof number, "-%05zu-of-%05zu", i + 1, shards.size());
    const std::string name = path.stem().string() + number + path.extension().string();
    write_safetensors(path.parent_path() / name, shards[i], metadata);
    for (const NamedTensor& t : shards[i]) where.add(t.name, name);
  }
  JsonObject index;
  index.add("metadata", JsonObject().add("total_size", total)).add("weight_map", where);
  write_file(path.string() + ".index.json", index.str() + "\n");
}

}  // namespace gossamer::nn
