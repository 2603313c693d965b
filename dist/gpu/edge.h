// One edge between two GPUs: it opens a channel, exchanges over it, and survives the other side. A
// state machine without thread, clock or socket: calls and messages in, messages and results out.
// It starts work on the device and asks about it later, so a test can drive it through any order of
// events (tests/dist/gpu/edge_test.cpp).
//
//   idle -> [clearing -> opening -> joining ->]
//           arming -> ready -> moving -> inspecting -> confirming -> idle
//
//   clearing     an old channel lets go of its buffers
//   opening      the two hosts tell each other what the channel needs (open, offer)
//   joining      the channel opens
//   arming       until our own snapshot is taken; then this side says `ready`
//   ready        until both have said `ready` for the same session and channel
//   moving       the transfer runs on the device
//   inspecting   the device looks at what came: is it finite?
//   confirming   this side has said `moved`; until the other one has
//
// Phase one, READY. Nothing is launched before both hosts have said `ready`. So a kernel of ours
// waits for the other GPU a round trip at most, never for its computation.
//
// Phase two, MOVED. What came counts only when both hosts have said `moved`, and `moved` is final.
// A side that cannot wait any longer asks with `withdraw`. The answer is `moved`, if that was on
// its way already, or `abort`. So both sides apply an exchange or neither does, unless the control
// connection breaks at that instant; the result then says that the other side may have applied it.
//
// A channel on which a launch did not end well is aborted, and the exchange ends when the device
// has let go of its buffers. The next exchange opens a new channel. A side that still holds the old
// one learns that from the other's `open`, or from a `ready` of another generation.
#pragma once

#include <optional>
#include <utility>

#include "gossamer/dist/gpu/channel.h"
#include "gossamer/dist/gpu/edge_message.h"

namespace gossamer::dist {

class GpuEdge {
 public:
  struct Limits {
    double grace_s = 2;   // for the answer to `withdraw`
    double abort_s = 30;  // for an aborted channel to let go of the buffers
  };
  struct Request {
    std::uint64_t session = 0;   // agreed by both sides, not used twice between them
    const void* send = nullptr;  // device memory; both until the result
    void* receive = nullptr;
    std::size_t bytes = 0;
    DevicePort::Event snapshot = 0;  // `send` is written when it is done
    std::vector<char> note;          // for the other host
    // enqueues what is to be known of `receive` on the exchange stream; may be empty
    std::function<void()> inspect;
    std::function<bool()> sound;  // whether it may be applied; called once that work is done
    double until = 0;             // seconds, as `now`
  };
  struct Result {
    std::uint64_t session = 0;
    bool ok = false;
    std::string why;         // not ok
    std::vector<char> note;  // ok: of the other host
  };
  enum class Phase : std::uint8_t {
    idle,
    opening,
    joining,
    arming,
    ready,
    moving,
    inspecting,
    confirming,
    clearing
  };

  GpuEdge(int self, int peer, DevicePort&, GpuChannelMaker&, const Limits&);
  ~GpuEdge();

  // Each may throw what the device throws: then the GPU is lost for this process.
  void begin(Request, double now);  // DistError unless idle
  void receive(const EdgeMessage&, double now);
  void give_up(double now);  // this worker wants the result soon
  // the connection was lost: nothing of what was said over it holds any more
  void peer_dead(double now);
  void poll(double now);  // looks at the device and the clock

  Phase phase() const { return phase_; }
  bool watches_device() const;  // poll() should be called soon
  double deadline() const;      // poll() should be called then at the latest
  // An aborted channel did not let go within abort_s: it may write to the buffers of its exchange
  // for ever, and the exchange stream may be stuck.
  bool wedged() const { return wedged_; }
  std::vector<EdgeMessage> take_messages() { return std::exchange(messages_, {}); }
  std::optional<Result> take_result() { return std::exchange(result_, std::nullopt); }

 private:
  bool lower() const { return self_ < peer_; }
  Sent sent() const { return {.data = request_.send, .bytes = request_.bytes}; }
  bool advance();
  void say(EdgeMessage::Kind, std::vector<char> bytes = {}, std::uint64_t generation = 0);
  void reopen();
  void say_open();
  void join(const ChannelBytes& theirs);
  void on_open(const EdgeMessage&);
  void on_ready(const EdgeMessage&);
  void arm();
  std::string unlike(const EdgeMessage& ready) const;
  void launch();
  void arrived();
  void confirm();
  void fail(const std::string& why, bool tell);
  void end(Result);
  Result failure(const std::string& why) const;
  std::string in_doubt(const std::string& why) const;
  void retire();
  void drop_retired();
  std::string late() const;

  const int self_, peer_;
  DevicePort& port_;
  GpuChannelMaker& maker_;
  const Limits limits_;
  DevicePort::Event inspected_;
  double now_ = 0;

  std::unique_ptr<GpuChannel> channel_, retiring_;
  std::uint64_t generation_ = 0;  // of channel_
  bool wedged_ = false;

  // The exchange under way.
  Phase phase_ = Phase::idle;
  Request request_;
  ChannelBytes own_offer_;
  std::optional<ChannelBytes> peer_open_;  // the higher side waits for our offer
  std::optional<EdgeMessage> peer_ready_;
  bool launched_ = false, peer_moved_ = false, withdrew_ = false;
  std::optional<Result> ending_;  // clearing: what comes after it; none: opening
  double clear_until_ = 0;

  std::vector<EdgeMessage> early_;  // of a session that has not begun here, in order
  std::vector<EdgeMessage> messages_;
  std::optional<Result> result_;
};

}  // namespace gossamer::dist
