// What the program says: on standard output and standard error. If nobody can read it, work goes
// on: a training is not lost because a terminal or a disk is.
// Threads: any, except open_standard_streams().
#pragma once

#include <string>

namespace gossamer::apps {

// To be called before any file is opened. If whoever started this program closed a standard stream,
// the next file would take its number, and would receive what is printed. Here a stream takes it
// whose use fails.
void open_standard_streams();

// Text that holds names and messages of others, such that nothing in it steers a terminal: control
// characters other than line ends and tabs as \xNN.
std::string for_terminal(const std::string& text);

// for_terminal(text) on standard output. What could not be written is known to lost_output().
void print(const std::string& text);

// The line "gossamer: TEXT" on standard error, behind what was printed and safe as it.
void say(const std::string& text);

// Why some of what was printed did not arrive; "" if all did, or if it went to a pipe, whose reader
// may have read enough.
std::string lost_output();

}  // namespace gossamer::apps
