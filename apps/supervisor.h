// Starts the workers of one run as processes of this machine and watches them.
#pragma once

#include <string>
#include <vector>

namespace gossamer::apps {

// Runs this program `workers` times with `arguments`, each knowing its place through GOSSAMER_*. A worker's death is reported and no
// sibling is killed; SIGINT and SIGTERM go to all, a second one kills; if this process dies, the kernel kills the workers.
// Returns 128 + signal when asked to stop; the first error code of a worker that is more than a lost connection (a full disk, a damaged
// image with --strict-images, which also stops the others); 0 when any worker finished the run; else 5.
int supervise(int workers, const std::vector<std::string>& arguments);

}  // namespace gossamer::apps
