// See json.h.
#include "gossamer/data/text/json.h"

#include "gossamer/core/error.h"
#include "gossamer/core/nesting.h"
#include "gossamer/core/printable.h"
#include "gossamer/data/errors.h"

namespace gossamer::data {

nlohmann::json json_of(const std::string& text, const std::string& refusal) {
  const int depth = json_depth(text);
  check<DataError>(depth <= kDeepestJson, code::damaged, refusal, " that can be read: ", depth,
                   " lists and objects stand in one another; at most ", kDeepestJson, " may");
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    fail<DataError>(code::damaged, refusal, ": ", printable(error.what()));
  }
}

}  // namespace gossamer::data
