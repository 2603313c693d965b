// See json_lines.h.
#include "gossamer/data/text/json_lines.h"

#include <nlohmann/json.hpp>

#include "gossamer/core/error.h"
#include "gossamer/core/text/listed.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/text/json.h"
#include "gossamer/data/text/text_file.h"

namespace gossamer::data {

bool is_json_lines(const std::string& path) { return text_suffix(path) == ".jsonl"; }

std::string text_in_json(const std::string& line, const std::string& field,
                         const std::string& place) {
  const nlohmann::json object = json_of<nlohmann::json>(line, place + ": the line is no JSON");
  check<DataError>(object.is_object(), code::not_understood, place,
                   ": the line is no JSON object, as {\"", field, "\": \"…\"}");
  const auto found = object.find(field);
  if (found == object.end()) {
    std::vector<std::string> names;
    for (const auto& [name, value] : object.items()) names.push_back(name);
    fail<DataError>(code::not_understood, place, ": there is no field \"", printable(field),
                    "\"; name the field with the text. The line has ",
                    names.empty() ? "none" : first_of(names));
  }
  if (found->is_null()) return "";
  check<DataError>(found->is_string(), code::not_understood, place, ": field \"", printable(field),
                   "\" is ", found->type_name(), ", not a string; name another field");
  return found->get<std::string>();
}

}  // namespace gossamer::data
