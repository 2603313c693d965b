// How this process computes: which kernels of the CPU, which backend, and the options of GPUs. Set
// it before the first op.
// Threads: one, while no op runs; what only reads may be called by any.
#pragma once

#include <string>
#include <vector>

namespace gossamer {

void use_cpu_backend(const std::string& name);  // for the whole process
std::vector<std::string> backend_names();       // of the CPU

struct CudaOptions {
  // f32 products may be rounded to 10 bits: several times faster, about 3 digits
  bool tf32 = false;
  // measure the plans of each convolution when it is first met
  bool autotune = true;
  std::string plan_file;  // where measured plans are kept between runs; "": nowhere
};
// For the whole process, before a GPU's backend is first used; DeviceError afterwards.
void configure_cuda(const CudaOptions&);

namespace cpu {

// The sets of kernels that this build has and this CPU can run, the best first: of "avx512",
// "avx2", "neon".
const std::vector<std::string>& kernel_sets();
const std::string& kernel_set();  // the one in use
// The best from now on, for all code of the CPU, oneDNN's too; a limit that is lower already stays.
// ConfigError lists the names if this is none of kernel_sets(); DeviceError if oneDNN has run,
// which takes no limit afterwards.
void limit_cpu(const std::string& name);
// The set in use multiplies pairs of bf16.
bool products_have_bf16();
// So does oneDNN, which convolutions in bf16 need: bf16 is faster than f32 in every network.
bool has_bf16();

}  // namespace cpu
}  // namespace gossamer
