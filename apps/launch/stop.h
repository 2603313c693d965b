// SIGINT and SIGTERM. In the training loop, the first one asks it to save and stop, and a second
// one ends the process at once. While a worker is set up there is nothing to save, and the other
// workers may be waiting, so the first one ends the process at once.
#pragma once

namespace gossamer::apps {

void install_stop_handlers();  // from now on a signal ends the process at once
void stop_after_step();        // from now on a signal sets stop_signal()
// From now on the end of the parent process counts as SIGTERM. For launchers that leave workers
// behind when they are killed.
void stop_when_orphaned();
int stop_signal();  // the signal, or 0 if none came

}  // namespace gossamer::apps
