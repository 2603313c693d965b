// The program `gossamer`: everything is in the library of apps/, so that tests can call it.
#include "gossamer/apps/commands.h"

int main(int argc, char** argv) { return gossamer::apps::command_line(argc, argv); }
