// Parts of decoding a JPEG by themselves, to measure where the time goes (`gossamer bench data`).
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "gossamer/data/codec/image.h"

namespace gossamer::data {

// The entropy decoding of a whole file by libjpeg. DataError as decode().
void read_coefficients(std::span<const std::byte>, const std::string& name);
// The entropy decoding that a part of the picture costs here. DataError as decode().
void skim_jpeg(std::span<const std::byte>, const std::string& name, Box);

}  // namespace gossamer::data
