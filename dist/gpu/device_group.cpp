// Which call goes to the device's way, and which to the host's.
#include "gossamer/dist/gpu/device_group.h"

#include "gossamer/core/cuda.h"
#include "gossamer/dist/gpu/gpu_reducer.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {

// Tensors of the device go one way, all others the host's.
class DevicePayload final : public Payload {
 public:
  DevicePayload(Payload& host, Payload& of_device, Device device)
      : host_(host), of_device_(of_device), device_(device) {}
  void exchange(int peer, std::uint64_t session, const Tensor& send, const Tensor& receive,
                std::span<const char> note, Seconds deadline) override {
    const auto on_device = [&](const Tensor& t) { return t.defined() && t.device() == device_; };
    Payload& way = on_device(send) || on_device(receive) ? of_device_ : host_;
    way.exchange(peer, session, send, receive, note, deadline);
  }
  void abort(int peer, std::uint64_t from_session) override {
    of_device_.abort(peer, from_session);
    host_.abort(peer, from_session);
  }
  void drain(Seconds limit) override {
    of_device_.drain(limit);
    host_.drain(limit);
  }

 private:
  Payload &host_, &of_device_;
  const Device device_;
};

// The host's link; ends of transfers whose tensors are still on their way to the device are kept
// back.
class DeviceLink final : public ControlLink {
 public:
  DeviceLink(ControlLink& host, Staged& staged) : host_(host), staged_(staged) {}
  void send(int peer, const Message& m) override { host_.send(peer, m); }
  Event next(Seconds timeout) override {
    const double until = wall_seconds() + timeout.count();
    for (Seconds left = timeout;; left = Seconds(std::max(0.0, until - wall_seconds()))) {
      Event e = host_.next(left);
      if (e.kind == Event::Kind::none) return e;
      if (std::optional<Event> passed = staged_.pass(std::move(e))) return *passed;
    }
  }
  void post(Event e) override { host_.post(std::move(e)); }
  bool alive(int peer) const override { return host_.alive(peer); }
  std::optional<double> notice(Notice what, int peer) const override {
    return host_.notice(what, peer);
  }
  std::optional<ClockEstimate> clock_offset(int peer, double at_us) const override {
    return host_.clock_offset(peer, at_us);
  }

 private:
  ControlLink& host_;
  Staged& staged_;
};

// Over pinned memory: the host waits for the device once in each.
class DeviceCollectives final : public Collectives {
 public:
  explicit DeviceCollectives(Group& host) : host_(host) {}
  void all_reduce_sum(const Tensor& x) override {
    on_host(x, [&](const Tensor& t) { host_.collectives().all_reduce_sum(t); });
  }
  void all_reduce_sum(std::span<double> x, Seconds patience) override {
    host_.collectives().all_reduce_sum(x, patience);
  }
  void broadcast(const Tensor& x, int root) override {
    on_host(x, [&](const Tensor& t) { host_.collectives().broadcast(t, root); });
  }
  void all_gather(const Tensor& own, const Tensor& all) override {
    host_.collectives().all_gather(own, all);
  }
  void all_to_all(const Tensor& from, const Tensor& to) override {
    host_.collectives().all_to_all(from, to);
  }
  void barrier() override { host_.collectives().barrier(); }
  int members() const override { return host_.collectives().members(); }
  void interrupt() override { host_.collectives().interrupt(); }

 private:
  template <class F>
  static void on_host(const Tensor& x, F collective) {
    if (x.device().is_cpu()) return collective(x);
    const auto block = cuda::allocate_pinned(x.bytes());
    Tensor host = Tensor::wrap(block->data, x.shape(), x.dtype(), [block] {});
    host.copy_from(x);
    collective(host);
    Tensor(x).copy_from(host);
  }
  Group& host_;
};

}  // namespace

struct DeviceGroup::Impl {
  explicit Impl(const Parts& p)
      : staged(p.edges ? nullptr : std::make_unique<Staged>(p.host, p.port, p.stream)),
        payload(p.host.payload(), p.edges ? *p.edges : *staged, p.device),
        link(staged ? std::make_unique<DeviceLink>(p.host.control(), *staged) : nullptr),
        collectives(p.host) {}
  std::unique_ptr<Staged> staged;
  DevicePayload payload;
  std::unique_ptr<DeviceLink> link;
  DeviceCollectives collectives;
};

DeviceGroup::DeviceGroup(const Parts& parts)
    : keep_(parts.keep),
      host_(parts.host),
      port_(parts.port),
      reducer_(parts.reducer),
      impl_(std::make_unique<Impl>(parts)) {}
DeviceGroup::~DeviceGroup() = default;

ControlLink& DeviceGroup::control() {
  return impl_->link ? static_cast<ControlLink&>(*impl_->link) : host_.control();
}
Payload& DeviceGroup::payload() { return impl_->payload; }
Collectives& DeviceGroup::collectives() { return impl_->collectives; }
std::unique_ptr<Reducer> DeviceGroup::reducer(std::size_t buckets) {
  if (reducer_) return reducer_(*this, buckets);
  return std::make_unique<StagedReducer>(
      GpuReducer::Parts{.group = *this, .port = port_, .buckets = buckets});
}

}  // namespace gossamer::dist
