// JSON that comes from others: files of tokenizers, lines of text.
// Threads: any.
#pragma once

#include <string>

#include "gossamer/core/error.h"
#include "gossamer/core/text/nesting.h"
#include "gossamer/core/text/printable.h"
#include "gossamer/data/errors.h"

namespace gossamer::data {

// A Json of nlohmann's, which only the callers include. DataError, which begins with `refusal`
// ("a.json: is no JSON") and says why: it is none, or nests deeper than any such text does.
template <class Json>
Json json_of(const std::string& text, const std::string& refusal) {
  const int depth = json_depth(text);
  check<DataError>(depth <= kDeepestJson, code::damaged, refusal, " that can be read: ", depth,
                   " lists and objects stand in one another; at most ", kDeepestJson, " may");
  try {
    return Json::parse(text);
  } catch (const typename Json::exception& error) {
    fail<DataError>(code::damaged, refusal, ": ", printable(error.what()));
  }
}

}  // namespace gossamer::data
