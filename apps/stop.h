// SIGINT and SIGTERM: the first asks the training loop to save and leave, a second ends the process at once.
#pragma once

namespace gossamer::apps {

void install_stop_handlers();
int stop_signal();            // 0 until a signal came

}  // namespace gossamer::apps
