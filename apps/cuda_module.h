// libgossamer-cuda.so.0: the whole program and the library for C, built with CUDA. Those that were
// built without CUDA run it where they find it, so that one program and one library serve all
// machines, and those with a GPU need one more file.
// Threads: any.
#pragma once

#include <string>

namespace gossamer::apps {

// A function of the module: none if there is no module, or this build has CUDA itself. The module
// is looked for beside the file that holds this code, in ../lib from there, and where libraries are
// searched. why: what is wrong with a module that is there but can't be used; else "".
void* cuda_module_function(const char* name, std::string& why);
// of this file; why: then also that it does not exist
void* cuda_module_function_of(const std::string& file, const char* name, std::string& why);

using CommandLine = int (*)(int argc, char** argv);
constexpr const char* kCudaCommandLine = "gossamer_cuda_command_line";
constexpr const char* kCudaApi = "gossamer_cuda_api";  // as gsm_get_api of capi/gossamer.h

}  // namespace gossamer::apps
