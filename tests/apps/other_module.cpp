// A libgossamer-cuda.so.0 of another release.
extern "C" const char* gossamer_cuda_version() { return "0.0.1"; }
extern "C" int gossamer_cuda_command_line(int, char**) { return 1; }
