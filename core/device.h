// Devices. The header knows no CUDA type, so every folder may include it.
// Threads: any.
#pragma once

#include <cstdint>
#include <iosfwd>

namespace gossamer {

struct Device {
  enum class Kind : std::uint8_t { cpu, cuda } kind = Kind::cpu;
  int index = 0;
  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int index = 0) { return {Kind::cuda, index}; }
  bool operator==(const Device&) const = default;
  bool is_cpu() const { return kind == Kind::cpu; }
};

std::ostream& operator<<(std::ostream&, Device);  // "cpu", "cuda:0"

}  // namespace gossamer
