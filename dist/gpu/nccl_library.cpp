// Finding the functions.
#ifdef GOSSAMER_HAS_NCCL
#include "gossamer/dist/gpu/nccl_library.h"

#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {
// 2.18.1: ncclConfig_t with minCTAs, maxCTAs and splitShare
constexpr int kOldest = 21801;
}  // namespace

NcclLibrary::NcclLibrary() : file({"libnccl.so.2", "libnccl.so"}) {
  check<DistError>(file.found(), "NCCL is not on this machine: ", file.why(),
                   ". Install libnccl2, or set transport=peercopy or host");
  file.need(get_version, "ncclGetVersion");
  file.need(get_unique_id, "ncclGetUniqueId");
  file.need(init, "ncclCommInitRankConfig");
  file.need(async_error, "ncclCommGetAsyncError");
  file.need(error_string, "ncclGetErrorString");
  file.need(last_error, "ncclGetLastError");
  file.need(group_start, "ncclGroupStart");
  file.need(group_end, "ncclGroupEnd");
  file.need(send, "ncclSend");
  file.need(receive, "ncclRecv");
  file.need(all_reduce, "ncclAllReduce");
  file.need(abort, "ncclCommAbort");
  file.need(finalize, "ncclCommFinalize");
  file.need(destroy, "ncclCommDestroy");
  check<DistError>(file.missing().empty(), "NCCL at ", file.path(), " has no ", file.missing(),
                   "; version 2.18.1 or newer is needed");
  check<DistError>(get_version(&version) == ncclSuccess && version >= kOldest, "NCCL at ",
                   file.path(), " is version ", version, "; 2.18.1 or newer is needed");
}

}  // namespace gossamer::dist
#endif
