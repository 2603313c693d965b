// What is wrong with a file is said with the keys that lead to it.
#include "gossamer/data/text/steps/fields.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "gossamer/core/error.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/data/errors.h"

namespace gossamer::data {
namespace {

// The value as text for an error, cut short.
std::string shown(const Json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 100));
}

}  // namespace

Fields::Fields(const Json& json, std::string place) : json_(json), place_(std::move(place)) {
  if (!json.is_object()) refuse("is " + shown(json) + "; an object is wanted");
}

void Fields::refuse(const std::string& what) const {
  fail<DataError>(code::not_understood, place_, ": ", what);
}

void Fields::know(std::initializer_list<const char*> keys) const {
  for (const auto& [key, value] : json_.items()) {
    const std::string_view name = key;
    const auto is_name = [&](const char* known) { return name == known; };
    if (value.is_null() || name == "type" || std::ranges::any_of(keys, is_name)) continue;
    refuse("has the key \"" + printable(key.substr(0, 100)) + "\", which is not supported");
  }
}

const Json* Fields::find(const char* key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

const Json& Fields::at(const char* key) const {
  const Json* const found = find(key);
  if (!found) refuse(std::string("lacks \"") + key + "\"");
  return *found;
}

std::string Fields::text(const char* key) const {
  const Json& value = at(key);
  if (!value.is_string())
    refuse(std::string("has \"") + key + "\": " + shown(value) + "; a text is wanted");
  return value.get<std::string>();
}

std::string Fields::text_or(const char* key, const std::string& otherwise) const {
  return find(key) ? text(key) : otherwise;
}

bool Fields::flag_or(const char* key, bool otherwise) const {
  const Json* const value = find(key);
  if (!value) return otherwise;
  if (!value->is_boolean())
    refuse(std::string("has \"") + key + "\": " + shown(*value) + "; true or false is wanted");
  return value->get<bool>();
}

i64 Fields::number(const char* key) const {
  const Json& value = at(key);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::uint64_t{1} << 53)
    refuse(std::string("has \"") + key + "\": " + shown(value) +
           "; a whole number from 0 on is wanted");
  return value.get<i64>();
}

Fields Fields::object(const char* key) const { return {at(key), place_ + ": " + key}; }

std::vector<Fields> Fields::list(const char* key) const {
  const Json& value = at(key);
  if (!value.is_array())
    refuse(std::string("has \"") + key + "\": " + shown(value) + "; a list is wanted");
  std::vector<Fields> out;
  for (std::size_t i = 0; i < value.size(); ++i)
    out.emplace_back(value[i], place_ + ": " + key + "[" + std::to_string(i) + "]");
  return out;
}

}  // namespace gossamer::data
