// How workers meet: worker 0 listens, the others register there, get the table of addresses and dial one another (the higher rank
// dials), until there is one connection for each pair. Private to dist/.
#pragma once

#include <asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "gossamer/dist/connection.h"
#include "gossamer/dist/launch.h"

namespace gossamer::dist {

struct Meeting {
  std::vector<std::shared_ptr<Connection>> links;  // by rank; null at our own
  std::string local_address;                       // numeric; reachable for all others: payload connections bind it
  int refused = 0;                                 // clients turned away: wrong token, garbage, silence
};

// Runs the io_context on the calling thread until all have met. DistError names who is missing.
Meeting meet(asio::io_context&, const LaunchInfo&, const JoinOptions&);

}  // namespace gossamer::dist
