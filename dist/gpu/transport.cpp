// What one worker's exchanges stand on.
#include "gossamer/dist/gpu/transport.h"

#include <cstring>
#include <functional>

#include "gossamer/core/cuda.h"
#include "gossamer/core/error.h"
#include "gossamer/dist/gpu/carrier.h"
#include "gossamer/dist/gpu/choice.h"
#include "gossamer/dist/gpu/cuda_port.h"
#include "gossamer/dist/gpu/nccl_channel.h"
#include "gossamer/dist/gpu/nccl_port.h"
#include "gossamer/dist/gpu/nccl_reducer.h"
#include "gossamer/dist/gpu/peer_memory.h"
#include "gossamer/dist/gpu/staged_rounds.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {

struct Setup {
  Setup(Group& g, i64 size, Device device, const GpuTransportOptions& o) : group(g), port(device) {
    const DType type = o.wire == "f16" ? DType::f16 : DType::f32;
    own = Tensor::empty({size}, type, device);
    theirs = Tensor::empty({size}, type, device);
    mailbox = o.transport == "host" ? nullptr : group.mailbox();
    if (mailbox == nullptr) {
      const std::string why =
          o.transport == "host" ? "dist.transport=host" : group.why_no_mailbox();
      check<ConfigError>(o.transport == "host" || o.transport == "auto",
                         "dist.transport=", o.transport, " can't be had: ", why,
                         "; use auto or host");
      staging = std::make_unique<HostStaging>(group, port, own, theirs);
      if (o.log) o.log("exchanges go over the host: " + why);
      return;
    }
    make_channels(o);
    choice = std::make_unique<GpuChoice>(
        group.rank(), makers,
        GpuChoice::Outside{.clock = wall_seconds,
                           .possible =
                               [](const std::string& name, const ChannelBytes& theirs) {
                                 return name != "peercopy" || CudaPeerMemory::is_near(theirs);
                               },
                           .log = o.log});
    payload = std::make_unique<GpuPayload>(
        group.rank(), port, [this](int) -> GpuChannelMaker& { return *choice; },
        GpuPayload::Outside{
            .send = [this](int peer, std::vector<char> letter) { mailbox->send(peer, letter); },
            .post = [this](Event e) { group.control().post(std::move(e)); },
            .clock = wall_seconds});
    mailbox->read(
        {.letter = [this](int peer, std::span<const char> bytes) { payload->letter(peer, bytes); },
         .dead = [this](int peer) { payload->dead(peer); }});
  }
  ~Setup() {
    if (mailbox) mailbox->read({});
  }

  // auto: what this machine does not have is left out, with a word about it.
  void make_channels(const GpuTransportOptions& o) {
    const bool any = o.transport == "auto";
    const auto add = [&](const char* name, auto make) {
      if (!any && o.transport != name) return;
      try {
        GpuChannelMaker* maker = make();
        makers.push_back(maker);
      } catch (const Error& e) {
        if (!any) throw;
        if (o.log) o.log(std::string("no exchanges by ") + name + ": " + e.what());
      }
    };
    add("peercopy", [&] {
      memory = std::make_unique<CudaPeerMemory>(own);
      copies = std::make_unique<PeerCopyMaker>(port, *memory);
      return copies.get();
    });
    add("nccl", [&] {
      nccl = nccl_port(port);
      edges = std::make_unique<NcclChannelMaker>(group.rank(), port, *nccl, o.ctas);
      return edges.get();
    });
  }

  Group& group;
  CudaPort port;
  Tensor own, theirs;
  std::unique_ptr<HostStaging> staging;
  Mailbox* mailbox = nullptr;
  std::unique_ptr<CudaPeerMemory> memory;
  std::unique_ptr<NcclPort> nccl;
  std::unique_ptr<PeerCopyMaker> copies;
  std::unique_ptr<NcclChannelMaker> edges;
  std::vector<GpuChannelMaker*> makers;
  std::unique_ptr<GpuChoice> choice;
  std::unique_ptr<GpuPayload> payload;  // destroyed first: its thread uses all of it
};

// Why NCCL would refuse these workers, all of whom call this; empty: it would not. It tells GPUs of
// one machine apart by their bus, and machines by NCCL_HOSTID: two workers on one GPU of one
// "machine" are an error of usage, which shows only when the communicator is being made.
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

}  // namespace

void check_gpu_transport(const GpuTransportOptions& o) {
  check<ConfigError>(o.transport == "auto" || o.transport == "nccl" || o.transport == "peercopy" ||
                         o.transport == "host",
                     "dist.transport=", o.transport,
                     " is unknown; known are: auto, nccl, peercopy, host");
  check<ConfigError>(o.wire == "f32" || o.wire == "f16", "dist.wire=", o.wire,
                     " is unknown; known are: f32, f16");
  check<ConfigError>(o.ctas >= 0 && o.ctas <= 32 && (o.ctas & (o.ctas - 1)) == 0,
                     "dist.nccl_ctas=", o.ctas,
                     "; it must be 1, 2, 4, 8, 16 or 32, or 0: as many as NCCL likes");
}

std::function<std::unique_ptr<Carrier>(Group&, i64)> gpu_carriers(
    Device device, const GpuTransportOptions& options) {
  check_gpu_transport(options);
  return [device, options](Group& group, i64 size) -> std::unique_ptr<Carrier> {
    const auto setup = std::make_shared<Setup>(group, size, device, options);
    return std::make_unique<GpuCarrier>(GpuCarrier::Parts{.port = setup->port,
                                                          .payload = setup->payload.get(),
                                                          .own = setup->own,
                                                          .theirs = setup->theirs,
                                                          .staging = setup->staging.get()},
                                        setup);
  };
}

std::function<std::unique_ptr<Reducer>(Group&, std::size_t)> gpu_reducers(
    Device device, const GpuTransportOptions& options) {
  check_gpu_transport(options);
  check<ConfigError>(options.transport != "peercopy",
                     "dist.transport=peercopy is for exchanges of two; train.method=allreduce sums "
                     "over nccl or host");
  check<ConfigError>(options.wire == "f32", "dist.wire=", options.wire,
                     " is for exchanges of two; train.method=allreduce sums gradients in f32");
  return [device, options](Group& group, std::size_t buckets) -> std::unique_ptr<Reducer> {
    struct Ports {
      explicit Ports(Device d) : device(d) {}
      CudaPort device;
      std::unique_ptr<NcclPort> nccl;
    };
    const auto ports = std::make_shared<Ports>(device);
    std::string why;  // this worker has no NCCL
    const std::string shared = shared_gpu(group, device, options.nccl_hostid);
    try {
      if (options.transport == "host")
        why = "dist.transport=host";
      else if (group.mailbox() == nullptr)
        why = group.why_no_mailbox();
      else if (!shared.empty())
        why = shared;
      else
        ports->nccl = nccl_port(ports->device);
    } catch (const Error& e) {
      why = e.what();
    }
    std::vector<double> able = {why.empty() ? 1.0 : 0.0};
    group.collectives().all_reduce_sum(able);
    const int all = group.collectives().members();
    const GpuReducer::Parts parts{.group = group,
                                  .port = ports->device,
                                  .buckets = buckets,
                                  .limit_s = options.collective_timeout_s,
                                  .keep = ports};
    const auto say = [&](const std::string& line) {
      if (options.log) options.log(line);
    };
    if (static_cast<int>(able[0]) == all) {
      say("gradients are summed by NCCL " + nccl_version());
      return std::make_unique<NcclReducer>(parts, *ports->nccl, options.ctas);
    }
    if (why.empty())
      why = "of " + std::to_string(all) + " workers only " +
            std::to_string(static_cast<int>(able[0])) + " can use NCCL";
    check<DistError>(options.transport != "nccl", "dist.transport=nccl can't be had: ", why);
    say("gradients are summed over the host: " + why);
    return std::make_unique<StagedReducer>(parts);
  };
}

std::function<std::unique_ptr<RoundCarrier>(Group&, int slots)> gpu_round_carriers(
    Device device, const GpuTransportOptions& options) {
  check_gpu_transport(options);
  check<ConfigError>(options.transport == "auto" || options.transport == "host",
                     "dist.transport=", options.transport,
                     " is for a2cid2 and adpsgd; methods that meet in rounds exchange over the "
                     "host: use auto or host");
  check<ConfigError>(options.wire == "f32", "dist.wire=", options.wire,
                     " is for a2cid2 and adpsgd; methods that meet in rounds exchange f32");
  return [device, log = options.log](Group& group, int slots) -> std::unique_ptr<RoundCarrier> {
    const auto port = std::make_shared<CudaPort>(device);
    if (log) log("rounds are exchanged over the host");
    return std::make_unique<StagedRounds>(group, *port, slots, port);
  };
}

}  // namespace gossamer::dist
