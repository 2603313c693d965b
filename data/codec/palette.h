// The colours that the numbers of a picture stand for (GIF, BMP).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace gossamer::data {

using Palette = std::array<std::array<std::uint8_t, 3>, 256>;

// Gray number i is i, from this number on.
inline void fill_with_grays(Palette& palette, std::size_t from) {
  for (; from < palette.size(); ++from) palette[from].fill(static_cast<std::uint8_t>(from));
}

// Whether the first `held` colours are those grays. Pillow then takes all numbers for grays.
inline bool is_ramp(const Palette& palette, std::size_t held) {
  Palette grays;
  fill_with_grays(grays, 0);
  return std::equal(palette.begin(), palette.begin() + static_cast<std::ptrdiff_t>(held),
                    grays.begin());
}

}  // namespace gossamer::data
