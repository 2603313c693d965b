// How this process computes: with which kernels and backend on a CPU, and with which options on a
// GPU. Set it before the first op.
// Threads: functions that change something: one, while no op runs; the others: any.
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
  std::string plan_file{};  // where measured plans are kept between runs; "": nowhere
  // The same ops on the same numbers give the same bits in every run on this model of GPU, with
  // the same versions of the vendor's libraries. So nothing is chosen by measuring (with `autotune`
  // the first plan is taken whose result is right), and what adds in an order that is not fixed is
  // not used. Attention's gradient may need more memory.
  bool deterministic = false;
};
// For the whole process, before a GPU's backend is first used; DeviceError afterwards.
void configure_cuda(const CudaOptions&);

namespace cpu {

// The sets of kernels that this build has and this CPU can run, the best first: of "avx512",
// "avx2", "neon".
const std::vector<std::string>& kernel_sets();
const std::string& kernel_set();  // the one in use
// From now on no code on the CPU, oneDNN's included, uses a better set than this one; a lower limit
// stays. ConfigError lists the names if this is none of kernel_sets(); DeviceError if oneDNN has
// run, because it takes no limit afterwards.
void limit_cpu(const std::string& name);
// Whether the set in use has an instruction for products of bf16.
bool products_have_bf16();
// Whether oneDNN has it too, which computes convolutions in bf16. Then bf16 is faster than f32 in
// every network.
bool has_bf16();

}  // namespace cpu
}  // namespace gossamer
