// SIGINT, SIGTERM, and SIGHUP of a terminal that was closed, which counts as SIGTERM. In the
// training loop, the first one asks it to save and stop. One that comes within a second belongs to
// it: launchers and terminals send several. A later one ends the process at once, unless it is
// another SIGHUP: a session that ends may send each of them, to the launcher and to its workers.
// While a worker is set up there is nothing to save, and the other workers may be waiting, so the
// first one ends the process at once. Under nohup, SIGHUP stays ignored.
#pragma once

namespace gossamer::apps {

inline constexpr double kSameStop_s = 1;
// Exit code after a second signal, as of SIGKILL, and what is said.
inline constexpr int kKilled = 128 + 9;
inline constexpr char kKilledText[] = "gossamer: a second signal: killed, not saved\n";
inline constexpr char kStoppingText[] =
    "gossamer: stopping after this step or evaluation; a second signal kills, without saving\n";

// From now on a write to a pipe whose reader is gone, or beyond the limit on the size of files,
// fails and does not end the process.
void survive_failed_writes();
void install_stop_handlers();  // from now on a signal ends the process at once
// From now on a signal sets stop_signal(). told: whether the first one is answered by a line on
// stderr, since a step, or an evaluation, may last.
void stop_after_step(bool told = false);
// From now on the end of the parent process counts as SIGTERM. For launchers that leave workers
// behind when they are killed.
void stop_when_orphaned();
int stop_signal();  // the signal, or 0 if none came

}  // namespace gossamer::apps
