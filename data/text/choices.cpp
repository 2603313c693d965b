// See choices.h.
#include "gossamer/data/text/choices.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>

#include "gossamer/core/dtype.h"
#include "gossamer/core/error.h"
#include "gossamer/data/errors.h"
#include "gossamer/data/text/json.h"

namespace gossamer::data {
namespace {

using Json = nlohmann::json;

std::optional<i64> whole_number(const Json& value) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() < (std::uint64_t{1} << 53))
    return value.get<i64>();
  if (!value.is_string()) return std::nullopt;
  const auto text = value.get<std::string>();
  i64 number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end ? std::optional(number) : std::nullopt;
}

}  // namespace

Choices choices_in_json(const std::string& line, const std::string& place) {
  const Json object = json_of<Json>(line, place + ": the line is no JSON");
  const auto wanted = [&](bool good, const std::string& what) {
    check<DataError>(good, code::not_understood, place, ": ", what,
                     R"(; a line is {"ctx": "…", "endings": ["…", "…"], "label": 0})");
  };
  wanted(object.is_object(), "the line is no JSON object");
  for (const char* key : {"ctx", "endings", "label"})
    wanted(object.contains(key), std::string("there is no \"") + key + "\"");
  wanted(object["ctx"].is_string(), "\"ctx\" is no text");
  const Json& endings = object["endings"];
  wanted(endings.is_array() && endings.size() >= 2 &&
             std::ranges::all_of(endings,
                                 [](const Json& each) {
                                   return each.is_string() && !each.get<std::string>().empty();
                                 }),
         "\"endings\" is no list of two texts or more");
  const std::optional<i64> label = whole_number(object["label"]);
  wanted(label && *label >= 0 && *label < static_cast<i64>(endings.size()),
         "\"label\" is not the number of an ending, from 0 on");
  return {object["ctx"].get<std::string>(), endings.get<std::vector<std::string>>(),
          static_cast<std::size_t>(*label)};
}

}  // namespace gossamer::data
