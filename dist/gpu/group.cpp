// What one worker's GPU brings to a group.
#include "gossamer/dist/gpu/group.h"

#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/gpu/best_channel.h"
#include "gossamer/dist/gpu/cuda_port.h"
#include "gossamer/dist/gpu/device_group.h"
#include "gossamer/dist/gpu/nccl_channel.h"
#include "gossamer/dist/gpu/nccl_port.h"
#include "gossamer/dist/gpu/nccl_reducer.h"
#include "gossamer/dist/gpu/payload.h"
#include "gossamer/dist/gpu/peer_memory.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {

// The edges of gossip, if they do not go over the host.
struct Edges {
  Edges(Group& group, CudaPort& port, const GpuOptions& o) : side_channel(*group.side_channel()) {
    make_channels(group.rank(), port, o);
    best = std::make_unique<BestChannel>(group.rank(),
                                         BestChannel::Parts{.copies = copies.get(),
                                                            .nccl = by_nccl.get(),
                                                            .near = CudaPeerMemory::is_near,
                                                            .log = o.log});
    payload = std::make_unique<GpuPayload>(
        group.rank(), port, [this](int) -> GpuChannelMaker& { return *best; },
        GpuPayload::Outside{
            .send = [this](int peer,
                           std::vector<char> message) { side_channel.send(peer, message); },
            .post = [&group](Event e) { group.control().post(std::move(e)); },
            .clock = wall_seconds});
    side_channel.on_events(
        {.message = [this](int peer,
                           std::span<const char> bytes) { payload->message(peer, bytes); },
         .dead = [this](int peer) { payload->dead(peer); }});
  }
  ~Edges() { side_channel.on_events({}); }
  Edges(const Edges&) = delete;

  // auto: what this machine does not have is left out, with a word about it.
  void make_channels(int rank, CudaPort& port, const GpuOptions& o) {
    const auto add = [&](const char* name, auto make) {
      if (o.transport != "auto" && o.transport != name) return;
      try {
        make();
      } catch (const Error& e) {
        if (o.transport != "auto") throw;
        if (o.log) o.log(std::string("no exchanges by ") + name + ": " + e.what());
      }
    };
    add("peercopy", [&] {
      memory = std::make_unique<CudaPeerMemory>(port.device());
      // throws where CUDA can't share memory between processes
      const Tensor trial = Tensor::zeros({1}, DType::f32, port.device());
      (void)memory->share({.data = trial.data(), .bytes = trial.bytes()});
      copies = std::make_unique<PeerCopyMaker>(port, *memory);
    });
    add("nccl", [&] {
      nccl = nccl_port(port);
      by_nccl = std::make_unique<NcclChannelMaker>(rank, port, *nccl, o.nccl_ctas, machine_id());
    });
  }

  SideChannel& side_channel;
  std::unique_ptr<CudaPeerMemory> memory;
  std::unique_ptr<NcclPort> nccl;
  std::unique_ptr<PeerCopyMaker> copies;
  std::unique_ptr<NcclChannelMaker> by_nccl;
  std::unique_ptr<BestChannel> best;
  std::unique_ptr<GpuPayload> payload;  // destroyed first: its thread uses all of it
};

struct Setup {
  explicit Setup(Device device) : port(device) {}
  CudaPort port;
  std::unique_ptr<NcclPort> nccl;  // of sums
  std::unique_ptr<Edges> edges;
};

// Why NCCL would refuse these workers; empty: it would not. All of them call this together. It
// tells GPUs of one machine apart by their bus, and machines by NCCL_HOSTID: two workers on one GPU
// of one "machine" are an error of usage, which shows only when the communicator is being made.
std::string shared_gpu(Group& group, Device device, const std::string& hostid) {
  const std::string uuid = cuda::properties(device).uuid;
  const auto n = static_cast<std::size_t>(group.size());
  std::vector<double> all(n, 0);
  all[static_cast<std::size_t>(group.rank())] =
      1 + static_cast<double>(std::hash<std::string>()(uuid + hostid) >> 12);
  group.collectives().all_reduce_sum(all);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t k = i + 1; k < n; ++k)
      if (all[i] > 0 && all[i] == all[k])
        return "workers " + std::to_string(i) + " and " + std::to_string(k) +
               " share a GPU: NCCL wants a different NCCL_HOSTID for each, set "
               "before they start";
  return {};
}

// True if all workers can sum by NCCL. All of them call this together.
bool sums_by_nccl(Group& group, Setup& setup, const GpuOptions& o) {
  std::string why;  // this worker has no NCCL
  const std::string shared = shared_gpu(group, setup.port.device(), o.nccl_hostid);
  try {
    if (o.transport == "host")
      why = "transport=host";
    else if (o.deterministic)
      why = "the order of NCCL's sums is not fixed, and the run is deterministic";
    else if (group.side_channel() == nullptr)
      why = group.why_no_side_channel();
    else if (!shared.empty())
      why = shared;
    else
      setup.nccl = nccl_port(setup.port);
  } catch (const Error& e) {
    why = e.what();
  }
  std::vector<double> able = {why.empty() ? 1.0 : 0.0};
  group.collectives().all_reduce_sum(able);
  const int all = group.collectives().members();
  const bool usable = static_cast<int>(able[0]) == all;
  if (!usable && why.empty())
    why = "of " + std::to_string(all) + " workers only " +
          std::to_string(static_cast<int>(able[0])) + " can use NCCL";
  check<DistError>(usable || o.transport != "nccl", "transport=nccl is not possible: ", why);
  if (o.log)
    o.log(usable ? "gradients are summed by NCCL " + nccl_version()
                 : "gradients are summed over the host: " + why);
  return usable;
}

// What `auto` means where NCCL is not used.
GpuOptions without_nccl_if_encrypted(GpuOptions o) {
  if (!o.encrypted || o.transport != "auto") return o;
  o.transport = "host";
  if (o.log && o.traffic != GpuTraffic::rounds)
    o.log(
        "NCCL does not encrypt, so what goes between machines goes over the host; on a network of "
        "your own trust_network=true lets it be used");
  return o;
}

}  // namespace

void check_gpu_options(const GpuOptions& o) {
  check<ConfigError>(o.transport == "auto" || o.transport == "nccl" || o.transport == "peercopy" ||
                         o.transport == "host",
                     "transport=", o.transport,
                     " is unknown; known are: auto, nccl, peercopy, host");
  check<ConfigError>(
      !o.encrypted || o.transport != "nccl",
      "transport=nccl between machines: NCCL does not encrypt, and these workers do "
      "(tls). Join the machines by a network that encrypts, such as WireGuard, or use "
      "one that nobody else can reach, and say trust_network=true; or use "
      "transport=auto or host");
  check<ConfigError>(
      o.nccl_ctas >= 0 && o.nccl_ctas <= 32 && (o.nccl_ctas & (o.nccl_ctas - 1)) == 0,
      "nccl_ctas=", o.nccl_ctas, "; it must be 1, 2, 4, 8, 16 or 32, or 0: as many as NCCL likes");
  check<ConfigError>(o.traffic != GpuTraffic::all_reduce || o.transport != "peercopy",
                     "transport=peercopy is for exchanges of two; sums of gradients go "
                     "over nccl or host");
  check<ConfigError>(
      o.traffic != GpuTraffic::all_reduce || o.transport != "nccl" || !o.deterministic,
      "transport=nccl sums in an order that depends on the machines and on NCCL's "
      "version, so a deterministic run can't use it: use auto or host");
  check<ConfigError>(
      o.traffic != GpuTraffic::rounds || o.transport == "auto" || o.transport == "host",
      "transport=", o.transport,
      " is for gossip, each worker at its own pace; methods that meet in rounds exchange over the "
      "host: use auto or host");
}

std::unique_ptr<Group> gpu_group(Group& host, Device device, const GpuOptions& given) {
  check_gpu_options(given);
  const GpuOptions o = without_nccl_if_encrypted(given);
  const auto setup = std::make_shared<Setup>(device);
  DeviceGroup::Parts parts{.host = host, .port = setup->port, .device = device, .keep = setup};
  const auto say = [&](const std::string& line) {
    if (o.log) o.log(line);
  };
  switch (o.traffic) {
    case GpuTraffic::rounds:
      parts.stream = DevicePort::Stream::compute;
      say("rounds are exchanged over the host");
      break;
    case GpuTraffic::gossip: {
      const bool by_edges = o.transport != "host" && host.side_channel() != nullptr;
      const std::string why = o.transport == "host" ? "transport=host" : host.why_no_side_channel();
      check<ConfigError>(by_edges || o.transport == "host" || o.transport == "auto",
                         "transport=", o.transport, " is not possible: ", why,
                         "; use auto or host");
      if (by_edges) {
        setup->edges = std::make_unique<Edges>(host, setup->port, o);
        parts.edges = setup->edges->payload.get();
      } else {
        say("exchanges go over the host: " + why);
      }
      break;
    }
    case GpuTraffic::all_reduce: {
      const bool by_nccl = sums_by_nccl(host, *setup, o);
      parts.stream = DevicePort::Stream::compute;
      parts.reducer = [setup, by_nccl, ctas = o.nccl_ctas, limit = o.collective_timeout_s](
                          Group& group, std::size_t buckets) -> std::unique_ptr<Reducer> {
        GpuReducer::Parts sums{.group = group,
                               .port = setup->port,
                               .buckets = buckets,
                               .limit_s = limit,
                               .keep = setup};
        if (by_nccl) return std::make_unique<NcclReducer>(std::move(sums), *setup->nccl, ctas);
        return std::make_unique<StagedReducer>(std::move(sums));
      };
      break;
    }
  }
  return std::make_unique<DeviceGroup>(std::move(parts));
}

}  // namespace gossamer::dist
