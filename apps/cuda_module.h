// libgossamer-cuda.so.0: the whole program, built with CUDA. A program that was built without CUDA
// runs it where it finds it, so that one program serves all machines, and those with a GPU need one
// more file.
#pragma once

#include <string>

namespace gossamer::apps {

using CommandLine = int (*)(int argc, char** argv);

// The command line of the module: none if there is no module, or this program has CUDA itself.
// why: what is wrong with a module that is there but can't be used; else "".
CommandLine cuda_command_line(std::string& why);
// of this file; why: then also that it does not exist
CommandLine cuda_command_line_of(const std::string& file, std::string& why);

}  // namespace gossamer::apps
