// What this machine is.
#pragma once

#include <cstdint>
#include <string>

namespace gossamer::apps {

// The value of the first line of `file` that is `key`, a colon and a value; "" if there is none.
// For /proc/cpuinfo, /proc/meminfo and their like.
std::string first_line_after(const char* file, const std::string& key);

std::string processor();  // "Intel(R) Xeon(R) …"; "unknown" if the system names none
double memory_gib(const std::string& which);  // of /proc/meminfo: MemTotal or MemAvailable
int cores();                                  // that this process may use
std::string host_name();
// The most memory that this process held; 0 if /proc does not say.
std::int64_t peak_resident_bytes();

}  // namespace gossamer::apps
