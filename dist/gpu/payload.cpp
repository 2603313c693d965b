// The thread of a worker's GPU edges.
#include "gossamer/dist/gpu/payload.h"

#include <algorithm>
#include <cmath>

#include "gossamer/core/blocks.h"
#include "gossamer/core/error.h"
#include "gossamer/core/host_signals.h"
#include "gossamer/core/trace.h"
#include "gossamer/dist/time.h"

namespace gossamer::dist {
namespace {
// seconds between two looks at the device, while something is expected of it
constexpr double kLook = 50e-6;
constexpr double kLongestPause = 1;
}  // namespace

GpuPayload::GpuPayload(int self, DevicePort& port, std::function<GpuChannelMaker&(int)> maker,
                       Outside outside, const GpuEdge::Limits& limits)
    : self_(self),
      port_(port),
      maker_(std::move(maker)),
      outside_(std::move(outside)),
      limits_(limits),
      taken_(port.make_event()),
      thread_(start_thread([this] { run(); })) {}

GpuPayload::~GpuPayload() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void GpuPayload::exchange(int peer, std::uint64_t session, const Tensor& send,
                          const Tensor& receive, std::span<const char> note, Seconds deadline) {
  check_exchange(peer, send, receive, note);
  check<ShapeError>(send.defined() && receive.defined() && send.numel() == receive.numel() &&
                        send.dtype() == receive.dtype(),
                    "exchange with worker ", peer,
                    " between GPUs: both tensors must go, and have one size and type");
  {
    const std::scoped_lock lock(mutex_);
    check<DistError>(lost_.empty(), "worker ", self_, ": no more exchanges between GPUs: ", lost_);
    check<DistError>(!under_way_, "exchange with worker ", peer, ": the last one is not finished");
    port_.record(taken_, DevicePort::Stream::exchange);
    under_way_.emplace(peer, session);
    send_ = send;
    receive_ = receive;
    wanted_.emplace(peer,
                    GpuEdge::Request{.session = session,
                                     .send = send.data(),
                                     .receive = receive.data(),
                                     .bytes = send.bytes(),
                                     .snapshot = taken_,
                                     .note = {note.begin(), note.end()},
                                     .inspect = [this] { inspect(); },
                                     .sound = [this] { return std::isfinite(distance_.load()); },
                                     .until = outside_.clock() + deadline.count()});
  }
  changed_.notify_all();
}

// Both sides compute the same number, so both see an infinity.
void GpuPayload::inspect() {
  port_.run(DevicePort::Stream::exchange, [this] {
    distance_ = send_.dtype() == DType::f32
                    ? squared_distance(send_, receive_)
                    : squared_distance(send_.to(DType::f32), receive_.to(DType::f32));
  });
}

void GpuPayload::abort(int peer, std::uint64_t) {
  const std::scoped_lock lock(mutex_);
  inputs_.push_back({Input::Kind::abort, peer, {}});
  changed_.notify_all();
}

void GpuPayload::drain(Seconds limit) {
  std::unique_lock lock(mutex_);
  check<DistError>(changed_.wait_for(lock, limit, [&] { return !under_way_; }), "worker ", self_,
                   ": an exchange between GPUs did not end within ", limit.count(), " s");
}

void GpuPayload::message(int peer, std::span<const char> bytes) {
  Input input{Input::Kind::message, peer, {}};
  // of another build, or damaged on purpose: it is as if it was never said
  if (decode(bytes, input.message) != nullptr) return;
  const std::scoped_lock lock(mutex_);
  inputs_.push_back(std::move(input));
  changed_.notify_all();
}

void GpuPayload::dead(int peer) {
  const std::scoped_lock lock(mutex_);
  inputs_.push_back({Input::Kind::dead, peer, {}});
  changed_.notify_all();
}

// --- the thread

GpuEdge& GpuPayload::edge(int peer) {
  const auto found = edges_.find(peer);
  if (found != edges_.end()) return found->second;
  return edges_
      .emplace(std::piecewise_construct, std::forward_as_tuple(peer),
               std::forward_as_tuple(self_, peer, port_, maker_(peer), limits_))
      .first->second;
}

void GpuPayload::run() {
  trace::name_thread("gpu exchange");
  const PreciseSleep precise;
  try {
    for (;;) {
      std::vector<Input> inputs;
      std::optional<std::pair<int, GpuEdge::Request>> wanted;
      {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, pause(), [&] { return closing_ || !inputs_.empty() || wanted_; });
        if (closing_) break;
        inputs = std::exchange(inputs_, {});
        wanted = std::exchange(wanted_, std::nullopt);
      }
      take(inputs, std::move(wanted));
      for (auto& [peer, e] : edges_) e.poll(outside_.clock());
      collect();
    }
    // The end: what is under way is given up, and the device has a while to let go.
    for (auto& [peer, e] : edges_) e.peer_dead(outside_.clock());
    const auto moves = [](const auto& e) {
      return e.second.watches_device() && !e.second.wedged();
    };
    for (const double until = outside_.clock() + limits_.abort_s;
         std::ranges::any_of(edges_, moves) && outside_.clock() < until;) {
      for (auto& [peer, e] : edges_) e.poll(outside_.clock());
      std::this_thread::sleep_for(Seconds(kLook));
    }
    collect();
  } catch (const std::exception& e) {
    // the device failed: its buffers are not touched any more, and no exchange comes through
    std::optional<std::pair<int, std::uint64_t>> ends;
    {
      const std::scoped_lock lock(mutex_);
      lost_ = e.what();
      ends = under_way_;
    }
    if (ends)
      post(ends->first, {.session = ends->second, .ok = false, .why = e.what(), .note = {}});
  }
  const std::scoped_lock lock(mutex_);
  if (lost_.empty()) lost_ = "they are closed";
  under_way_.reset();
  changed_.notify_all();
}

// In the order in which all of it came. An exchange is begun last: messages for it that are here
// already are kept by its edge.
void GpuPayload::take(const std::vector<Input>& inputs,
                      std::optional<std::pair<int, GpuEdge::Request>> wanted) {
  const double now = outside_.clock();
  for (const Input& input : inputs) {
    GpuEdge& e = edge(input.peer);
    switch (input.kind) {
      case Input::Kind::message:
        e.receive(input.message, now);
        break;
      case Input::Kind::dead:
        e.peer_dead(now);
        break;
      case Input::Kind::abort:
        if (wanted && wanted->first == input.peer)
          wanted->second.until = now;
        else
          e.give_up(now);
        break;
    }
  }
  if (wanted) edge(wanted->first).begin(std::move(wanted->second), now);
}

void GpuPayload::collect() {
  for (auto& [peer, e] : edges_) {
    for (const EdgeMessage& message : e.take_messages()) outside_.send(peer, encode(message));
    if (const auto result = e.take_result()) post(peer, *result);
    if (e.wedged()) {
      const std::scoped_lock lock(mutex_);
      lost_ = "the exchange with worker " + std::to_string(peer) +
              " never let go of the GPU; start this worker again";
    }
  }
}

void GpuPayload::post(int peer, const GpuEdge::Result& result) {
  {
    const std::scoped_lock lock(mutex_);
    under_way_.reset();
  }
  changed_.notify_all();
  Event done;
  done.kind = Event::Kind::exchanged;
  done.peer = peer;
  done.session = result.session;
  done.ok = result.ok;
  done.why = result.why;
  done.note = result.note;
  if (done.ok) done.squared_distance = distance_;
  outside_.post(done);
}

Seconds GpuPayload::pause() const {
  double until = outside_.clock() + kLongestPause;
  for (const auto& [peer, e] : edges_) {
    if (e.watches_device() && !e.wedged()) return Seconds(kLook);
    until = std::min(until, e.deadline());
  }
  return Seconds(std::max(kLook, until - outside_.clock()));
}

}  // namespace gossamer::dist
