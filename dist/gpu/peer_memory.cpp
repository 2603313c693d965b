// A handle names an allocation of the driver, of which a tensor's block may be a part.
#include "gossamer/dist/gpu/peer_memory.h"

#include <cstring>
#include <fstream>

#include "gossamer/core/cuda.h"
#include "gossamer/core/dynamic_library.h"
#include "gossamer/core/error.h"

namespace gossamer::dist {
namespace {

// What one process tells another.
struct Shared {
  std::uint64_t machine = 0, offset = 0, bytes = 0, allocation = 0;
  cuda::SharedHandle handle{};
};
static_assert(std::is_trivially_copyable_v<Shared>);

// cuMemGetAddressRange
using AddressRange = int(unsigned long long* base, std::size_t* bytes, unsigned long long inside);

std::pair<void*, std::size_t> allocation_of(const void* inside) {
  const DynamicLibrary driver({"libcuda.so.1"});
  AddressRange* range = nullptr;
  driver.find(range, "cuMemGetAddressRange_v2");
  unsigned long long base = 0;
  std::size_t bytes = 0;
  const int status =
      range ? range(&base, &bytes, reinterpret_cast<unsigned long long>(inside)) : -1;
  check<DeviceError>(status == 0, "cuMemGetAddressRange: error ", status, "; set transport=nccl");
  return {reinterpret_cast<void*>(base), bytes};
}

}  // namespace

std::uint64_t machine_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  std::uint64_t hash = text.empty() ? 0 : 14695981039346656037ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

ChannelBytes CudaPeerMemory::share(const Sent& send) {
  const cuda::UseDevice use(device_);
  const auto [base, bytes] = allocation_of(send.data);
  Block whole;
  whole.data = base;
  whole.bytes = bytes;
  whole.device = device_;
  whole.release = [] {};  // not ours
  const Shared s{.machine = machine_id(),
                 .offset = static_cast<std::uint64_t>(static_cast<const char*>(send.data) -
                                                      static_cast<const char*>(base)),
                 .bytes = send.bytes,
                 .allocation = bytes,
                 .handle = cuda::share(whole)};
  ChannelBytes out(sizeof s);
  std::memcpy(out.data(), &s, sizeof s);
  return out;
}

bool CudaPeerMemory::is_near(const ChannelBytes& shared) {
  Shared s;
  if (shared.size() != sizeof s) return false;
  std::memcpy(&s, shared.data(), sizeof s);
  return s.machine != 0 && s.machine == machine_id();
}

std::shared_ptr<const void> CudaPeerMemory::open(const ChannelBytes& shared, std::size_t bytes) {
  Shared s;
  check<DistError>(shared.size() == sizeof s, "a handle of ", shared.size(), " bytes; wanted ",
                   sizeof s);
  std::memcpy(&s, shared.data(), sizeof s);
  check<DistError>(s.machine == machine_id() && s.machine != 0,
                   "a peer copy from another machine; set transport=auto or nccl");
  check<DistError>(
      s.bytes == bytes && s.offset <= s.allocation && s.bytes <= s.allocation - s.offset,
      "a snapshot of ", s.bytes, " bytes, wanted ", bytes);
  try {
    const std::shared_ptr<Block> block = cuda::open_shared(s.handle, s.allocation, device_);
    return {block, static_cast<const char*>(block->data) + s.offset};
  } catch (const DeviceError& e) {  // of this edge only: other edges may do
    fail<DistError>(e.what(), "; containers must share their IPC namespace for peer copies");
  }
}

}  // namespace gossamer::dist
