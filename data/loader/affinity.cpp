// See affinity.h. Linux: sched_setaffinity, /sys/devices/system/node.
#include "gossamer/data/loader/affinity.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <system_error>

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gossamer/core/error.h"

namespace gossamer::data {
namespace {

constexpr int kMost = CPU_SETSIZE;  // 1024

int number(const std::string& text, const std::string& all) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check<ConfigError>(
      error == std::errc() && end == text.data() + text.size() && value >= 0 && value < kMost,
      "cpus \"", all, "\": \"", text, "\" is no number from 0 to ", kMost - 1,
      "; write 0-3,8 or node:0");
  return value;
}

std::vector<int> parse_list(const std::string& text, const std::string& all) {
  std::vector<int> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    const std::size_t dash = part.find('-');
    const int first = number(part.substr(0, dash), all),
              last = dash == std::string::npos ? first : number(part.substr(dash + 1), all);
    check<ConfigError>(first <= last, "cpus \"", all, "\": the range ", part,
                       " ends before it begins");
    for (int cpu = first; cpu <= last; ++cpu) out.push_back(cpu);
  }
  check<ConfigError>(!out.empty(), "cpus \"", all, "\" names none; write 0-3,8 or node:0");
  return out;
}

}  // namespace

std::vector<int> parse_cpus(const std::string& text) {
  std::vector<int> out;
  if (text.starts_with("node:")) {
    for (const int node : parse_list(text.substr(5), text)) {
      std::ifstream file("/sys/devices/system/node/node" + std::to_string(node) + "/cpulist");
      std::string list;
      check<ConfigError>(static_cast<bool>(std::getline(file, list)) && !list.empty(), "cpus \"",
                         text, "\": this machine has no CPUs of NUMA node ", node);
      const auto of_node = parse_list(list, list);
      out.insert(out.end(), of_node.begin(), of_node.end());
    }
  } else {
    out = parse_list(text, text);
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void pin(const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::string list;
  for (const int cpu : cpus) {
    check<ConfigError>(cpu >= 0 && cpu < kMost, "loader: CPU ", cpu,
                       "; they are numbered from 0 to ", kMost - 1);
    CPU_SET(static_cast<std::size_t>(cpu), &set);
    list += (list.empty() ? "" : ",") + std::to_string(cpu);
  }
  const pthread_t self = pthread_self();
  const int error = pthread_setaffinity_np(self, sizeof set, &set);
  check<ConfigError>(error == 0, "loader: its threads can't run on CPUs ", list, ": ",
                     std::generic_category().message(error),
                     "; do they exist, and may this process use them?");
  // The system silently leaves out CPUs that are not allowed.
  cpu_set_t got;
  CPU_ZERO(&got);
  if (pthread_getaffinity_np(self, sizeof got, &got) == 0)
    check<ConfigError>(CPU_EQUAL(&set, &got), "loader: of the CPUs ", list,
                       " this process may use ", CPU_COUNT(&got),
                       "; name only those that it may use");
}

// Not SCHED_IDLE: on a full machine such a thread can stop for seconds while it holds a lock of the
// whole process, and a killed process can't end before that thread has run once more.
void lower_priority() { setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 19); }

}  // namespace gossamer::data
