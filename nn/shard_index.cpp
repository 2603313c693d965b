// The index of a model that is cut into several files: see weights.h.
#include <nlohmann/json.hpp>

#include "gossamer/core/error.h"
#include "gossamer/core/text/json.h"
#include "gossamer/core/text/printable.h"
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

}  // namespace gossamer::nn
