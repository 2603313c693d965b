// Values of a JSON object that others may have written, or a program of another version: what is
// missing or of another type is read as nothing.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gossamer::apps {

double number(const nlohmann::json& object, const char* key);  // nothing: NaN
int whole(const nlohmann::json& object, const char* key, int nothing = 0);
std::string text(const nlohmann::json& object, const char* key);  // nothing: ""

}  // namespace gossamer::apps
