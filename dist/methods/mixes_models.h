// Which methods mix what neighbours send of their models as it is, so that one can lie about its
// own (faults/attack.h). Of the others workers send sums or parts, or sum over all.
#pragma once

#include <string>

#include "gossamer/dist/methods/registry.h"

namespace gossamer::dist {

inline bool mixes_models(const std::string& method, const Settings& given = {}) {
  const MethodRow& row = method_row(stepping_method(method, given));
  if (!row.traits.graph || !row.formula) return row.traits.graph;
  const auto formula = row.formula({});
  return formula->trees() == 0 && !formula->compressor();
}

}  // namespace gossamer::dist
