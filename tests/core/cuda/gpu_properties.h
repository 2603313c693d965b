// Properties of GPUs as cuDNN's JSON, for planning without one. The values are from public data
// sheets.
#pragma once

namespace gossamer::testing {

// SXM, 141 GB
inline constexpr const char* kH200 = R"({"deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
 "totalGlobalMem": 150754820096, "maxGridSize": [2147483647, 65535, 65535],
 "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 132,
 "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
 "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
 "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
 "supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 3201000,
 "l2CacheSize": 62914560, "deviceName": "NVIDIA H200"})";

// SXM, 80 GB
inline constexpr const char* kH100 = R"({"deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
 "totalGlobalMem": 85520809984, "maxGridSize": [2147483647, 65535, 65535],
 "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 132,
 "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
 "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
 "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
 "supportCoopLaunch": 1, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
 "l2CacheSize": 52428800, "deviceName": "NVIDIA H100 80GB HBM3"})";

// SXM, 80 GB
inline constexpr const char* kA100 = R"({"deviceVer": 800, "driverVer": 13000, "cudaDeviceId": 0,
 "totalGlobalMem": 85094825984, "maxGridSize": [2147483647, 65535, 65535],
 "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "multiProcessorCount": 108,
 "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 166912,
 "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
 "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
 "supportCoopLaunch": 1, "smClockRateKHz": 1410000, "memClockRateKHz": 1593000,
 "l2CacheSize": 41943040, "deviceName": "NVIDIA A100-SXM4-80GB"})";

}  // namespace gossamer::testing
