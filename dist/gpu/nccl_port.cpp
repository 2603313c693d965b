// Non-blocking communicators of the real NCCL. A communicator that is being aborted or finalized
// belongs to a thread of its own: these calls wait for the device, and maybe for the peer.
#include "gossamer/dist/gpu/nccl_port.h"

#include "gossamer/core/error.h"
#include "gossamer/core/host_signals.h"

#ifdef GOSSAMER_HAS_NCCL
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "gossamer/dist/gpu/nccl_library.h"
#endif

namespace gossamer::dist {

#ifdef GOSSAMER_HAS_NCCL
namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(NcclPort::Id));
static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 1));

// The threads that end communicators outlive the port, if the device never lets go.
struct Ends {
  std::mutex mutex;
  std::set<NcclPort::Comm> ending;
  // of living communicators and those that end: NCCL may keep the pointer
  std::map<NcclPort::Comm, std::string> names;
};

class RealNccl final : public NcclPort {
 public:
  explicit RealNccl(CudaPort& device)
      : device_(device), nccl_(library()), ends_(std::make_shared<Ends>()) {}
  ~RealNccl() override {
    for (auto& [comm, handle] : comms_) end(comm, handle, true);
  }

  static const std::shared_ptr<const NcclLibrary>& library() {
    static const auto* const it =
        new std::shared_ptr<const NcclLibrary>(std::make_shared<const NcclLibrary>());
    return *it;
  }

  Id unique_id() override {
    const cuda::UseDevice use(device_.device());
    ncclUniqueId id;
    must(nccl_->get_unique_id(&id), "ncclGetUniqueId", nullptr);
    Id out;
    std::memcpy(out.data(), &id, sizeof id);
    return out;
  }

  Comm init(const Id& id, int ranks, int rank, const Options& options) override {
    const cuda::UseDevice use(device_.device());
    const Comm comm = next_++;
    [[maybe_unused]] const char* name = nullptr;
    {
      const std::scoped_lock lock(ends_->mutex);
      name = (ends_->names[comm] = options.name).c_str();
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.splitShare = 0;
    // blocks start one by one, as multiprocessors become free behind the computation
    config.cgaClusterSize = 0;
    if (options.most_ctas > 0) {
      config.minCTAs = 1;
      config.maxCTAs = options.most_ctas;
    }
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 3)
    config.commName = name;
    if (ranks == 2 && options.most_ctas > 0)
      config.nChannelsPerNetPeer = std::min(options.most_ctas, 2);
#endif
    ncclUniqueId unique;
    std::memcpy(&unique, id.data(), sizeof unique);
    ncclComm_t handle = nullptr;
    must(nccl_->init(&handle, ranks, unique, rank, &config), "ncclCommInitRankConfig", nullptr);
    comms_[comm] = handle;
    return comm;
  }

  Status status(Comm comm) override {
    const ncclComm_t handle = comms_.at(comm);
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = nccl_->async_error(handle, &state);
    if (asked != ncclSuccess && asked != ncclInProgress) state = asked;
    if (state == ncclSuccess) return {.stage = Stage::done, .why = {}};
    if (state == ncclInProgress) return {.stage = Stage::pending, .why = {}};
    return {.stage = Stage::failed, .why = words(state, handle)};
  }

  void group_start() override {
    refused_.clear();
    must(nccl_->group_start(), "ncclGroupStart", nullptr);
  }
  // A group is ended whatever became of its calls: later ones would belong to it.
  void group_end() override {
    const cuda::UseDevice use(device_.device());
    const ncclResult_t ended = nccl_->group_end();
    check<DistError>(refused_.empty(), refused_);
    must(ended, "ncclGroupEnd", nullptr);
  }
  void send(Comm comm, const void* from, std::size_t bytes, int to) override {
    grouped(nccl_->send(from, bytes, ncclUint8, to, comms_.at(comm), stream()), "ncclSend",
            comms_.at(comm));
  }
  void receive(Comm comm, void* to, std::size_t bytes, int from) override {
    grouped(nccl_->receive(to, bytes, ncclUint8, from, comms_.at(comm), stream()), "ncclRecv",
            comms_.at(comm));
  }
  void all_reduce_sum(Comm comm, const float* from, float* to, std::size_t count) override {
    grouped(nccl_->all_reduce(from, to, count, ncclFloat32, ncclSum, comms_.at(comm), stream()),
            "ncclAllReduce", comms_.at(comm));
  }

  void abort(Comm comm) override { leave(comm, true); }
  void finalize(Comm comm) override { leave(comm, false); }
  bool gone(Comm comm) override {
    const std::scoped_lock lock(ends_->mutex);
    return !ends_->ending.contains(comm);
  }

 private:
  cudaStream_t stream() const {
    return static_cast<cudaStream_t>(device_.stream(DevicePort::Stream::exchange).handle());
  }
  std::string words(ncclResult_t status, ncclComm_t comm) const {
    std::string out = nccl_->error_string(status);
    if (const char* last = nccl_->last_error(comm); last && *last)
      out += std::string(" (") + last + ")";
    if (status == ncclInvalidUsage)
      out += ". Two workers on one GPU need a different NCCL_HOSTID each, set before they start";
    return out;
  }
  // A call of a non-blocking communicator that goes on in the background is no error. Others: what
  // to say of them.
  std::string refusal(ncclResult_t status, const char* call, ncclComm_t comm) const {
    if (status == ncclSuccess || status == ncclInProgress) return {};
    return call + (": " + words(status, comm));
  }
  void must(ncclResult_t status, const char* call, ncclComm_t comm) const {
    const std::string why = refusal(status, call, comm);
    check<DistError>(why.empty(), why);
  }
  void grouped(ncclResult_t status, const char* call, ncclComm_t comm) {
    if (refused_.empty()) refused_ = refusal(status, call, comm);
  }

  void leave(Comm comm, bool at_once) {
    const auto found = comms_.find(comm);
    check<DistError>(found != comms_.end(), "NCCL communicator ", comm, " was left before");
    end(comm, found->second, at_once);
    comms_.erase(found);
  }
  // After this nobody else calls NCCL with it. finalize: the peers do the same; destroy frees what
  // is left then.
  void end(Comm comm, ncclComm_t handle, bool at_once) {
    {
      const std::scoped_lock lock(ends_->mutex);
      ends_->ending.insert(comm);
    }
    start_thread([nccl = nccl_, ends = ends_, device = device_.device(), comm, handle, at_once] {
      const cuda::UseDevice use(device);
      if (at_once) {
        nccl->abort(handle);
      } else {
        ncclResult_t state = nccl->finalize(handle);
        while (state == ncclInProgress && nccl->async_error(handle, &state) == ncclSuccess &&
               state == ncclInProgress)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (state == ncclSuccess)
          nccl->destroy(handle);
        else
          nccl->abort(handle);
      }
      const std::scoped_lock lock(ends->mutex);
      ends->ending.erase(comm);
      ends->names.erase(comm);
    }).detach();
  }

  CudaPort& device_;
  const std::shared_ptr<const NcclLibrary> nccl_;
  const std::shared_ptr<Ends> ends_;
  std::map<Comm, ncclComm_t> comms_;
  Comm next_ = 1;
  std::string refused_;  // the first call of this group that was
};

}  // namespace

std::unique_ptr<NcclPort> nccl_port(CudaPort& device) { return std::make_unique<RealNccl>(device); }

std::string nccl_version() {
  try {
    const int v = RealNccl::library()->version;
    return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
           std::to_string(v % 100);
  } catch (const DistError& e) {
    return e.what();
  }
}

#else

std::unique_ptr<NcclPort> nccl_port(CudaPort&) {
  fail<DistError>(
      "this build has no NCCL: nccl.h was not found when it was configured. Install libnccl-dev "
      "and build again, "
      "or set transport=peercopy or host");
}
std::string nccl_version() { return "this build has no NCCL"; }

#endif

}  // namespace gossamer::dist
