// The machines of a run: --hosts FILE or --hosts a:2,b:2.
#pragma once

#include <string>
#include <vector>

namespace gossamer::apps {

struct Host {
  std::string name;     // as ssh knows it
  int slots = 1;        // workers on it
  std::string address;  // on the network of the workers; empty: found automatically
  bool here = false;    // this machine, so that no ssh is needed
};

// Letters, digits and ._-@:[]% only, and no option: it goes to command lines and to variables.
bool is_host_name(const std::string& name);

// text: a file with one `host [slots=N] [address=A]` a line and comments after #, or a list
// "host[:N],…". If a host is named twice, its slots are added. ConfigError with file and line.
std::vector<Host> read_hosts(const std::string& text);

// The host of each worker, as an index into `hosts`; a host is filled before the next one gets a
// worker. 0 workers: as many as there are slots. ConfigError if there are too few slots.
std::vector<int> place_workers(const std::vector<Host>& hosts, int workers);

}  // namespace gossamer::apps
