// Reads what Linux says about memory.
#include "gossamer/core/free_memory.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>

namespace gossamer {
namespace {

constexpr std::size_t kUnknown = std::numeric_limits<std::size_t>::max();

// The number after a word at the start of a line: "MemAvailable:   123 kB".
std::optional<std::size_t> value_of(const std::string& path, const std::string& word) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(word + " ") || line.starts_with(word + "\t"))
      return std::strtoull(line.c_str() + word.size(), nullptr, 10);
  return std::nullopt;
}

std::optional<std::size_t> number_in(const std::string& path) {
  std::ifstream in(path);
  std::size_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // "max", too
}

}  // namespace

std::size_t free_main_memory(const std::string& root) {
  std::size_t left = kUnknown;
  const std::string meminfo = root + "/proc/meminfo", groups = root + "/sys/fs/cgroup/";
  if (const auto available = value_of(meminfo, "MemAvailable:"))
    left = 1024 * (*available + value_of(meminfo, "SwapFree:").value_or(0));
  // version 2 and version 1; the files of a group that are cached count as taken, but are given up
  for (const auto& [limit, taken, stat, cached] :
       {std::array{"memory.max", "memory.current", "memory.stat", "file"},
        std::array{"memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes",
                   "memory/memory.stat", "total_cache"}}) {
    const auto most = number_in(groups + limit), used = number_in(groups + taken);
    if (!most || !used) continue;
    const std::size_t files = std::min(*used, value_of(groups + stat, cached).value_or(0)),
                      ours = *used - files;
    left = std::min(left, *most > ours ? *most - ours : 0);
  }
  return left;
}

}  // namespace gossamer
