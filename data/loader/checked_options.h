// What LoaderOptions amount to. ConfigError and DataError say which of them make no sense.
#pragma once

#include "gossamer/data/augment/augment.h"
#include "gossamer/data/loader.h"

namespace gossamer::data {

i64 steps_of(const Dataset&, const LoaderOptions&);  // batches an epoch
Recipe recipe_of(const LoaderOptions&, int size);
std::size_t box_bytes_of(const LoaderOptions&);  // room for an image's box; 0: no boxes

}  // namespace gossamer::data
