// JSON that comes from others: files of tokenizers, lines of text.
// Threads: any.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace gossamer::data {

// DataError, which begins with `refusal` ("a.json: is no JSON") and says why: it is none, or nests
// deeper than any such text does (core/nesting.h).
nlohmann::json json_of(const std::string& text, const std::string& refusal);

}  // namespace gossamer::data
