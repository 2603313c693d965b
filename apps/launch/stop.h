// SIGINT and SIGTERM: the first asks the training loop to save and leave, a second ends the process
// at once. While a worker is set up there is nothing to save, and workers may be waiting for one
// another: the first ends it then.
#pragma once

namespace gossamer::apps {

void install_stop_handlers();  // from now on: end at once
void stop_after_step();        // from now on: stop_signal() tells
// the end of the process that started us counts as SIGTERM: launchers that leave workers behind
// when killed
void stop_when_orphaned();
int stop_signal();  // 0 until a signal came

}  // namespace gossamer::apps
