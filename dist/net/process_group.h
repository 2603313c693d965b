// Group of processes: control link by Asio, collectives by Gloo. What join() makes; tests use it
// directly.
#pragma once

#include <memory>

#include "gossamer/dist/net/launch.h"

namespace gossamer::dist {

// A worker alone: no sockets, no threads.
std::unique_ptr<Group> solo_group();

// size >= 2. Returns when all workers have met and the collectives are up. DistError names the
// missing.
std::unique_ptr<Group> process_group(const LaunchInfo&, const JoinOptions& = {});

}  // namespace gossamer::dist
