// One reader for each launcher's variables. Private to dist/.
#pragma once

#include <optional>
#include <string>

#include "gossamer/dist/net/launch.h"

namespace gossamer::dist {

// In launch.cpp, the one file that looks at the environment. An empty variable counts as not set.
std::optional<std::string> variable(const char* name);
// ConfigError when it is none
std::optional<int> number(const char* name);
int integer(const std::string& what, const std::string& text);  // ConfigError naming `what`

// by its name or number; nothing is resolved
bool is_loopback(const std::string& host);
void read_host_port(const std::string& name, const std::string& text, std::string& host, int& port);

// Each fills what its launcher says; false: it did not start us.
// ConfigError on half-set values.
bool read_gossamer(LaunchInfo&);
bool read_torchrun(LaunchInfo&);
bool read_slurm(LaunchInfo&);
bool read_openmpi(LaunchInfo&);
bool read_hydra(LaunchInfo&);

constexpr int kMaxWorkers = 512;  // each holds a connection to every other

}  // namespace gossamer::dist
