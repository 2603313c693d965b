// See json_values.h.
#include "gossamer/apps/report/json_values.h"

#include <cmath>

namespace gossamer::apps {
namespace {

using Json = nlohmann::json;

const Json& value(const Json& object, const char* key) {
  static const Json nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

}  // namespace

double number(const Json& object, const char* key) {
  const Json& v = value(object, key);
  return v.is_number() ? v.get<double>() : NAN;
}

int whole(const Json& object, const char* key, int nothing) {
  const Json& v = value(object, key);
  return v.is_number_integer() ? v.get<int>() : nothing;
}

std::string text(const Json& object, const char* key) {
  const Json& v = value(object, key);
  return v.is_string() ? v.get<std::string>() : "";
}

}  // namespace gossamer::apps
