// See cores.h. Limits of time: cpu.max of control groups v2, cpu.cfs_quota_us and cpu.cfs_period_us
// of v1 (Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/).
#include "gossamer/core/cores.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include <sched.h>
#include <unistd.h>

namespace gossamer {
namespace {

namespace fs = std::filesystem;
constexpr double kNoLimit = std::numeric_limits<double>::infinity();

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, at);) out.push_back(word);
  return out;
}

bool names_cpu(const std::string& list) {
  const std::vector<std::string> names = split(list, ',');
  return std::ranges::find(names, "cpu") != names.end();
}

// CPUs' worth of time that one group allows.
double limit_of(const fs::path& group, bool v2) {
  double quota = -1, period = 0;
  if (v2)
    std::ifstream(group / "cpu.max") >> quota >> period;  // "max" is no number
  else {
    std::ifstream(group / "cpu.cfs_quota_us") >> quota;
    std::ifstream(group / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : kNoLimit;
}

// The path of this process among the groups of a hierarchy.
std::string group_path(const std::string& root, bool v2) {
  std::ifstream in(root + "/proc/self/cgroup");  // number:controllers:path
  for (std::string line; std::getline(in, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == line.npos ? first : line.find(':', first + 1);
    if (second == line.npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (v2 ? controllers.empty() : names_cpu(controllers)) return line.substr(second + 1);
  }
  return "/";
}

// A limit of a group holds for all below it.
double limit_of_groups(const std::string& root) {
  double least = kNoLimit;
  std::ifstream in(root + "/proc/self/mountinfo");  // proc(5)
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> words = split(line, ' ');
    const auto dash = std::ranges::find(words, "-");
    if (words.size() < 5 || words.end() - dash < 4) continue;
    const bool v2 = dash[1] == "cgroup2";
    if (!v2 && !(dash[1] == "cgroup" && names_cpu(dash[3]))) continue;
    const fs::path top = root + words[4];
    std::string path = group_path(root, v2);
    // a container sees its own group as the top of what is mounted
    if (const std::string& begin = words[3]; begin != "/" && path.starts_with(begin))
      path.erase(0, begin.size());
    const std::size_t from = std::min(path.find_first_not_of('/'), path.size());
    fs::path group = top;
    least = std::min(least, limit_of(group, v2));
    for (const fs::path& name : fs::path(path.substr(from)))
      least = std::min(least, limit_of(group /= name, v2));
  }
  return least;
}

}  // namespace

Cores usable_cores(const std::string& root) {
  cpu_set_t set;
  CPU_ZERO(&set);
  Cores out;
  out.of = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
  out.count = sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
  if (out.count < out.of) out.limit = "its affinity";
  if (const double limit = limit_of_groups(root); limit <= out.count - 1) {
    out.count = std::max(1, static_cast<int>(std::ceil(limit)));
    std::ostringstream text;
    text << "its control group: " << limit << " CPUs' time";
    out.limit = text.str();
  }
  return out;
}

}  // namespace gossamer
