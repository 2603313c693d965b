// Which machines a run is started on: --hosts FILE or --hosts a:2,b:2.
#pragma once

#include <string>
#include <vector>

namespace gossamer::apps {

struct Host {
  std::string name;     // as ssh knows it
  int slots = 1;        // workers on it
  std::string address;  // of its network to the other workers; empty: found by itself
  bool here = false;    // this machine, by name: no ssh is needed
};

// `text`: an existing file with one `host [slots=N] [address=A]` a line and comments from #, or a
// list "host[:N],…". A host named twice has the sum of its slots. ConfigError with file and line.
std::vector<Host> read_hosts(const std::string& text);

// The host of each of `workers` workers, as indices into `hosts`: each is filled before the next
// one starts. 0 workers: all slots. ConfigError when there are too few.
std::vector<int> place_workers(const std::vector<Host>& hosts, int workers);

}  // namespace gossamer::apps
