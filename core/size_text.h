// Sizes of memory as people read them.
#pragma once

#include <cstddef>
#include <iomanip>
#include <sstream>
#include <string>

namespace gossamer {

// "512 MiB", "1.25 GiB"
inline std::string size_text(std::size_t bytes) {
  constexpr double kMiB = 1048576, kGiB = 1024 * kMiB;
  const auto size = static_cast<double>(bytes);
  std::ostringstream text;
  text << std::fixed;
  if (size < kGiB)
    text << std::setprecision(0) << size / kMiB << " MiB";
  else
    text << std::setprecision(2) << size / kGiB << " GiB";
  return text.str();
}

}  // namespace gossamer
