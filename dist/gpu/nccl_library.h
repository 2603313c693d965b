// NCCL, opened when it is first needed. Internal to the NCCL files: it shows the vendor's types,
// and only a build with nccl.h has it.
#pragma once

#include <string>

#include <nccl.h>

#include "gossamer/core/dynamic_library.h"

namespace gossamer::dist {

struct NcclLibrary {
  NcclLibrary();  // DistError if it is not there, or too old
  DynamicLibrary file;
  int version = 0;  // 22809 is 2.28.9

  decltype(&::ncclGetVersion) get_version = nullptr;
  decltype(&::ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&::ncclCommInitRankConfig) init = nullptr;
  decltype(&::ncclCommGetAsyncError) async_error = nullptr;
  decltype(&::ncclGetErrorString) error_string = nullptr;
  decltype(&::ncclGetLastError) last_error = nullptr;
  decltype(&::ncclGroupStart) group_start = nullptr;
  decltype(&::ncclGroupEnd) group_end = nullptr;
  decltype(&::ncclSend) send = nullptr;
  decltype(&::ncclRecv) receive = nullptr;
  decltype(&::ncclAllReduce) all_reduce = nullptr;
  decltype(&::ncclCommAbort) abort = nullptr;
  decltype(&::ncclCommFinalize) finalize = nullptr;
  decltype(&::ncclCommDestroy) destroy = nullptr;
};

}  // namespace gossamer::dist
