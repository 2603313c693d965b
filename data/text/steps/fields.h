// Checked access to a part of tokenizer.json, which anyone may have written. A step names every key
// that it knows, and one that it does not know is an error: it may change ids.
// Threads: any.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gossamer/core/dtype.h"

namespace gossamer::data {

using Json = nlohmann::json;

class Fields {
 public:
  // place: the file, and the keys that lead here, for errors. DataError: `json` is no object.
  Fields(const Json& json, std::string place);
  const std::string& place() const { return place_; }
  const Json& json() const { return json_; }
  // Throws a DataError: place and what.
  [[noreturn]] void refuse(const std::string& what) const;
  // Beside "type". DataError: another key is there, and it is not null.
  void know(std::initializer_list<const char*> keys) const;
  // null: the key is missing, or its value is null
  const Json* find(const char* key) const;
  std::string type() const { return text("type"); }
  // DataError: the value has another type; without a default: or it is missing.
  std::string text(const char* key) const;
  std::string text_or(const char* key, const std::string& otherwise) const;
  bool flag_or(const char* key, bool otherwise) const;
  i64 number(const char* key) const;  // from 0 on
  Fields object(const char* key) const;
  std::vector<Fields> list(const char* key) const;

 private:
  const Json& at(const char* key) const;
  const Json& json_;
  std::string place_;
};

}  // namespace gossamer::data
