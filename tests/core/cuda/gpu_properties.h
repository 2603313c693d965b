// Properties of GPUs as cuDNN's JSON, for planning without one. The values are from public data
// sheets and the CUDA Programming Guide.
#pragma once

#include <cstdint>
#include <string>

namespace gossamer::testing {

struct GpuProperties {
  const char* name;
  int version;          // 100 times the compute capability
  int multiprocessors;  // each with 65536 registers
  int threads, blocks;  // of a multiprocessor at most
  int shared;           // bytes that a block may ask for
  std::int64_t memory, l2;
  int clock_khz, memory_clock_khz;
};

inline std::string as_json(const GpuProperties& p) {
  const auto entry = [](const char* key, std::int64_t value) {
    return ", \"" + std::string(key) + "\": " + std::to_string(value);
  };
  return "{\"deviceName\": \"" + std::string(p.name) + '"' + entry("deviceVer", p.version) +
         entry("driverVer", 13000) + entry("cudaDeviceId", 0) + entry("totalGlobalMem", p.memory) +
         R"(, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64])" +
         entry("regsPerBlock", 65536) + entry("multiProcessorCount", p.multiprocessors) +
         entry("warpSize", 32) + entry("maxSharedMemoryPerBlock", 49152) +
         entry("maxSharedMemoryPerBlockOptin", p.shared) +
         entry("reservedSharedMemoryPerBlock", 1024) + entry("maxRegistersPerSM", 65536) +
         entry("maxCtasPerSM", p.blocks) + entry("maxThreadsPerBlock", 1024) +
         entry("maxThreadsPerSM", p.threads) + entry("pciDeviceId", 0) + entry("isTccDriver", 0) +
         entry("supportCoopLaunch", 1) + entry("smClockRateKHz", p.clock_khz) +
         entry("memClockRateKHz", p.memory_clock_khz) + entry("l2CacheSize", p.l2) + "}";
}

// A100, H100, H200: SXM; 80, 80 and 141 GB.
inline const std::string kA100 = as_json({"NVIDIA A100-SXM4-80GB", 800, 108, 2048, 32, 166912,
                                          85094825984, 41943040, 1410000, 1593000}),
                         kL40S = as_json({"NVIDIA L40S", 890, 142, 1536, 24, 101376, 47810936832,
                                          100663296, 2520000, 9001000}),
                         kH100 = as_json({"NVIDIA H100 80GB HBM3", 900, 132, 2048, 32, 232448,
                                          85520809984, 52428800, 1980000, 2619000}),
                         kH200 = as_json({"NVIDIA H200", 900, 132, 2048, 32, 232448, 150754820096,
                                          62914560, 1980000, 3201000}),
                         kB200 = as_json({"NVIDIA B200", 1000, 148, 2048, 32, 232448, 191514673152,
                                          132644864, 1965000, 3996000}),
                         kRtx5090 = as_json({"NVIDIA GeForce RTX 5090", 1200, 170, 1536, 24, 101376,
                                             33661386752, 100663296, 2407000, 14001000});

}  // namespace gossamer::testing
