// Exchanges of tensors on a GPU over the host: device -> pinned memory -> another Payload ->
// pinned memory -> device. The one place where tensors are staged, for snapshots as for pieces of
// rounds. Copies have the exchange stream for themselves; a thread watches them, so that neither
// the caller nor the compute stream ever waits for one that is not due:
//
//   compute   - bwd -[written]- next update - bwd ... fwd k+1 - bwd k+1 ----------- mix - update
//   exchange  .............. copy out [copied] ...... copy in, |send - receive|^2 [landed]
//   thread            polls, launches   polls, sends                        polls, posts
//   host      - exchange() - goes on, reads the next batch ........... next() -- enqueues mix
//
// A copy out is launched when the tensor is written, not behind an event: copies in that come first
// need not wait for the computation then. A tensor that goes to several peers is copied once. The
// squared distance comes along with the copy in, so the methods' statistics cost no wait.
#pragma once

#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gossamer/dist/device_port.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class Staged final : public Payload {
 public:
  // Over `host`'s payload and link. stream: whose work so far `send` waits for. Both outlive it.
  Staged(Group& host, DevicePort&, DevicePort::Stream stream);
  // until no copy touches the tensors any more; after drain()
  ~Staged() override;

  // DistError if the device has failed.
  void exchange(int peer, std::uint64_t session, const Tensor& send, const Tensor& receive,
                std::span<const char> note, Seconds deadline) override;
  void abort(int peer, std::uint64_t from_session = 0) override;
  void drain(Seconds limit) override;
  // What the host's link says passes through here: nullopt for the end of a transfer whose tensor
  // is still on its way to the device. Its own event follows.
  std::optional<Event> pass(Event);

 private:
  // A tensor on its way to the host, for one or several exchanges.
  struct Outgoing {
    enum class At : std::uint8_t { device, moving, host } at = At::device;
    Tensor tensor;
    std::shared_ptr<Block> host;  // pinned
    DevicePort::Event written = 0, copied = 0;
    int users = 0;
  };
  struct Exchange {
    // travelling: until the host payload's event
    enum class At : std::uint8_t { waiting, travelling, landing } at = At::waiting;
    int peer = 0;
    std::uint64_t session = 0;
    std::list<Outgoing>::iterator out;  // outgoing_.end(): nothing is sent
    Tensor receive, distance;           // distance: f32 [1]
    std::shared_ptr<Block> host;        // pinned: what comes, then the distance
    std::vector<char> note;
    double until = 0;
    bool given_up = false;
    DevicePort::Event asked = 0, landed = 0;
    Event end{};  // landing
  };
  using Exchanges = std::list<Exchange>;

  void run();
  bool look();  // true: something is expected of the device soon
  bool look(Outgoing&);
  bool look(Exchanges::iterator);
  void start(Exchanges::iterator);
  void land(Exchange&);
  void end(Exchanges::iterator, Event);
  void fail(Exchanges::iterator, const std::string& why);
  void release(std::list<Outgoing>::iterator);
  std::list<Outgoing>::iterator outgoing(const Tensor& send);
  bool is_next(Exchanges::iterator) const;
  DevicePort::Event event();
  std::shared_ptr<Block> pinned(std::size_t bytes);
  void give_back(std::shared_ptr<Block>);

  Group& group_;
  DevicePort& port_;
  const DevicePort::Stream stream_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  std::list<Outgoing> outgoing_;
  Exchanges exchanges_;  // in the order of the calls
  std::vector<DevicePort::Event> spare_events_;
  std::vector<std::shared_ptr<Block>> spare_blocks_;
  std::string lost_;  // the device failed: why
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace gossamer::dist
