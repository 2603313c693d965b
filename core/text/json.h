// JSON: writes it for log lines, summaries, traces and --json, and guards nlohmann's parser, which
// reads the JSON of others.
// Threads: any.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "gossamer/core/text/listed.h"
#include "gossamer/core/text/nesting.h"
#include "gossamer/core/text/shortest.h"
#include "gossamer/core/text/utf8.h"

namespace gossamer {

inline std::string json_text(std::string_view s) {
  std::string out = "\"";
  for (std::size_t i = 0; i < s.size();) {
    const std::size_t length = utf8_length(s.substr(i));
    const char ch = s[i], last = s[i + std::max<std::size_t>(1, length) - 1];
    const auto code = static_cast<unsigned char>(last);
    if (length == 0)
      out += "\xEF\xBF\xBD";  // U+FFFD for a byte that is no text
    else if (ch == '"' || ch == '\\')
      (out += '\\') += ch;
    else if (code < 0x20 || code == 0x7F || (length == 2 && ch == '\xC2' && code < 0xA0)) {
      char escape[8];  // a control character, of ASCII or of those to U+009F
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(code));
      out += escape;
    } else
      out += s.substr(i, length);
    i += std::max<std::size_t>(1, length);
  }
  return out + "\"";
}
inline std::string json_text(const char* s) { return json_text(std::string_view(s)); }
inline std::string json_text(const std::string& s) { return json_text(std::string_view(s)); }
inline std::string json_text(bool v) { return v ? "true" : "false"; }
template <std::floating_point T>
std::string json_text(T v) {
  if (!std::isfinite(v)) return "null";  // JSON has no infinity
  return shortest(v);
}
template <std::integral T>
requires(!std::same_as<T, bool>) std::string json_text(T v) { return std::to_string(v); }
template <class T>
std::string json_text(const std::vector<T>& list) {
  return "[" + listed(list, ", ", [](const T& each) { return json_text(each); }) + "]";
}

class JsonObject {
 public:
  template <class T>
  JsonObject& add(std::string_view key, const T& value) {
    return raw(key, json_text(value));
  }
  JsonObject& raw(std::string_view key, std::string_view json) {
    text_ += (text_.empty() ? "" : ", ") + json_text(key) + ": " + std::string(json);
    return *this;
  }
  std::string str() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};
inline std::string json_text(const JsonObject& object) { return object.str(); }

// A value without text (a Json of nlohmann's, which only the callers include) if `json` is not
// JSON, or nests deeper than kDeepestJson.
template <class Json>
Json parse_json(std::string_view json) {
  return json_depth(json) > kDeepestJson ? Json(Json::value_t::discarded)
                                         : Json::parse(json, nullptr, false);
}

}  // namespace gossamer
