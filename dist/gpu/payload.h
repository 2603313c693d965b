// Exchanges of snapshots between GPUs: one thread that owns all edges of a worker (edge.h), makes
// all of its NCCL calls, watches the device and reads the messages of the other hosts. Neither
// training nor pairing ever waits for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>

#include "gossamer/dist/gpu/edge.h"
#include "gossamer/dist/transport.h"

namespace gossamer::dist {

class GpuPayload final : public Payload {
 public:
  struct Outside {
    // a message; in order, dropped if the connection is lost
    std::function<void(int peer, std::vector<char>)> send;
    std::function<void(Event)> post;  // Event{exchanged}
    std::function<double()> clock;    // seconds
  };
  // maker(peer): how bytes go to that peer; the makers live longer than this.
  GpuPayload(int self, DevicePort&, std::function<GpuChannelMaker&(int peer)> maker, Outside,
             const GpuEdge::Limits& = {});
  ~GpuPayload() override;  // aborts what is under way

  // --- the thread that trains or pairs
  // `send` is read behind what the exchange stream has been given so far. One at a time, with
  // any peer: kernels of NCCL wait for the other GPU, and two of them for each other. Both tensors
  // go, and have one size. ok also means that both sides have it, and that the distance of the two
  // snapshots is finite. DistError if one is under way, or if the device is lost (wedged, or an
  // error of the device).
  void exchange(int peer, std::uint64_t session, const Tensor& send, const Tensor& receive,
                std::span<const char> note, Seconds deadline) override;
  void abort(int peer, std::uint64_t from_session = 0) override;
  void drain(Seconds limit) override;  // until none is under way

  // --- any thread
  // what the other side's `send` was given
  void message(int peer, std::span<const char>);
  // its connection was lost; messages that come later are of a new one
  void dead(int peer);

 private:
  struct Input {
    enum class Kind : std::uint8_t { message, dead, abort } kind;
    int peer;
    EdgeMessage message;
  };
  void run();
  void take(const std::vector<Input>&, std::optional<std::pair<int, GpuEdge::Request>>);
  void collect();
  void inspect();
  void post(int peer, const GpuEdge::Result&);
  Seconds pause() const;
  GpuEdge& edge(int peer);

  const int self_;
  DevicePort& port_;
  const std::function<GpuChannelMaker&(int)> maker_;
  const Outside outside_;
  const GpuEdge::Limits limits_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Input> inputs_;
  std::optional<std::pair<int, GpuEdge::Request>> wanted_;
  // peer and session of the exchange that was asked for, until its event is posted
  std::optional<std::pair<int, std::uint64_t>> under_way_;
  bool closing_ = false;
  std::string lost_;  // why no exchange is possible any more
  // of the exchange under way, or the last; kept for a device that never let go of them
  Tensor send_, receive_;
  const DevicePort::Event taken_;
  std::atomic<double> distance_ = 0;

  std::map<int, GpuEdge> edges_;  // of the thread
  std::thread thread_;
};

}  // namespace gossamer::dist
