// What this machine is.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gossamer::apps {

// The value of the first line of `file` that is `key`, a colon and a value; "" if there is none.
// For /proc/cpuinfo, /proc/meminfo and their like.
std::string first_line_after(const char* file, const std::string& key);

std::string processor();  // "Intel(R) Xeon(R) …"; "unknown" if the system names none
double memory_gib();      // main memory of the machine
int cores();              // that this process may use (core/cores.h)
std::string host_name();
// The most memory that this process held; 0 if /proc does not say.
std::int64_t peak_resident_bytes();

// Seconds in which the processors `cpus` were not idle, from the text of /proc/stat.
double busy_seconds(const std::string& stat, const std::vector<int>& cpus, double ticks_per_s);

// How many of the cores that this process may use are taken by other programs.
class CoreWatch {
 public:
  CoreWatch();  // the time begins
  // That many cores, on average since the constructor. Waits until that is 0.2 s ago, for which
  // /proc/stat is fine enough.
  double taken() const;

 private:
  struct Sample {
    double time, busy, own;  // seconds
  };
  static Sample sample();
  Sample begin_;
};

// "1.2 of 2 cores are taken by other programs"; "" if it is less than a quarter of the cores.
std::string taken_text(double taken, int cores);

}  // namespace gossamer::apps
