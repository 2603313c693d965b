// See machine.h.
#include "gossamer/apps/machine.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "gossamer/core/cores.h"

namespace gossamer::apps {

std::string first_line_after(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key))
      if (const std::size_t colon = line.find(':'); colon != std::string::npos)
        return line.substr(std::min(line.size(), line.find_first_not_of(" \t", colon + 1)));
  return "";
}

std::string processor() {
  const std::string name = first_line_after("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown" : name;
}

double memory_gib() {
  return std::atof(first_line_after("/proc/meminfo", "MemTotal").c_str()) / 1048576;
}

int cores() { return usable_cores().count; }

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

std::int64_t peak_resident_bytes() {
  return 1024 * std::atoll(first_line_after("/proc/self/status", "VmHWM").c_str());
}

double busy_seconds(const std::string& stat, const std::vector<int>& cpus, double ticks_per_s) {
  double ticks = 0;
  std::istringstream in(stat);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (!name.starts_with("cpu") || name.size() == 3) continue;
    if (std::ranges::find(cpus, std::atoi(name.c_str() + 3)) == cpus.end()) continue;
    // user nice system idle iowait irq softirq steal; what follows is counted in user and nice
    double value = 0;
    for (int column = 0; column < 8 && words >> value; ++column)
      if (column != 3 && column != 4) ticks += value;
  }
  return ticks / ticks_per_s;
}

CoreWatch::CoreWatch() : begin_(sample()) {}

double CoreWatch::taken() const {
  const double since = sample().time - begin_.time;
  if (since < 0.2) std::this_thread::sleep_for(std::chrono::duration<double>(0.2 - since));
  const Sample now = sample();
  const double others = (now.busy - begin_.busy) - (now.own - begin_.own);
  return std::max(0.0, others / (now.time - begin_.time));
}

CoreWatch::Sample CoreWatch::sample() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  std::ifstream in("/proc/stat");
  std::ostringstream stat;
  stat << in.rdbuf();
  timespec own{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return {.time = std::chrono::duration<double>(now).count(),
          .busy = busy_seconds(stat.str(), cpus, static_cast<double>(sysconf(_SC_CLK_TCK))),
          .own = static_cast<double>(own.tv_sec) + 1e-9 * static_cast<double>(own.tv_nsec)};
}

std::string taken_text(double taken, int cores) {
  if (taken < 0.25 * cores) return "";
  return fmt::format("{:.1f} of {} cores are taken by other programs", taken, cores);
}

}  // namespace gossamer::apps
