// Finding the functions.
#ifdef GOSSAMER_HAS_NCCL
#include "gossamer/dist/gpu/nccl_library.h"

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {
constexpr int kOldest = 21801;               // 2.18.1: ncclConfig_t with minCTAs, maxCTAs and splitShare
}

NcclLibrary::NcclLibrary() : file({"libnccl.so.2", "libnccl.so"}) {
  check<DistError>(file.found(), "NCCL is not on this machine: ", file.why(), ". Install libnccl2, or set dist.transport=peercopy or host");
  const auto want = [this](auto& function, const char* name) {
    file.find(function, name);
    check<DistError>(function != nullptr, "NCCL at ", file.path(), " has no ", name, "; version 2.18 or newer is needed");
  };
  want(get_version, "ncclGetVersion");
  want(get_unique_id, "ncclGetUniqueId");
  want(init, "ncclCommInitRankConfig");
  want(async_error, "ncclCommGetAsyncError");
  want(error_string, "ncclGetErrorString");
  want(last_error, "ncclGetLastError");
  want(group_start, "ncclGroupStart");
  want(group_end, "ncclGroupEnd");
  want(send, "ncclSend");
  want(receive, "ncclRecv");
  want(all_reduce, "ncclAllReduce");
  want(abort, "ncclCommAbort");
  want(finalize, "ncclCommFinalize");
  want(destroy, "ncclCommDestroy");
  check<DistError>(get_version(&version) == ncclSuccess && version >= kOldest, "NCCL at ", file.path(), " is version ", version, "; 2.18.1 or newer is needed");
}

}  // namespace gossamer::dist
#endif
